/** Where a group stands in one partition: what lies before it, what it holds, and from when on it can have the next. */
import type { BrokerState, Queue, Subscription } from '../core/mod.ts';
import { cursorBit, hasLimits, rateAllowance } from '../core/mod.ts';

export interface GroupStanding {
  /** Offset of the last consumed record; −1 = none. Of a group without a position here: where it would begin, less one. */
  readonly committed: number;
  /** Records behind the position that are not leased. */
  readonly pending: number;
  /** Records under a live lease. */
  readonly processing: number;
  readonly lease: { readonly stampUs: number; readonly end: number; readonly expiresAtUs: number } | null;
  readonly retryCount: number;
  readonly attemptCount: number;
  /** The failed head waits until then; 0 = it does not. */
  readonly heldUntilUs: number;
  /** Delay or quiet time of the queue hold the next record until then; 0 = they do not. */
  readonly delayedUntilUs: number;
  /** Offset of the first record behind the position that waits for a time of its own; Infinity = none does. */
  readonly waitsFrom: number;
  /** Records that a pop could have now, pauses and bounds of the group aside. */
  readonly ready: number;
}

/** Why a group gets nothing, or nothing more, whatever is ready for it. */
export type Block = 'queue_paused' | 'group_paused' | 'partition_paused' | 'leased_partitions' | 'rate';

/** How much of a queue a group has, of what it may have. */
export interface GroupBounds {
  readonly leasedPartitions: number;
  /** 0 = no bound. */
  readonly maxLeasedPartitions: number;
  readonly maxPerSecond: number;
  /** Messages that the rate allows at this moment; null = there is no rate. */
  readonly allowedNow: number | null;
}

/** Null when the queue bounds no group. */
export function boundsOf(queue: Queue, subscription: Subscription | undefined, nowUs: number): GroupBounds | null {
  const { leasedMax, perSecondMax } = queue;
  if (leasedMax === 0 && perSecondMax === 0) return null;
  const allowed = subscription === undefined ? perSecondMax : rateAllowance(subscription, nowUs);
  return {
    leasedPartitions: subscription?.leasedPartitions ?? 0,
    maxLeasedPartitions: leasedMax,
    maxPerSecond: perSecondMax,
    allowedNow: perSecondMax === 0 ? null : allowed,
  };
}

/** @param pid of the partition that is meant; null = the queue as a whole */
export function blocksOf(
  state: BrokerState,
  queue: Queue,
  subscription: Subscription | undefined,
  pid: number | null,
  nowUs: number,
): Block[] {
  const blocks: Block[] = [];
  if (queue.pausedAtUs !== 0) blocks.push('queue_paused');
  if (pid !== null && state.pausedPartitions.has(pid)) blocks.push('partition_paused');
  if (subscription === undefined) return blocks;
  if (subscription.pausedAtUs !== 0) blocks.push('group_paused');
  if (!hasLimits(subscription)) return blocks;
  if (queue.leasedMax > 0 && subscription.leasedPartitions >= queue.leasedMax) blocks.push('leased_partitions');
  if (rateAllowance(subscription, nowUs) < 1) blocks.push('rate');
  return blocks;
}

/**
 * @param stampOf stamp of the append that holds an offset; 0 when it is not known without the disk, and it counts as old
 * @param subscription undefined = a group that is not known: it would begin with what is there
 */
export function standingOf(
  state: BrokerState,
  nowUs: number,
  stampOf: (lane: number, offset: number) => number,
  queue: Queue,
  subscription: Subscription | undefined,
  lane: number,
): GroupStanding {
  const { partitions, cursors } = state;
  const row = subscription === undefined ? -1 : cursors.find(partitions.firstCursor[lane], subscription.number);
  const isPlaced = row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0;
  const next = partitions.nextOffset[lane];
  const start = partitions.logStart[lane] - 1;
  let committed = start;
  if (isPlaced) committed = Math.max(cursors.committed[row], start);
  else if (subscription?.registered === true && subscription.mode !== 'all') {
    // Only the disk knows in which of its appends a group begins that starts in the middle of a partition: all count then.
    if (partitions.lastStampUs[lane] < subscription.sinceUs) committed = next - 1;
  }
  const claim = row < 0 ? -1 : cursors.claim[row];
  const lease =
    claim >= 0 && cursors.hasLiveLease(row, nowUs)
      ? { stampUs: cursors.leaseStamp[claim], end: cursors.leaseEnd[claim], expiresAtUs: cursors.expiresAtUs[claim] }
      : null;
  const processing = lease === null ? 0 : Math.max(0, lease.end - committed);
  const pending = Math.max(0, next - 1 - committed - processing);
  const heldUntilUs = claim >= 0 && cursors.heldUntilUs[claim] > nowUs ? cursors.heldUntilUs[claim] : 0;
  let delayedUntilUs = 0;
  if (queue.holds && pending > 0) {
    if (queue.windowUs > 0) delayedUntilUs = partitions.lastStampUs[lane] + queue.windowUs;
    if (queue.delayUs > 0 && partitions.lastStampUs[lane] + queue.delayUs > nowUs) {
      delayedUntilUs = Math.max(delayedUntilUs, stampOf(lane, committed + processing + 1) + queue.delayUs);
    }
    if (delayedUntilUs <= nowUs) delayedUntilUs = 0;
  }
  const expiredBeforeUs = queue.lifetimeUs > 0 ? nowUs - queue.lifetimeUs : 0;
  const waitsFrom =
    state.due.size === 0
      ? Number.POSITIVE_INFINITY
      : state.due.firstWaiting(partitions.pid[lane], committed + 1, nowUs, expiredBeforeUs);
  const isHeld = processing > 0 || heldUntilUs > nowUs || delayedUntilUs > nowUs;
  let ready = isHeld ? 0 : Math.min(pending, waitsFrom - 1 - committed);
  if (ready > 0 && state.due.size > 0) {
    ready -= state.due.cancelledIn(partitions.pid[lane], committed + 1, committed + ready);
  }
  return {
    committed,
    pending,
    processing,
    lease,
    retryCount: claim < 0 ? 0 : cursors.retryCount[claim],
    attemptCount: claim < 0 ? 0 : cursors.attemptCount[claim],
    heldUntilUs,
    delayedUntilUs,
    waitsFrom,
    ready,
  };
}
