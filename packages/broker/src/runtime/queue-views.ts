/** Builds the answers of the read routes from the state. */
import {
  type BrokerState,
  defaultGroup,
  idText,
  partitionIdIndex,
  type Queue,
  queueIdIndex,
  type Schedule,
  type Subscription,
} from '../core/mod.ts';
import { utf8Text } from './text.ts';
import type { MessageCounts, PartitionDetail, QueueDetail, QueueSummary } from './views.ts';

/** Partitions that one detail answer lists. */
export const partitionsListedMax = 1000;

/** Ids of queues and partitions as text: their numbers, masked like message ids. */
export function queueId(state: BrokerState, queue: Queue): string {
  return idText(state.identity, queue.createdAtUs, queue.number, queueIdIndex);
}

export function partitionId(state: BrokerState, lane: number): string {
  return idText(state.identity, state.partitions.createdAtUs[lane], state.partitions.pid[lane], partitionIdIndex);
}

/** The group by which a queue's pending messages are counted: the worst named one, else queue mode. */
function countedSubscription(queue: Queue): Subscription | undefined {
  let worst: Subscription | undefined;
  for (const subscription of queue.subscriptions) {
    if (subscription.group === defaultGroup) continue;
    if (worst === undefined || subscription.pending() > worst.pending()) worst = subscription;
  }
  return worst ?? queue.subscription(defaultGroup);
}

/** Records under live leases, by subscription number. */
export function leasedRecords(state: BrokerState, schedule: Schedule): Map<number, number> {
  const leased = new Map<number, number>();
  const { cursors } = state;
  schedule.deadlines.forEach((row) => {
    if (!cursors.hasLiveLease(row, schedule.nowUs)) return;
    const count = leasedIn(state, row);
    const subscription = cursors.subscription[row];
    leased.set(subscription, (leased.get(subscription) ?? 0) + count);
  });
  return leased;
}

/** Records under the lease of a row that are still there. */
function leasedIn(state: BrokerState, row: number): number {
  const { cursors, partitions } = state;
  const before = Math.max(cursors.committed[row], partitions.logStart[cursors.lane[row]] - 1);
  return Math.max(0, cursors.leaseEnd[cursors.claim[row]] - before);
}

function countsOf(total: number, unsettled: number, processing: number, deadLetter: number): MessageCounts {
  return {
    total,
    pending: Math.max(0, unsettled - processing),
    processing,
    completed: Math.max(0, total - unsettled),
    deadLetter,
  };
}

export function summarize(
  state: BrokerState,
  queue: Queue,
  leased: ReadonlyMap<number, number>,
  segmentCount: number,
): QueueSummary {
  const counted = countedSubscription(queue);
  const unsettled = counted === undefined ? queue.retainedRecords : counted.pending();
  const processing = counted === undefined ? 0 : (leased.get(counted.number) ?? 0);
  return {
    id: queueId(state, queue),
    name: queue.name,
    namespace: queue.namespace,
    task: queue.task,
    createdAtUs: queue.createdAtUs,
    partitionCount: queue.laneCount,
    segmentCount,
    messages: countsOf(queue.retainedRecords, unsettled, processing, queue.deadLetterCount),
    retainedBytes: queue.retainedBytes,
    options: queue.options,
    pausedAtUs: queue.pausedAtUs,
  };
}

export function describeQueue(state: BrokerState, schedule: Schedule, queue: Queue, segmentCount: number): QueueDetail {
  const partitions: PartitionDetail[] = [];
  const deadByPid = new Map<number, number>();
  if (queue.deadLetterCount > 0) {
    for (const row of state.deadLetters.all()) {
      if (row.queueNumber === queue.number) deadByPid.set(row.pid, (deadByPid.get(row.pid) ?? 0) + 1);
    }
  }
  for (let i = 0; i < Math.min(queue.laneCount, partitionsListedMax); i++) {
    partitions.push(describePartition(state, schedule, queue.lanes[i], deadByPid));
  }
  return { ...summarize(state, queue, leasedRecords(state, schedule), segmentCount), partitions };
}

function describePartition(
  state: BrokerState,
  schedule: Schedule,
  lane: number,
  deadByPid: ReadonlyMap<number, number>,
): PartitionDetail {
  const { partitions, cursors } = state;
  const total = partitions.nextOffset[lane] - partitions.logStart[lane];
  // The group that is furthest behind counts; queue mode only when there is no named one.
  let worst = -1;
  let worstCommitted = Number.POSITIVE_INFINITY;
  let worstIsNamed = false;
  for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
    const subscription = state.subscriptionOf(row);
    // The rows of a deleted group stay for a while.
    if (subscription === undefined) continue;
    const isNamed = subscription.group !== defaultGroup;
    if (worst >= 0 && worstIsNamed && !isNamed) continue;
    if (worst < 0 || (isNamed && !worstIsNamed) || cursors.committed[row] < worstCommitted) {
      worst = row;
      worstCommitted = cursors.committed[row];
      worstIsNamed = isNamed;
    }
  }
  const committed = Math.max(worst < 0 ? -1 : worstCommitted, partitions.logStart[lane] - 1);
  const unsettled = partitions.nextOffset[lane] - 1 - committed;
  const isLeased = worst >= 0 && cursors.hasLiveLease(worst, schedule.nowUs);
  const processing = isLeased ? leasedIn(state, worst) : 0;
  return {
    id: partitionId(state, lane),
    pid: partitions.pid[lane],
    name: utf8Text(partitions.nameBytes(lane)),
    createdAtUs: partitions.createdAtUs[lane],
    firstWriteAtUs: partitions.oldestStampUs(lane),
    lastWriteAtUs: partitions.lastStampUs[lane],
    counts: countsOf(total, unsettled, processing, deadByPid.get(partitions.pid[lane]) ?? 0),
    totalConsumed: worst < 0 ? 0 : cursors.totalConsumed[worst],
    batchesConsumed: worst < 0 ? 0 : cursors.batchesConsumed[worst],
    retainedBytes: partitions.retainedBytes[lane],
    pausedAtUs: state.pausedPartitions.get(partitions.pid[lane]) ?? 0,
  };
}
