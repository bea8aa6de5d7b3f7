/** Consumer groups as the answers show them. */

import type { GroupPartitionRow, GroupQueue, GroupRow } from '../runtime/mod.ts';
import { isoTime } from './iso-time.ts';

const usPerSecond = 1_000_000;
/** A group whose oldest message is older is called lagging. */
const laggingSeconds = 300;

function seconds(us: number): number {
  return Math.floor(us / usPerSecond);
}

function timeOrNull(us: number): string | null {
  return us > 0 ? isoTime(us) : null;
}

/** Three fractional digits, as the contract has it here. */
function millisecondTime(us: number): string | null {
  return us > 0 ? `${isoTime(us).slice(0, 23)}Z` : null;
}

function stateOf(row: GroupRow): string {
  if (row.members === 0) return 'Dead';
  return seconds(row.oldestAgeUs) > laggingSeconds ? 'Lagging' : 'Stable';
}

/** Where the group starts, and whether it is paused. */
function registrationJson(row: GroupRow): object {
  return {
    subscriptionMode: row.registered ? row.mode : null,
    subscriptionTimestamp: row.registered ? timeOrNull(row.sinceUs) : null,
    subscriptionCreatedAt: isoTime(row.createdAtUs),
    conflation: row.conflation,
    paused: row.pausedAtUs > 0,
    pausedAt: timeOrNull(row.pausedAtUs),
    queuePaused: row.queuePausedAtUs > 0,
  };
}

/** A row of the list of groups. */
export function groupJson(row: GroupRow): object {
  return {
    name: row.group,
    topics: [row.queue],
    queueName: row.queue,
    members: row.members,
    partitionCursors: row.partitionCursors,
    partitionsWithLag: row.partitionsBehind,
    totalLag: row.pending,
    lagIsExact: row.isCountExact,
    maxTimeLag: seconds(row.oldestAgeUs),
    state: stateOf(row),
    storage: 'segments',
    kind: 'queen',
    ...registrationJson(row),
  };
}

/** One queue of a group's detail. */
export function groupQueueJson(queue: GroupQueue, leaseId: (stamp: number) => string | null): object {
  return {
    kind: 'queen',
    members: queue.row.members,
    totalLag: queue.row.pending,
    partitionsWithLag: queue.row.partitionsBehind,
    lagIsExact: queue.row.isCountExact,
    ...registrationJson(queue.row),
    partitions: queue.partitions.map((row) => ({
      partition: row.partition,
      partitionId: String(row.pid),
      workerId: leaseId(row.leaseStamp),
      lastConsumedAt: null,
      totalConsumed: row.totalConsumed,
      nextOffset: row.next,
      offsetLag: row.pending,
      timeLagSeconds: seconds(row.oldestAgeUs),
      leaseActive: row.leaseStamp > 0,
      paused: row.pausedAtUs > 0,
    })),
    partitionsTotal: queue.partitionsTotal,
    partitionsTruncated: queue.partitionsThrough < queue.partitionsTotal,
  };
}

/** A partition in which a group is behind. */
export function laggingJson(row: GroupPartitionRow, leaseId: (stamp: number) => string | null): object {
  const lagSeconds = seconds(row.oldestAgeUs);
  return {
    consumer_group: row.group,
    queue_name: row.queue,
    partition_name: row.partition,
    partition_id: row.id,
    worker_id: leaseId(row.leaseStamp),
    kind: 'queen',
    offset_lag: row.pending,
    time_lag_seconds: lagSeconds,
    lag_hours: Math.round((lagSeconds / 3600) * 100) / 100,
    oldest_unconsumed_at: millisecondTime(row.oldestUs),
    last_consumed_at: null,
    paused: row.pausedAtUs > 0,
  };
}
