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
    const count = cursors.leaseEnd[cursors.claim[row]] - cursors.committed[row];
    const subscription = cursors.subscription[row];
    leased.set(subscription, (leased.get(subscription) ?? 0) + count);
  });
  return leased;
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
  };
}

export function describeQueue(state: BrokerState, schedule: Schedule, queue: Queue, segmentCount: number): QueueDetail {
  const partitions: PartitionDetail[] = [];
  for (let i = 0; i < Math.min(queue.laneCount, partitionsListedMax); i++) {
    partitions.push(describePartition(state, schedule, queue.lanes[i]));
  }
  return { ...summarize(state, queue, leasedRecords(state, schedule), segmentCount), partitions };
}

function describePartition(state: BrokerState, schedule: Schedule, lane: number): PartitionDetail {
  const { partitions, cursors } = state;
  const total = partitions.nextOffset[lane] - partitions.logStart[lane];
  // The group that is furthest behind counts; queue mode only when there is no named one.
  let worst = -1;
  let worstCommitted = Number.POSITIVE_INFINITY;
  let worstIsNamed = false;
  for (let row = partitions.firstCursor[lane]; row >= 0; row = cursors.nextOfLane[row]) {
    const isNamed = state.subscriptions.get(cursors.subscription[row])?.group !== defaultGroup;
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
  const processing = isLeased ? cursors.leaseEnd[cursors.claim[worst]] - cursors.committed[worst] : 0;
  return {
    id: partitionId(state, lane),
    pid: partitions.pid[lane],
    name: utf8Text(partitions.nameBytes(lane)),
    createdAtUs: partitions.createdAtUs[lane],
    // A partition comes into being with its first append, and nothing is removed from its start yet.
    firstWriteAtUs: total > 0 ? partitions.createdAtUs[lane] : 0,
    lastWriteAtUs: partitions.lastStampUs[lane],
    counts: countsOf(total, unsettled, processing, state.deadLetters.countOfPid(partitions.pid[lane])),
    totalConsumed: worst < 0 ? 0 : cursors.totalConsumed[worst],
    batchesConsumed: worst < 0 ? 0 : cursors.batchesConsumed[worst],
    retainedBytes: partitions.retainedBytes[lane],
  };
}
