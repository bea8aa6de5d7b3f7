/** Builds the answers about queues from the state. Everything that can be long is a walk, see walk.ts. */
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
import { blocksOf, boundsOf, standingOf } from './group-standing.ts';
import type {
  LabelTotals,
  MessageCounts,
  OverviewView,
  PartitionDetail,
  PartitionPage,
  QueueDepth,
  QueueDetail,
  QueueList,
  QueuePage,
  QueueSizes,
  QueueSummary,
} from './views.ts';
import { type Walk, walkStepRows } from './walk.ts';

/** What a view looks at. */
export interface Sight {
  readonly state: BrokerState;
  readonly schedule: Schedule;
  readonly segmentCount: number;
}

/** Ids of queues and partitions as text: their numbers, masked like message ids. */
export function queueId(state: BrokerState, queue: Queue): string {
  return idText(state.identity, queue.createdAtUs, queue.number, queueIdIndex);
}

export function partitionId(state: BrokerState, lane: number): string {
  return idText(state.identity, state.partitions.createdAtUs[lane], state.partitions.pid[lane], partitionIdIndex);
}

/** The group by which a queue's pending messages are counted: the worst named one, else queue mode. */
export function countedSubscription(queue: Queue): Subscription | undefined {
  let worst: Subscription | undefined;
  for (const subscription of queue.subscriptions) {
    if (subscription.group === defaultGroup) continue;
    if (worst === undefined || subscription.pending() > worst.pending()) worst = subscription;
  }
  return worst ?? queue.subscription(defaultGroup);
}

/**
 * Records under live leases, by subscription number. The deadlines are walked by place: with more leases than one turn
 * looks at, those that come and go meanwhile may be missed.
 */
export function* leasedRecords({ state, schedule }: Sight): Generator<number, Map<number, number>, undefined> {
  const leased = new Map<number, number>();
  const { cursors } = state;
  const { deadlines } = schedule;
  for (let place = 0; place < deadlines.count; place++) {
    if (place % walkStepRows === walkStepRows - 1) yield walkStepRows;
    const row = deadlines.rowAt(place);
    if (row < 0 || !cursors.hasLiveLease(row, schedule.nowUs)) continue;
    const count = leasedIn(state, row);
    const subscription = cursors.subscription[row];
    leased.set(subscription, (leased.get(subscription) ?? 0) + count);
  }
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

function countQueue(queue: Queue, leased: ReadonlyMap<number, number>): MessageCounts {
  const counted = countedSubscription(queue);
  const unsettled = counted === undefined ? queue.retainedRecords : counted.pending();
  const processing = counted === undefined ? 0 : (leased.get(counted.number) ?? 0);
  return countsOf(queue.retainedRecords, unsettled, processing, queue.deadLetterCount);
}

export function summarize(sight: Sight, queue: Queue, leased: ReadonlyMap<number, number>): QueueSummary {
  return {
    id: queueId(sight.state, queue),
    name: queue.name,
    namespace: queue.namespace,
    task: queue.task,
    createdAtUs: queue.createdAtUs,
    partitionCount: queue.laneCount,
    segmentCount: sight.segmentCount,
    messages: countQueue(queue, leased),
    retainedBytes: queue.retainedBytes,
    options: queue.options,
    pausedAtUs: queue.pausedAtUs,
  };
}

/** A summary costs as much as so many rows of a walk. */
const summaryRows = 20;

/** Hands each queue of the page to `row`, newest first. */
export function* listQueues(
  sight: Sight,
  page: QueuePage,
  row: (queue: QueueSummary) => void,
): Generator<number, QueueList, undefined> {
  const { state } = sight;
  const leased = page.counted ? yield* leasedRecords(sight) : new Map<number, number>();
  const numbers = [...state.queueByNumber.keys()].reverse();
  yield walkStepRows;
  let shown = 0;
  for (const [place, number] of numbers.entries()) {
    const queue = state.queueByNumber.get(number);
    if (queue === undefined || place < page.offset) continue;
    if (shown === page.limit) return { total: numbers.length, isWhole: false };
    row(summarize(sight, queue, leased));
    shown++;
    yield summaryRows;
  }
  return { total: numbers.length, isWhole: true };
}

/** Shows each lane behind `after` to `visit`, until that says false. */
export function* walkLanes(
  state: BrokerState,
  queue: Queue,
  after: number,
  visit: (lane: number) => boolean,
): Generator<number, undefined, undefined> {
  let at = after;
  // A queue that is deleted meanwhile has no lanes any more that mean anything.
  while (state.queueByNumber.get(queue.number) === queue) {
    const first = state.laneIndexAfter(queue, at);
    const end = Math.min(queue.laneCount, first + walkStepRows);
    if (first >= end) return;
    for (let i = first; i < end; i++) if (!visit(queue.lanes[i])) return;
    at = state.partitions.pid[queue.lanes[end - 1]];
    yield end - first;
  }
}

/** A partition in a detail costs as much as so many rows of a walk. */
const detailRows = 5;

export function* describeQueue(sight: Sight, queue: Queue, page: PartitionPage): Walk<QueueDetail> {
  const { state, schedule } = sight;
  const leased = yield* leasedRecords(sight);
  const partitions: PartitionDetail[] = [];
  let next: number | null = null;
  yield* walkLanes(state, queue, page.after, (lane) => {
    if (partitions.length === page.limit) {
      next = partitions[page.limit - 1].pid;
      return false;
    }
    partitions.push(describePartition(state, schedule, lane));
    return true;
  });
  yield partitions.length * detailRows;
  return { ...summarize(sight, queue, leased), partitions, partitionsNext: next };
}

function describePartition(state: BrokerState, schedule: Schedule, lane: number): PartitionDetail {
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
    name: partitions.nameText(lane),
    createdAtUs: partitions.createdAtUs[lane],
    firstWriteAtUs: partitions.oldestStampUs(lane),
    lastWriteAtUs: partitions.lastStampUs[lane],
    counts: countsOf(total, unsettled, processing, state.deadLetters.countOfPid(partitions.pid[lane])),
    totalConsumed: worst < 0 ? 0 : cursors.totalConsumed[worst],
    batchesConsumed: worst < 0 ? 0 : cursors.batchesConsumed[worst],
    retainedBytes: partitions.retainedBytes[lane],
    pausedAtUs: state.pausedPartitions.get(partitions.pid[lane]) ?? 0,
  };
}

/** How much of a queue one group has before it. `partitions` lists those with anything, behind `page.after`. */
export function* measureDepth(
  sight: Sight,
  stampOf: (lane: number, offset: number) => number,
  queue: Queue,
  group: string,
  page: PartitionPage,
): Walk<QueueDepth> {
  const { state, schedule } = sight;
  const depth: Mutable<QueueDepth> = {
    queue: queue.name,
    group,
    pending: 0,
    processing: 0,
    ready: 0,
    partitionsPending: 0,
    partitionsReady: 0,
    partitionsPaused: 0,
    blockedBy: blocksOf(state, queue, queue.subscription(group), null, schedule.nowUs),
    bounds: boundsOf(queue, queue.subscription(group), schedule.nowUs),
    conflation: queue.subscription(group)?.conflation ?? false,
    partitions: [],
    partitionsNext: null,
  };
  const rows: QueueDepth['partitions'][number][] = [];
  const { pid: pids } = state.partitions;
  let lastShown = 0;
  yield* walkLanes(state, queue, 0, (lane) => {
    const standing = standingOf(state, schedule.nowUs, stampOf, queue, queue.subscription(group), lane);
    if (standing.pending === 0 && standing.processing === 0) return true;
    const { ready } = standing;
    const isPaused = state.pausedPartitions.has(pids[lane]);
    depth.pending += standing.pending;
    depth.processing += standing.processing;
    depth.ready += ready;
    if (standing.pending > 0) depth.partitionsPending++;
    if (ready > 0) depth.partitionsReady++;
    if (isPaused) depth.partitionsPaused++;
    if (pids[lane] <= page.after) return true;
    if (rows.length === page.limit) {
      depth.partitionsNext = lastShown;
      return true;
    }
    lastShown = pids[lane];
    rows.push({
      partition: state.partitions.nameText(lane),
      pid: lastShown,
      pending: standing.pending,
      processing: standing.processing,
      ready,
      paused: isPaused,
    });
    return true;
  });
  return { ...depth, partitions: rows };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export function* measureSizes(state: BrokerState, queue: Queue, page: PartitionPage): Walk<QueueSizes> {
  const partitions: { name: string; bytes: number }[] = [];
  let last = 0;
  let next: number | null = null;
  yield* walkLanes(state, queue, page.after, (lane) => {
    if (partitions.length === page.limit) {
      next = last;
      return false;
    }
    last = state.partitions.pid[lane];
    partitions.push({
      name: state.partitions.nameText(lane),
      bytes: state.partitions.retainedBytes[lane],
    });
    return true;
  });
  return { queue: queue.name, retainedBytes: queue.retainedBytes, partitions, partitionsNext: next };
}

/** Sums over all queues, and by label. */
export function* overview(sight: Sight): Walk<OverviewView> {
  const { state } = sight;
  const leased = yield* leasedRecords(sight);
  const namespaces = new Map<string, LabelTotals>();
  const tasks = new Map<string, LabelTotals>();
  const sum: MessageCounts = { total: 0, pending: 0, processing: 0, completed: 0, deadLetter: 0 };
  const lags = new Float64Array(state.queues.size);
  let looked = 0;
  for (const queue of state.queues.values()) {
    const counts = countQueue(queue, leased);
    for (const name of Object.keys(sum) as (keyof MessageCounts)[]) sum[name] += counts[name];
    if (looked < lags.length) lags[looked] = counts.pending;
    addLabel(namespaces, queue.namespace, queue, counts);
    addLabel(tasks, queue.task, queue, counts);
    if (++looked % walkStepRows === 0) yield walkStepRows * 2;
  }
  lags.sort();
  return {
    queues: state.queues.size,
    partitions: state.partitions.count,
    namespaces: [...namespaces.values()],
    tasks: [...tasks.values()],
    messages: sum,
    offsetLag: {
      avg: lags.length === 0 ? 0 : Math.round(lags.reduce((total, lag) => total + lag, 0) / lags.length),
      median: lags[lags.length >>> 1] ?? 0,
      min: lags[0] ?? 0,
      max: lags[lags.length - 1] ?? 0,
    },
    nowUs: sight.schedule.nowUs,
  };
}

function addLabel(into: Map<string, LabelTotals>, label: string, queue: Queue, counts: MessageCounts): void {
  let totals = into.get(label);
  if (totals === undefined) {
    totals = { label, queues: 0, partitions: 0, total: 0, pending: 0 };
    into.set(label, totals);
  }
  totals.queues++;
  totals.partitions += queue.laneCount;
  totals.total += counts.total;
  totals.pending += counts.pending;
}
