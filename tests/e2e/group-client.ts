/** The routes about consumer groups, as the tests call them. */
import assert from 'node:assert/strict';
import type { Answer, BrokerClient } from './broker-client.ts';

export interface GroupListRow {
  readonly name: string;
  readonly topics: string[];
  readonly queueName: string;
  readonly members: number;
  readonly partitionCursors: number;
  readonly partitionsWithLag: number;
  readonly totalLag: number;
  readonly lagIsExact: boolean;
  readonly maxTimeLag: number;
  readonly state: string;
  readonly kind: string;
  readonly subscriptionMode: string | null;
  readonly subscriptionTimestamp: string | null;
  readonly subscriptionCreatedAt: string;
  readonly conflation: boolean;
  readonly paused: boolean;
  readonly queuePaused: boolean;
}

export interface GroupQueueBody {
  readonly totalLag: number;
  readonly partitionsWithLag: number;
  readonly subscriptionMode: string | null;
  readonly paused: boolean;
  readonly partitionsTotal: number;
  readonly partitionsTruncated: boolean;
  readonly partitions: {
    readonly partition: string;
    readonly partitionId: string;
    readonly workerId: string | null;
    readonly lastConsumedAt: null;
    readonly totalConsumed: number;
    readonly nextOffset: number | null;
    readonly offsetLag: number;
    readonly timeLagSeconds: number;
    readonly leaseActive: boolean;
    readonly paused: boolean;
  }[];
}

export interface SeekBody {
  readonly success: boolean;
  readonly error?: string;
  readonly consumerGroup: string;
  readonly queueName: string;
  readonly partitionName: string | null;
  readonly seekToEnd: boolean;
  readonly targetTimestamp: string | null;
  readonly targetOffset: number | null;
  readonly partitionsUpdated: number;
  readonly updated?: boolean;
}

export interface DeleteGroupBody {
  readonly success: boolean;
  readonly consumerGroup: string;
  readonly queueName: string | null;
  readonly deletedPartitions: number;
  readonly metadataDeleted: boolean;
  readonly queues: string[];
}

const root = '/api/v1/consumer-groups';

export function groupPath(group: string, queue?: string, partition?: string): string {
  const parts = [root, encodeURIComponent(group)];
  if (queue !== undefined) parts.push('queues', encodeURIComponent(queue));
  if (partition !== undefined) parts.push('partitions', encodeURIComponent(partition));
  return parts.join('/');
}

/** A seek that must succeed. `target` undefined = no body. */
export async function seek(
  client: BrokerClient,
  group: string,
  queue: string,
  target?: object,
  partition?: string,
): Promise<SeekBody> {
  const answer = await askSeek(client, group, queue, target, partition);
  assert.equal(answer.status, 200, `seek answered ${answer.status}: ${answer.bytes.toString()}`);
  assert.equal('error' in answer.body, false);
  return answer.body;
}

export function askSeek(
  client: BrokerClient,
  group: string,
  queue: string,
  target?: object,
  partition?: string,
): Promise<Answer<SeekBody>> {
  const parts = target === undefined ? {} : { json: target };
  return client.request<SeekBody>('POST', `${groupPath(group, queue, partition)}/seek`, parts);
}

export async function deleteGroup(
  client: BrokerClient,
  group: string,
  queue?: string,
  deleteMetadata?: string,
): Promise<DeleteGroupBody> {
  const query = deleteMetadata === undefined ? '' : `?deleteMetadata=${deleteMetadata}`;
  const answer = await client.request<DeleteGroupBody>('DELETE', groupPath(group, queue) + query);
  assert.equal(answer.status, 200, `deleting answered ${answer.status}: ${answer.bytes.toString()}`);
  assert.equal('error' in answer.body, false);
  return answer.body;
}

export async function listGroups(client: BrokerClient): Promise<GroupListRow[]> {
  const answer = await client.request<GroupListRow[]>('GET', root);
  assert.equal(answer.status, 200);
  return answer.body;
}

/** The row of a group on a queue in the list. */
export async function groupRow(client: BrokerClient, group: string, queue: string): Promise<GroupListRow | undefined> {
  return (await listGroups(client)).find((row) => row.name === group && row.queueName === queue);
}

export async function describeGroup(
  client: BrokerClient,
  group: string,
  query = '',
): Promise<Record<string, GroupQueueBody>> {
  const answer = await client.request<Record<string, GroupQueueBody>>('GET', groupPath(group) + query);
  assert.equal(answer.status, 200, `the group's detail answered ${answer.status}: ${answer.bytes.toString()}`);
  return answer.body;
}

/** Pauses or resumes what the path names; answers whether that changed anything. */
export async function setPaused(client: BrokerClient, path: string, paused: boolean): Promise<boolean> {
  const answer = await client.request<{ paused: boolean; changed: boolean }>(
    'POST',
    `${path}/${paused ? 'pause' : 'resume'}`,
  );
  assert.equal(answer.status, 200, `${path} answered ${answer.status}: ${answer.bytes.toString()}`);
  assert.equal(answer.body.paused, paused);
  return answer.body.changed;
}

export const queuePath = (queue: string): string => `/api/v1/resources/queues/${encodeURIComponent(queue)}`;
export const partitionPath = (queue: string, partition: string): string =>
  `${queuePath(queue)}/partitions/${encodeURIComponent(partition)}`;
