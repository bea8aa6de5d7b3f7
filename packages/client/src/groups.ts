/** Moving, deleting and pausing of groups, and pausing of queues and partitions. */
import { badArgument, objectIn, pathSegment } from './answers.ts';
import type { Transport } from './transport.ts';
import type { GroupDeletion, GroupStart, PauseResult, SeekResult } from './wire.ts';

/** Where a seek puts a group. What lies outside of what a partition holds is cut to its ends. */
export type SeekTarget =
  | { readonly toEnd: true }
  | { readonly toBeginning: true }
  /** ISO-8601: the first message of that time or later is next. */
  | { readonly timestamp: string }
  /** The next message to read. */
  | { readonly offset: number };

/** What is paused: a queue, one partition of it, or a group on it. */
export interface PauseTarget {
  readonly queue: string;
  readonly partition: string | null;
  readonly group: string | null;
}

export function groupPath(group: string, queue: string | null, partition: string | null = null): string {
  const ofQueue = queue === null ? '' : `/queues/${pathSegment(queue)}`;
  const ofPartition = partition === null ? '' : `/partitions/${pathSegment(partition || 'Default')}`;
  return `/api/v1/consumer-groups/${pathSegment(group)}${ofQueue}${ofPartition}`;
}

export async function seekGroup(
  transport: Transport,
  group: string,
  queue: string,
  partition: string | null,
  target: SeekTarget,
): Promise<SeekResult> {
  const path = `${groupPath(group, queue, partition)}/seek`;
  return objectIn(await transport.send({ method: 'POST', path, body: target }));
}

export async function deleteGroup(
  transport: Transport,
  group: string,
  queue: string | null,
  deleteMetadata: boolean,
): Promise<GroupDeletion> {
  const path = `${groupPath(group, queue)}?deleteMetadata=${deleteMetadata}`;
  return objectIn(await transport.send({ method: 'DELETE', path }));
}

export async function startGroupFrom(transport: Transport, group: string, timestamp: string): Promise<GroupStart> {
  const path = `${groupPath(group, null)}/subscription`;
  return objectIn(await transport.send({ method: 'POST', path, body: { subscriptionTimestamp: timestamp } }));
}

export async function setPaused(transport: Transport, target: PauseTarget, paused: boolean): Promise<PauseResult> {
  const { queue, partition, group } = target;
  if (partition !== null && group !== null) throw badArgument('pause a partition or a group, not both at once');
  const ofPartition = partition === null ? '' : `/partitions/${pathSegment(partition || 'Default')}`;
  const place =
    group === null ? `/api/v1/resources/queues/${pathSegment(queue)}${ofPartition}` : groupPath(group, queue);
  return objectIn(await transport.send({ method: 'POST', path: `${place}/${paused ? 'pause' : 'resume'}` }));
}
