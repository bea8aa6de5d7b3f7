/**
 * Pop: partitions that are ready are claimed, their next records delivered.
 *
 * One call is decided in one go, but may find that a partition's next block is not in memory. Such a row is set to
 * `loading` and handed to the caller in `missing`: nobody else gets it until its block was read and the row given back.
 * What else could be claimed is answered; only a pop that claimed nothing waits for the disk.
 */
import { limits } from '@lanemq/protocol';
import { assert } from './assert.ts';
import type { BrokerState } from './broker-state.ts';
import { cursorBit } from './cursor-table.ts';
import { type DecisionContext, ensureQueue, idLookup, nameRefusal } from './decision.ts';
import { fileDeadLetter } from './file-dead-letter.ts';
import { rateAllowance, returnRate, useRate } from './group-limits.ts';
import type { DeliveredPiece, DeliveredRun, PopOutcome, Refusal } from './outcomes.ts';
import { defaultGroup, type Queue, type Subscription, usPerSecond } from './queue.ts';
import { CursorRecord, type SubscriptionMode } from './records.ts';
import { taken } from './schedule.ts';

/** Where a pop looks for work. */
export type PopTarget =
  | { readonly kind: 'queue'; readonly queue: string }
  | {
      readonly kind: 'partition';
      readonly queue: string;
      readonly partition: string;
      /** UTF-8 of `partition` and its keyed hash. */
      readonly partitionBytes: Uint8Array;
      readonly partitionHash: number;
    }
  | { readonly kind: 'discover'; readonly namespace: string | null; readonly task: string | null };

export interface PopCommand {
  readonly target: PopTarget;
  readonly group: string;
  readonly groupBytes: number;
  readonly queueBytes: number;
  readonly batch: number | null;
  readonly partitions: number | null;
  readonly leaseSeconds: number | null;
  readonly subscriptionMode: 'new' | 'all';
  readonly subscriptionFrom: number | 'now' | null;
  readonly commitOnDelivery: boolean;
  readonly conflation: boolean;
  readonly autopilot: boolean;
  /** Stamp of the first decision on this pop: `new` starts there, however long the pop then waits. */
  readonly arrivedUs: number;
}

/** A row whose next block has to be read before it can be claimed. */
export interface MissingRow {
  readonly row: number;
  readonly lane: number;
  readonly pid: number;
  readonly offset: number;
  /** Records that are wanted from there. */
  readonly count: number;
  /** > 0: the position itself is unknown; it is before the first append with a stamp ≥ this. */
  readonly seekUs: number;
}

export interface PopDecision {
  readonly outcome: PopOutcome;
  readonly missing: readonly MissingRow[];
  /** The walk over a backlog has to go on: ask again in the next turn. */
  readonly unfinished: boolean;
  /** The group has as much of the queue as it may have: what is ready is claimed when there is room again. */
  readonly isLimited: boolean;
  /** Whom a waiting pop waits for; null = a partition that does not exist, or nobody (discover). */
  readonly subscription: Subscription | null;
}

const autopilotBatch = 200;
const autopilotPartitionsMax = 8;
const record = new CursorRecord();

export function decidePop(context: DecisionContext, command: PopCommand): PopDecision | Refusal {
  const tooLong = nameRefusal(
    command.queueBytes,
    Math.max(command.groupBytes, command.target.kind === 'partition' ? command.target.partitionBytes.length : 0),
    'consumerGroup',
  );
  if (tooLong !== null) return tooLong;
  switch (command.target.kind) {
    case 'queue':
      return popQueue(context, command, command.target.queue);
    case 'partition':
      return popPartition(context, command, command.target);
    case 'discover':
      return popDiscover(context, command, command.target);
  }
}

class Claims {
  readonly runs: DeliveredRun[] = [];
  readonly missing: MissingRow[] = [];
  unfinished = false;
  /** Partitions that gave nothing. */
  passed = 0;
  isLimited = false;
  /** Dead letters filed by this pop. */
  filed = 0;
  budget: number;
  bytesLeft: number = limits.popBytesMax;

  constructor(budget: number) {
    this.budget = budget;
  }
}

function popQueue(context: DecisionContext, command: PopCommand, queueName: string): PopDecision {
  const queue = ensureQueue(context, queueName);
  const subscription = register(context, queue, command);
  const conflated = subscription.conflation;
  const autopilot = command.autopilot && !command.conflation;
  const width = effectiveWidth(context, command, subscription, autopilot);
  const batch = effectiveBatch(command, autopilot);
  const claims = new Claims(conflated ? Math.min(batch, limits.conflatedMessagesMax) : batch);
  claimReady(context, command, subscription, claims, width);
  return {
    outcome: {
      ok: true,
      queue: queueName,
      group: command.group,
      leaseStamp: claims.runs.length > 0 && !command.commitOnDelivery ? context.nowUs : 0,
      runs: claims.runs,
      conflation: conflated,
      conflationConflict: command.conflation && !conflated,
      autopilot: autopilot ? { partitions: width, batch } : null,
    },
    missing: claims.missing,
    unfinished: claims.unfinished,
    isLimited: claims.isLimited,
    subscription,
  };
}

function effectiveBatch(command: PopCommand, autopilot: boolean): number {
  const batch = command.batch ?? (autopilot ? autopilotBatch : limits.popBatchDefault);
  return Math.min(Math.max(1, batch), limits.popBatchMax);
}

function effectiveWidth(
  context: DecisionContext,
  command: PopCommand,
  subscription: Subscription,
  autopilot: boolean,
): number {
  const byDefault = subscription.conflation
    ? (command.batch ?? limits.popBatchDefault)
    : autopilot
      ? Math.min(autopilotPartitionsMax, context.schedule.readyCount(subscription))
      : 1;
  return Math.min(Math.max(1, command.partitions ?? byDefault), limits.popPartitionsMax);
}

function popDiscover(
  context: DecisionContext,
  command: PopCommand,
  labels: { namespace: string | null; task: string | null },
): PopDecision {
  const found: Queue[] = [];
  for (const queue of context.state.queues.values()) {
    if (labels.namespace !== null && queue.namespace !== labels.namespace) continue;
    if (labels.task !== null && queue.task !== labels.task) continue;
    found.push(queue);
  }
  // Highest priority first; the sort is stable, so equals stay in creation order.
  found.sort((a, b) => b.options.priority - a.options.priority);
  const width = Math.min(Math.max(1, command.partitions ?? 1), limits.popPartitionsMax);
  const claims = new Claims(effectiveBatch(command, false));
  for (const queue of found) {
    const subscription = register(context, queue, command);
    if (claims.runs.length < width && claims.budget > 0) claimReady(context, command, subscription, claims, width);
  }
  return {
    outcome: {
      ok: true,
      queue: '',
      group: command.group,
      leaseStamp: claims.runs.length > 0 && !command.commitOnDelivery ? context.nowUs : 0,
      runs: claims.runs,
      conflation: false,
      conflationConflict: false,
      autopilot: null,
    },
    missing: claims.missing,
    unfinished: claims.unfinished,
    isLimited: claims.isLimited,
    subscription: null,
  };
}

function popPartition(
  context: DecisionContext,
  command: PopCommand,
  target: PopTarget & { kind: 'partition' },
): PopDecision {
  const { state, schedule } = context;
  const queue = state.queues.get(target.queue);
  const claims = new Claims(effectiveBatch(command, false));
  let subscription: Subscription | null = null;
  if (queue !== undefined) {
    subscription = queue.subscription(command.group) ?? null;
    if (command.conflation && !subscription?.registered) subscription = register(context, queue, command);
    const lane = state.partitions.find(
      queue.number,
      target.partitionHash,
      target.partitionBytes,
      0,
      target.partitionBytes.length,
    );
    if (lane >= 0) {
      subscription ??= subscribe(context, queue, command, false);
      let row = state.cursors.find(state.partitions.firstCursor[lane], subscription.number);
      if (row < 0) row = state.addCursor(lane, subscription);
      // Where an unplaced cursor starts may have been moved since it was looked at.
      if ((state.cursors.flags[row] & cursorBit.placed) === 0) schedule.evaluate(row);
      if (subscription.conflation) claims.budget = Math.min(claims.budget, limits.conflatedMessagesMax);
      // It is ready again after a claim that only passed expired records.
      while (
        !subscription.isPaused &&
        schedule.isReady(row) &&
        claims.runs.length === 0 &&
        claims.missing.length === 0 &&
        !claims.unfinished
      ) {
        if (!schedule.hasRoom(subscription, !command.commitOnDelivery, context.nowUs)) {
          claims.isLimited = true;
          break;
        }
        schedule.takeOut(row);
        claim(context, command, subscription, row, claims);
      }
    }
  }
  return {
    outcome: {
      ok: true,
      queue: target.queue,
      group: command.group,
      leaseStamp: claims.runs.length > 0 && !command.commitOnDelivery ? context.nowUs : 0,
      runs: claims.runs,
      conflation: subscription?.conflation ?? false,
      conflationConflict: command.conflation && !(subscription?.conflation ?? false),
      autopilot: null,
    },
    missing: claims.missing,
    unfinished: claims.unfinished,
    isLimited: claims.isLimited,
    subscription,
  };
}

/** The group's registration on the queue; made by this pop when there is none. */
function register(context: DecisionContext, queue: Queue, command: PopCommand): Subscription {
  const existing = queue.subscription(command.group);
  return existing?.registered ? existing : subscribe(context, queue, command, true);
}

function subscribe(context: DecisionContext, queue: Queue, command: PopCommand, registered: boolean): Subscription {
  const { state, journal, nowUs } = context;
  const start = requestedStart(command);
  const existing = queue.subscription(command.group);
  const number = existing?.number ?? state.nextSubscriptionNumber;
  journal.subscription({
    number,
    queueNumber: queue.number,
    group: command.group,
    mode: start.mode,
    sinceUs: start.sinceUs,
    conflation: command.conflation,
    registered,
    createdAtUs: existing?.createdAtUs ?? nowUs,
    // Records came between its pop and its registration: it has them to get, where it has no position yet.
    ...(start.mode === 'new' && queue.lastWriteUs >= start.sinceUs ? { restarted: true } : {}),
  });
  return state.subscriptions.get(number) as Subscription;
}

function requestedStart(command: PopCommand): { mode: SubscriptionMode; sinceUs: number } {
  if (command.group === defaultGroup) return { mode: 'all', sinceUs: 0 };
  if (typeof command.subscriptionFrom === 'number') return { mode: 'timestamp', sinceUs: command.subscriptionFrom };
  if (command.subscriptionFrom === 'now' || command.subscriptionMode === 'new') {
    return { mode: 'new', sinceUs: command.arrivedUs };
  }
  return { mode: 'all', sinceUs: 0 };
}

function claimReady(
  context: DecisionContext,
  command: PopCommand,
  subscription: Subscription,
  claims: Claims,
  width: number,
): void {
  while (claims.runs.length < width && claims.missing.length < width && claims.budget > 0) {
    if (!context.schedule.hasRoom(subscription, !command.commitOnDelivery, context.nowUs)) {
      claims.isLimited = true;
      return;
    }
    const row = context.schedule.take(subscription);
    if (row === taken.none) return;
    if (row === taken.unfinished) {
      claims.unfinished = true;
      return;
    }
    claim(context, command, subscription, row, claims);
    if (claims.unfinished) return;
  }
}

/**
 * Where an unplaced cursor starts: `committed`, or `idLookup.missing` when an append has to be searched for.
 * A registered group goes by its registration, another by the request.
 */
function seed(
  state: BrokerState,
  command: PopCommand,
  subscription: Subscription,
  lane: number,
): { committed: number; seekUs: number } {
  const { partitions } = state;
  const tail = partitions.nextOffset[lane] - 1;
  const start = subscription.registered ? subscription : requestedStart(command);
  if (start.mode === 'all') return { committed: partitions.logStart[lane] - 1, seekUs: 0 };
  if (partitions.lastStampUs[lane] < start.sinceUs) return { committed: tail, seekUs: 0 };
  return { committed: idLookup.missing, seekUs: start.sinceUs };
}

/** Claims a row that is ready and out of the ring: leases or commits its next run, or finds that it must wait. */
function claim(
  context: DecisionContext,
  command: PopCommand,
  subscription: Subscription,
  row: number,
  claims: Claims,
): void {
  const { state, schedule, journal, nowUs } = context;
  const { cursors, partitions } = state;
  const queue = subscription.queue;
  const lane = cursors.lane[row];
  const pid = partitions.pid[lane];
  cursors.read(row, pid, record);
  if ((cursors.flags[row] & cursorBit.placed) === 0) {
    const start = seed(state, command, subscription, lane);
    if (start.seekUs > 0) {
      const first = context.ids.firstFrom(lane, pid, start.seekUs);
      if (first === idLookup.missing) {
        claims.missing.push({ row, lane, pid, offset: 0, count: 0, seekUs: start.seekUs });
        schedule.setLoading(row);
        return;
      }
      record.committed = (first < 0 ? partitions.nextOffset[lane] : first) - 1;
    } else record.committed = start.committed;
  }
  record.committed = Math.max(record.committed, partitions.logStart[lane] - 1);
  const seeded = record.committed;
  const last = partitions.nextOffset[lane] - 1;
  const onlyNewest = subscription.conflation;
  beginRun(record.committed + 1, claims.budget);
  // One that was delivered before comes alone: if it ends its consumers, its neighbours are not charged for it. A commit at
  // delivery charges nobody.
  const wasDelivered = record.attemptCount > 0 && record.attemptOffset === record.committed + 1;
  if (queue.deliveriesMax > 0 && wasDelivered && !command.commitOnDelivery) run.max = 1;
  run.max = Math.min(run.max, rateAllowance(subscription, nowUs));
  if (onlyNewest) findNewest(context, queue, lane, last);
  else collect(context, queue, lane, last, claims);
  const { pieces, next, end, count, missingAt } = run;
  // Expired records are passed at once, also when what comes next has to be read: it is then all that is needed.
  if (missingAt >= 0 && run.expiredThrough < 0) {
    const wanted = onlyNewest ? last - missingAt + 1 : run.max;
    claims.missing.push({ row, lane, pid, offset: missingAt, count: wanted, seekUs: 0 });
    schedule.setLoading(row);
    return;
  }
  record.committed = Math.max(record.committed, run.expiredThrough);
  if (pieces.length === 0) {
    // Nothing that may be delivered: expired records are passed, a hold goes on, or the bytes of the answer are used up.
    if (record.committed !== seeded || (cursors.flags[row] & cursorBit.placed) === 0) {
      record.consumed = Math.max(0, record.committed - seeded);
      journal.cursor(record);
    } else if (run.heldUntilUs > 0) schedule.hold(row, run.heldUntilUs);
    else schedule.giveBack(row);
    // Nothing is said of what is only passed, so nothing else would bound it.
    if (run.skipped >= cancelledSkippedMax || ++claims.passed >= partitionsPassedMax) claims.unfinished = true;
    const isFull = missingAt < 0 && run.heldUntilUs === 0 && run.skipped === 0 && next <= last;
    if (claims.runs.length > 0 && isFull) claims.budget = 0;
    return;
  }
  // A conflated delivery is one of its newest record, others one of their first.
  const firstDelivered = onlyNewest && queue.deliveriesMax > 0 ? end - 1 : record.committed + 1;
  if (
    queue.deliveriesMax > 0 &&
    record.attemptOffset === firstDelivered &&
    record.attemptCount >= queue.deliveriesMax
  ) {
    giveUp(context, subscription, lane, firstDelivered, seeded, claims);
    return;
  }
  let attempt = 1;
  if (command.commitOnDelivery) {
    record.consumed = end - 1 - seeded;
    record.committed = end - 1;
    record.leaseStamp = 0;
    record.retryCount = 0;
    record.attemptCount = 0;
    record.attemptOffset = -1;
    record.heldUntilUs = 0;
    record.batchDone = true;
  } else {
    attempt = record.attemptOffset === firstDelivered ? record.attemptCount + 1 : 1;
    record.consumed = record.committed - seeded;
    record.leaseStamp = nowUs;
    record.leaseEnd = end - 1;
    record.expiresAtUs = nowUs + leaseUs(command, queue);
    record.conflated = onlyNewest;
    record.attemptOffset = firstDelivered;
    record.attemptCount = attempt;
    record.heldUntilUs = 0;
  }
  journal.cursor(record);
  useRate(subscription, count, nowUs);
  claims.budget -= count;
  const nameStart = partitions.nameStart(lane);
  const nameEnd = partitions.nameEnd(lane);
  claims.runs.push({ pid, names: partitions.names, nameStart, nameEnd, attempt, pieces });
}

/**
 * A record was delivered as often as it may be and never settled: it becomes a dead letter, unless the queue wants none,
 * and the group goes on behind it. The row is ready again for what follows.
 */
function giveUp(
  context: DecisionContext,
  subscription: Subscription,
  lane: number,
  offset: number,
  seeded: number,
  claims: Claims,
): void {
  const { blocks, state, journal, nowUs } = context;
  const { queue, group } = subscription;
  const { pid } = record;
  if (queue.options.deadLetterQueue || queue.options.dlqAfterMaxRetries) {
    const view = blocks.open(lane, pid, offset);
    assert(view !== undefined, 'what is given up was just collected');
    const index = offset - view.firstOffset;
    const ending = record.leaseStamp !== 0 ? 'the last lease ended without an ack' : 'it was last given back by an ack';
    fileDeadLetter(state, journal, {
      stampUs: nowUs,
      index: claims.filed++,
      queueNumber: queue.number,
      pid,
      group,
      offset,
      error: `delivered ${record.attemptCount} times without being settled (maxDeliveries ${queue.deliveriesMax}): ${ending}`,
      retryCount: record.retryCount,
      partition: state.partitions.nameText(lane),
      idHigh: view.hashHigh(index),
      idLow: view.hashLow(index),
    });
  }
  // What the last lease had settled of its own answers a repeated ack; this record it had not.
  if (record.memoStamp !== 0 && record.memoStamp === record.leaseStamp) {
    record.memoCount = Math.min(record.memoCount, Math.max(0, seeded + 1 - record.memoFrom));
  }
  record.committed = offset;
  record.consumed = offset - seeded;
  record.leaseStamp = 0;
  record.retryCount = 0;
  record.attemptOffset = -1;
  record.attemptCount = 0;
  record.heldUntilUs = 0;
  journal.cursor(record);
}

/** What of a partition may be delivered now. One object, for one claim after the other. */
const run = {
  pieces: [] as DeliveredPiece[],
  /** Offset that is looked at next. */
  next: 0,
  /** Offset behind the last record that is delivered. */
  end: 0,
  count: 0,
  /** Most records to deliver. */
  max: 0,
  /** Records up to here have expired, or were cancelled. */
  expiredThrough: -1,
  /** Offset whose block has to be read first; −1 = none. */
  missingAt: -1,
  /** When the first record that is held back may be delivered; 0 = none was met. */
  heldUntilUs: 0,
  /** Cancelled records that were passed over. */
  skipped: 0,
};

/** Cancelled records that one claim passes; what comes behind them is for a later turn. */
const cancelledSkippedMax = 10_000;

/** Partitions that one decision looks at in vain. */
const partitionsPassedMax = 5000;

function beginRun(next: number, max: number): void {
  run.pieces = [];
  run.max = max;
  run.next = next;
  run.end = next;
  run.count = 0;
  run.expiredThrough = -1;
  run.missingAt = -1;
  run.heldUntilUs = 0;
  run.skipped = 0;
}

/** Collects records from `run.next` on, until the budget is used up or one must not or cannot be delivered. */
function collect(context: DecisionContext, queue: Queue, lane: number, last: number, claims: Claims): void {
  const { blocks, nowUs, state } = context;
  const pid = state.partitions.pid[lane];
  const expiredBeforeUs = queue.lifetimeUs > 0 ? nowUs - queue.lifetimeUs : 0;
  const visibleUntilUs = queue.delayUs > 0 ? nowUs - queue.delayUs : Number.POSITIVE_INFINITY;
  const { due } = state;
  while (run.next <= last && run.count < run.max) {
    const bound = due.size === 0 ? Number.POSITIVE_INFINITY : passCancelled(context, pid, last, expiredBeforeUs);
    if (bound <= run.next || run.next > last || run.skipped >= cancelledSkippedMax) return;
    const view = blocks.open(lane, pid, run.next);
    if (view === undefined) {
      // What is there already is delivered without waiting for more.
      if (run.count === 0) run.missingAt = run.next;
      return;
    }
    if (view.stampUs < expiredBeforeUs) {
      run.next = view.firstOffset + view.count;
      run.expiredThrough = run.next - 1;
      continue;
    }
    if (view.stampUs > visibleUntilUs) {
      run.heldUntilUs = view.stampUs + queue.delayUs;
      return;
    }
    const from = run.next - view.firstOffset;
    const untilDue = Math.min(view.count, bound - view.firstOffset);
    const wanted = Math.min(untilDue, from + run.max - run.count);
    const to = withinBytes(view, from, wanted, claims, run.count === 0 && claims.runs.length === 0);
    if (to <= from) return;
    run.pieces.push({ bytes: view.bytes, view: view.view, at: view.at, fromIndex: from, toIndex: to });
    run.count += to - from;
    run.next = view.firstOffset + to;
    run.end = run.next;
    if (to < untilDue) return;
  }
}

/**
 * Moves `run.next` over cancelled records. Returns the offset of the first one behind it that is cancelled or has to wait;
 * `run.next` itself when that one has to wait.
 */
function passCancelled(context: DecisionContext, pid: number, last: number, expiredBeforeUs: number): number {
  const { state, nowUs } = context;
  const { due } = state;
  let from = run.next;
  for (;;) {
    const row = due.next(pid, from);
    if (row < 0) return Number.POSITIVE_INFINITY;
    const offset = due.offsetOf(row);
    if (due.isCancelled(row)) {
      if (offset > run.next) return offset;
      run.next = offset + 1;
      if (run.pieces.length === 0) run.expiredThrough = offset;
      if (++run.skipped >= cancelledSkippedMax || offset >= last) return run.next + 1;
    } else if (due.isWaiting(row, nowUs) && due.stampOf(row) >= expiredBeforeUs) {
      if (offset === run.next) run.heldUntilUs = due.dueUsOf(row);
      return offset;
    }
    from = offset + 1;
  }
}

/** Finds the newest record at or behind `run.next` that may be delivered, block by block from the end. */
function findNewest(context: DecisionContext, queue: Queue, lane: number, last: number): void {
  const { blocks, nowUs, state } = context;
  const pid = state.partitions.pid[lane];
  const expiredBeforeUs = queue.lifetimeUs > 0 ? nowUs - queue.lifetimeUs : 0;
  const { due } = state;
  let newest = last;
  if (due.size > 0) {
    passCancelled(context, pid, last, expiredBeforeUs);
    if (run.skipped >= cancelledSkippedMax) return;
    newest = Math.min(last, due.firstWaiting(pid, run.next, nowUs, expiredBeforeUs) - 1);
  }
  const from = run.next;
  for (let at = newest; at >= from; ) {
    if (due.size > 0) {
      at = due.lastKept(pid, from, at);
      if (at < from) return;
    }
    const view = blocks.open(lane, pid, at);
    if (view === undefined) {
      run.missingAt = at;
      return;
    }
    if (view.stampUs < expiredBeforeUs) {
      // All before it are older.
      run.expiredThrough = at;
      run.next = at + 1;
      return;
    }
    if (view.stampUs + queue.delayUs <= nowUs) {
      run.pieces.push({
        bytes: view.bytes,
        view: view.view,
        at: view.at,
        fromIndex: at - view.firstOffset,
        toIndex: at - view.firstOffset + 1,
      });
      run.count = 1;
      run.next = at + 1;
      run.end = at + 1;
      return;
    }
    run.heldUntilUs = view.stampUs + queue.delayUs;
    at = view.firstOffset - 1;
  }
}

/** How far a run may go until the answer is full; the first record of an answer always fits. */
function withinBytes(
  view: { sizeOf(index: number): number },
  from: number,
  to: number,
  claims: Claims,
  isFirst: boolean,
): number {
  for (let index = from; index < to; index++) {
    const size = view.sizeOf(index);
    if (size > claims.bytesLeft && !(isFirst && index === from)) return index;
    claims.bytesLeft -= size;
  }
  return to;
}

function leaseUs(command: PopCommand, queue: Queue): number {
  const asked = command.leaseSeconds !== null && command.leaseSeconds > 0 ? command.leaseSeconds : null;
  const byDefault = command.target.kind === 'discover' ? limits.leaseSecondsDefault : queue.options.leaseTime;
  const seconds = asked ?? byDefault;
  const us = Math.min(Math.max(1, seconds), limits.leaseSecondsMax) * usPerSecond;
  return queue.leaseMaxUs > 0 ? Math.min(us, queue.leaseMaxUs) : us;
}

/**
 * Hands a claim back whose answer never left: the lease goes, and the delivery is not counted as an attempt.
 * Leaves rows alone that have moved on since.
 */
export function handBack(context: DecisionContext, leaseStamp: number): void {
  const { state, journal } = context;
  const { cursors, partitions } = state;
  for (let row = cursors.firstOfLease(leaseStamp); row >= 0; ) {
    const next = cursors.nextOfLease[cursors.claim[row]];
    const subscription = state.subscriptionOf(row);
    if (subscription !== undefined) {
      cursors.read(row, partitions.pid[cursors.lane[row]], record);
      const span = record.leaseEnd - record.committed;
      const cancelled =
        state.due.size === 0 ? 0 : state.due.cancelledIn(record.pid, record.committed + 1, record.leaseEnd);
      returnRate(subscription, record.conflated ? 1 : span - cancelled);
      record.leaseStamp = 0;
      record.attemptCount -= 1;
      if (record.attemptCount === 0) record.attemptOffset = -1;
      journal.cursor(record);
    }
    row = next;
  }
}
