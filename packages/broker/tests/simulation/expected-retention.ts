/**
 * Retention once more, for the auditor: which worlds have it, which appends may be gone, and which partitions. The broker
 * removes by itself, with no answer to anybody, so the model takes over what the state shows, when the rules allow it.
 */
import type { QueueOptions } from '@lanemq/protocol';
import type { BrokerState } from '../../src/core/mod.ts';
import type { HousekeepingOptions } from '../../src/runtime/mod.ts';
import type { ExpectedPartition, ExpectedQueue } from './expected-state.ts';
import { SimulatedRandom } from './simulated-random.ts';

export interface RetentionWorld {
  /** Clients set retention options. */
  readonly isOn: boolean;
  readonly housekeeping: HousekeepingOptions;
}

/** Drawn from a stream of its own: the other draws of a seed stay as they are. */
export function drawRetention(seed: number): RetentionWorld {
  const random = new SimulatedRandom(seed, 8);
  const one = <Value>(...values: Value[]): Value => values[random.integer(values.length)];
  return {
    isOn: random.chance(0.5),
    housekeeping: {
      intervalMs: one(50, 300, 1000, 5000),
      cleanupUs: one(0, 0, 500_000, 2_000_000),
      relocatedBytesPerSecond: one(10_000, 1_000_000, 100_000_000),
    },
  };
}

type RetentionOptions = { -readonly [K in keyof QueueOptions]?: QueueOptions[K] | null };

/** Options that a client may set in a world with retention. */
export function retentionOptions(random: SimulatedRandom): RetentionOptions {
  const one = <Value>(...values: Value[]): Value => values[random.integer(values.length)];
  return {
    retentionEnabled: random.chance(0.8),
    retentionSeconds: one(0, 0, 1, 3),
    completedRetentionSeconds: one(0, 1, 2),
    maxWaitTimeSeconds: one(0, 0, 0, 2, 5),
  };
}

const usPerSecond = 1_000_000;

/** The age at which appends go whatever their groups did; 0 = never. */
export function ageUsOf(options: QueueOptions): number {
  const ages = [options.retentionEnabled ? options.retentionSeconds : 0, options.maxWaitTimeSeconds];
  const set = ages.filter((seconds) => seconds > 0);
  return set.length === 0 ? 0 : Math.min(...set) * usPerSecond;
}

export function completedUsOf(options: QueueOptions): number {
  return options.retentionEnabled ? options.completedRetentionSeconds * usPerSecond : 0;
}

/** The committed offsets a group may have in a partition. */
export type Positions = (partition: ExpectedPartition, group: string) => readonly number[];

/** Why the partition may not begin at `logStart` now; null when it may. */
export function trimObjection(
  partition: ExpectedPartition,
  logStart: number,
  nowUs: number,
  positions: Positions,
): string | null {
  const { queue } = partition;
  if (logStart < partition.logStart) return `it began at ${partition.logStart} before`;
  for (const append of partition.appends) {
    if (append.last < partition.logStart) continue;
    if (append.first >= logStart) return append.first === logStart ? null : 'it begins inside an append';
    if (queue.mayHaveGone(append.stampUs, nowUs)) continue;
    const groups = new Set([
      ...partition.cursors.keys(),
      ...[...queue.subscriptions].filter(([, { registered }]) => registered).map(([group]) => group),
    ]);
    const areDone = [...groups].every((group) => Math.max(-1, ...positions(partition, group)) >= append.last);
    if (groups.size === 0 || !areDone || !queue.mayBeCompleted(append.stampUs, nowUs)) {
      return `the append of offsets ${append.first} to ${append.last} is kept`;
    }
  }
  return logStart === partition.last + 1 ? null : 'it begins behind its end';
}

/** True when the partition may have been deleted because nobody used it. */
export function mayBeCleaned(partition: ExpectedPartition, nowUs: number, cleanupUs: number): boolean {
  if (cleanupUs === 0 || partition.newestStampUs > nowUs - cleanupUs) return false;
  return (
    partition.logStart === partition.last + 1 ||
    partition.appends.every(({ stampUs }) => mayGo(partition.queue, stampUs, nowUs))
  );
}

function mayGo(queue: ExpectedQueue, stampUs: number, nowUs: number): boolean {
  return queue.mayHaveGone(stampUs, nowUs) || queue.mayBeCompleted(stampUs, nowUs);
}

/** Counters that the broker keeps, counted again from its tables. Returns what disagrees, or null. */
export function miscount(state: BrokerState): string | null {
  const { partitions, cursors } = state;
  for (const queue of state.queues.values()) {
    let records = 0;
    let bytes = 0;
    const pending = new Map<number, number>();
    const placedRecords = new Map<number, number>();
    for (let i = 0; i < queue.laneCount; i++) {
      const lane = queue.lanes[i];
      if (i > 0 && partitions.pid[lane] <= partitions.pid[queue.lanes[i - 1]])
        return `${queue.name} lists its partitions out of order`;
      const kept = partitions.nextOffset[lane] - partitions.logStart[lane];
      if (kept === 0 && partitions.retainedBytes[lane] !== 0)
        return `an empty partition of ${queue.name} retains bytes`;
      records += kept;
      bytes += partitions.retainedBytes[lane];
      for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
        if ((cursors.flags[row] & 1) === 0) continue;
        const subscription = cursors.subscription[row];
        const left = partitions.nextOffset[lane] - 1 - Math.max(cursors.committed[row], partitions.logStart[lane] - 1);
        pending.set(subscription, (pending.get(subscription) ?? 0) + left);
        placedRecords.set(subscription, (placedRecords.get(subscription) ?? 0) + kept);
      }
    }
    if (queue.retainedRecords !== records)
      return `${queue.name} retains ${records} records, not ${queue.retainedRecords}`;
    if (queue.retainedBytes !== bytes) return `${queue.name} retains ${bytes} bytes, not ${queue.retainedBytes}`;
    for (const { number, group, placedPending, placedRecords: placed } of queue.subscriptions) {
      if (placedPending !== (pending.get(number) ?? 0)) {
        return `${group} has ${pending.get(number) ?? 0} records to do in ${queue.name}, not ${placedPending}`;
      }
      if (placed !== (placedRecords.get(number) ?? 0)) {
        return `${group} is placed before ${placedRecords.get(number) ?? 0} records of ${queue.name}, not ${placed}`;
      }
    }
  }
  return null;
}
