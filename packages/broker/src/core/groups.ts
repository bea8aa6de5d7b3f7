/**
 * What operators do to groups: move them, delete them, pause them. Each decision here is about one partition or one
 * subscription; those who walk over many of them do it in slices (runtime/group-operations.ts).
 */
import { limits } from '@lanemq/protocol';
import { cursorBit } from './cursor-table.ts';
import { type DecisionContext, idLookup } from './decision.ts';
import type { Refusal } from './outcomes.ts';
import type { Queue, Subscription } from './queue.ts';
import { CursorRecord } from './records.ts';

/** Where a seek puts a group in a partition. What lies outside of what the partition holds is cut to its ends. */
export type SeekTarget =
  | { readonly kind: 'end' }
  | { readonly kind: 'beginning' }
  /** `offset` is the next one to read. */
  | { readonly kind: 'offset'; readonly offset: number }
  /** The next one to read is the first with a stamp ≥ stampUs. */
  | { readonly kind: 'time'; readonly stampUs: number };

const record = new CursorRecord();

/** The `committed` that a target means in a lane, or `idLookup.missing` when an append has to be searched for. */
function targetPosition(context: DecisionContext, lane: number, target: SeekTarget): number {
  const { partitions } = context.state;
  const first = partitions.logStart[lane] - 1;
  const tail = partitions.nextOffset[lane] - 1;
  switch (target.kind) {
    case 'end':
      return tail;
    case 'beginning':
      return first;
    case 'offset':
      return Math.max(first, Math.min(tail, target.offset - 1));
    case 'time': {
      if (partitions.lastStampUs[lane] < target.stampUs) return tail;
      // Nothing in it is older than the partition.
      if (partitions.createdAtUs[lane] >= target.stampUs || first === tail) return first;
      const found = context.ids.firstFrom(lane, partitions.pid[lane], target.stampUs);
      if (found === idLookup.missing) return idLookup.missing;
      // One that was appended since the search was not found by it: it is the first, or all that is kept came since.
      return found === idLookup.absent ? first : Math.max(first, found - 1);
    }
  }
}

/**
 * Puts a group at a position in one lane: lease, charged retries, attempts and hold go. False when an append has to be
 * searched for first; nothing was changed then.
 */
export function decideSeek(
  context: DecisionContext,
  subscription: Subscription,
  lane: number,
  target: SeekTarget,
): boolean {
  const { cursors, partitions } = context.state;
  const committed = targetPosition(context, lane, target);
  if (committed === idLookup.missing) return false;
  const pid = partitions.pid[lane];
  const row = cursors.find(partitions.firstCursor[lane], subscription.number);
  if (row < 0) {
    Object.assign(record, noCursor);
    record.pid = pid;
    record.subscription = subscription.number;
  } else {
    const isThere = cursors.committed[row] === committed && cursors.claim[row] < 0;
    const isKnown = cursorBit.placed | cursorBit.touched;
    if (isThere && (cursors.flags[row] & isKnown) === isKnown) return true;
    cursors.read(row, pid, record);
  }
  record.committed = committed;
  record.leaseStamp = 0;
  record.leaseEnd = 0;
  record.expiresAtUs = 0;
  record.conflated = false;
  record.retryCount = 0;
  record.attemptOffset = -1;
  record.attemptCount = 0;
  record.heldUntilUs = 0;
  context.journal.cursor(record);
  return true;
}

const noCursor: Readonly<CursorRecord> = new CursorRecord();

/** The group on the queue; when it was never there, one that is not registered: its first pop still says where it starts. */
export function ensureSubscription(context: DecisionContext, queue: Queue, group: string): Subscription {
  const existing = queue.subscription(group);
  if (existing !== undefined) return existing;
  const { state, journal, nowUs } = context;
  journal.subscription({
    number: state.nextSubscriptionNumber,
    queueNumber: queue.number,
    group,
    mode: 'all',
    sinceUs: 0,
    conflation: false,
    registered: false,
    createdAtUs: nowUs,
  });
  return queue.subscription(group) as Subscription;
}

/**
 * Deletes a group's cursors on a queue, at once, however many there are. With `keepRegistration` a registered group
 * starts again as it first did; else, or when it was never registered, it is gone.
 */
export function decideDeleteGroup(
  context: DecisionContext,
  subscription: Subscription,
  keepRegistration: boolean,
): void {
  const { state, journal } = context;
  // Written first: who waits for the group sees that it goes on.
  if (keepRegistration && subscription.registered) {
    journal.subscription({ ...subscription.record(), number: state.nextSubscriptionNumber, restarted: true });
  }
  journal.subscriptionDeleted({ number: subscription.number });
}

/** Makes a registered group start from a time in every partition in which it has no position yet. */
export function decideStartFrom(context: DecisionContext, subscription: Subscription, sinceUs: number): void {
  context.journal.subscription({ ...subscription.record(), mode: 'timestamp', sinceUs });
}

/** Each of these answers whether anything changed. */
export function decidePauseQueue(context: DecisionContext, queue: Queue, paused: boolean): boolean {
  if ((queue.pausedAtUs !== 0) === paused) return false;
  context.journal.queue({ ...queue.record(), pausedAtUs: paused ? context.nowUs : 0 });
  return true;
}

export function decidePauseGroup(context: DecisionContext, subscription: Subscription, paused: boolean): boolean {
  if ((subscription.pausedAtUs !== 0) === paused) return false;
  context.journal.subscription({ ...subscription.record(), pausedAtUs: paused ? context.nowUs : 0 });
  return true;
}

export function decidePausePartition(context: DecisionContext, lane: number, paused: boolean): boolean | Refusal {
  const { partitions, pausedPartitions } = context.state;
  const pid = partitions.pid[lane];
  if (pausedPartitions.has(pid) === paused) return false;
  if (paused && pausedPartitions.size >= limits.pausedPartitionsMax) {
    return {
      ok: false,
      code: 'too_many_paused',
      message: `${limits.pausedPartitionsMax} partitions are paused, which is the limit: resume some, or pause the queue`,
    };
  }
  context.journal.partitionPaused({ pid, pausedAtUs: paused ? context.nowUs : 0 });
  return true;
}
