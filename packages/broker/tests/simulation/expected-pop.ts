/**
 * The rules of claiming once more (sections 4.4 to 4.8 of the contract): may this group be given these records of this
 * partition now, and what is its cursor afterwards.
 */
import type { PopRequest } from '../../src/runtime/mod.ts';
import { isCancelled, isWaiting, newestVisible } from './due-audit.ts';
import { countedOffset } from './expected-limits.ts';
import {
  type ExpectedCursor,
  type ExpectedPartition,
  type ExpectedQueue,
  type ExpectedRecord,
  freshCursor,
  hasLiveLease,
} from './expected-state.ts';

/** A record as a client got it. */
export interface DeliveredRecord {
  readonly offset: number;
  readonly id: string;
  readonly messageId: string;
  readonly payload: string;
  readonly stampUs: number;
}

/** What one partition contributed to a pop. */
export interface Delivery {
  readonly pid: number;
  readonly partition: string;
  readonly attempt: number;
  readonly records: readonly DeliveredRecord[];
}

export interface ClaimFacts {
  readonly nowUs: number;
  readonly commitOnDelivery: boolean;
  readonly conflation: boolean;
  /** The group is paused. */
  readonly isPaused: boolean;
  /** Length of the lease, microseconds. */
  readonly leaseUs: number;
}

/** Microseconds of the lease a pop gets on a queue; `maxSeconds` 0 = no bound. */
export function leaseUsOf(request: PopRequest, queueLeaseSeconds: number, maxSeconds: number): number {
  const asked = request.leaseSeconds !== null && request.leaseSeconds > 0 ? request.leaseSeconds : null;
  const byDefault = request.target.kind === 'discover' ? 60 : queueLeaseSeconds;
  const seconds = Math.max(1, asked ?? byDefault);
  return (maxSeconds > 0 ? Math.min(seconds, maxSeconds) : seconds) * 1_000_000;
}

/**
 * The cursor and where it may be when expired and cancelled records were passed over without a reply, now or, if a broker
 * was there before, by `latestUs`. `walked`: offsets that an equal cursor at another place has come to, and nothing new
 * lies behind these.
 */
export function withExpiredPassed(
  partition: ExpectedPartition,
  cursor: ExpectedCursor,
  nowUs: number,
  latestUs = nowUs,
  walked = new Set<number>(),
): readonly ExpectedCursor[] {
  if (hasLiveLease(cursor, nowUs)) return [cursor];
  const found = [cursor];
  // What was removed is passed over by whoever comes to it.
  if (partition.logStart - 1 > cursor.committed) found.push({ ...cursor, committed: partition.logStart - 1 });
  if (partition.due.size === 0 && partition.queue.ttls.every(({ ttlUs }) => ttlUs === 0)) return found;
  // Behind what was removed, too.
  for (const { committed } of [...found]) {
    for (let offset = committed + 1; offset <= partition.last; ) {
      if (walked.has(offset)) break;
      walked.add(offset);
      if (!isCancelled(partition, offset)) {
        const append = partition.appendOf(offset);
        if (!partition.queue.mayHaveExpired(append.stampUs, Math.max(nowUs, latestUs))) break;
        // A record of the append that has a time of its own stands apart.
        for (let before = offset; before < append.last; before++) {
          if (partition.due.has(before + 1)) found.push({ ...cursor, committed: before });
        }
        offset = append.last;
      }
      found.push({ ...cursor, committed: offset++ });
    }
  }
  return found;
}

/** Why these records may not be given to a group whose cursor is this one; null when they may. */
export function objection(
  partition: ExpectedPartition,
  cursor: ExpectedCursor,
  delivery: Delivery,
  facts: ClaimFacts,
): string | null {
  const { queue } = partition;
  const { nowUs } = facts;
  if (facts.isPaused || queue.isPaused || partition.isPaused) return 'it is paused';
  if (hasLiveLease(cursor, nowUs)) return `a lease is live until ${cursor.lease?.expiresAtUs}`;
  if (cursor.heldUntilUs > nowUs) return `it is held until ${cursor.heldUntilUs}`;
  if (queue.windowUs > 0 && partition.newestStampUs + queue.windowUs > nowUs) return 'its quiet time is not over';
  const { records } = delivery;
  const first = records[0].offset;
  if (first < partition.logStart) return `what lies before ${partition.logStart} was removed`;
  const isVisible = (stampUs: number): boolean => stampUs + queue.delayUs <= nowUs;
  if (records.some(({ stampUs }) => !isVisible(stampUs))) return 'a record is delivered before its delay is over';
  if (records.some(({ stampUs }) => queue.isExpired(stampUs, nowUs))) return 'a record is delivered after its ttl';
  if (records.some(({ offset }) => isWaiting(partition, offset, nowUs))) return 'a record is delivered before its time';
  if (records.some(({ offset }) => isCancelled(partition, offset))) return 'a cancelled record is delivered';
  if (!areConsecutive(partition, records)) return 'the offsets are not consecutive';
  if (facts.conflation) {
    if (records.length !== 1) return `${records.length} records are delivered under conflation`;
    if (first <= cursor.committed) return `offset ${first} is settled`;
    const newest = newestVisible(partition, cursor.committed + 1, nowUs);
    if (first !== newest) return `the newest record is ${newest}`;
  } else if (first !== cursor.committed + 1) return `offset ${cursor.committed + 1} is next`;
  const end = records[records.length - 1].offset;
  const attempt = attemptOf(queue, cursor, end, facts);
  if (delivery.attempt !== attempt) return `it is attempt ${attempt}, not ${delivery.attempt}`;
  return null;
}

/** True when nothing but cancelled records lies between those that are delivered. */
function areConsecutive(partition: ExpectedPartition, records: readonly DeliveredRecord[]): boolean {
  let expected = records[0].offset;
  for (const { offset } of records) {
    while (expected < offset && isCancelled(partition, expected)) expected++;
    if (offset !== expected++) return false;
  }
  return true;
}

function attemptOf(queue: ExpectedQueue, cursor: ExpectedCursor, end: number, facts: ClaimFacts): number {
  if (facts.commitOnDelivery) return 1;
  return cursor.attemptOffset === countedOffset(queue, cursor, end, facts.conflation) ? cursor.attemptCount + 1 : 1;
}

/** The cursor after a delivery to which there was no objection. */
export function claimed(
  queue: ExpectedQueue,
  cursor: ExpectedCursor,
  delivery: Delivery,
  facts: ClaimFacts,
): ExpectedCursor {
  const end = delivery.records[delivery.records.length - 1].offset;
  const { nowUs } = facts;
  if (facts.commitOnDelivery) return { ...freshCursor(end, nowUs), memo: cursor.memo };
  return {
    ...cursor,
    lease: { stampUs: nowUs, end, expiresAtUs: nowUs + facts.leaseUs, conflated: facts.conflation },
    attemptOffset: countedOffset(queue, cursor, end, facts.conflation),
    attemptCount: attemptOf(queue, cursor, end, facts),
    heldUntilUs: 0,
    changedAtUs: nowUs,
  };
}

/**
 * Since when something of the partition could have been claimed by a group at this cursor without a break until now;
 * null when it cannot be claimed now, or that cannot be said.
 */
export function claimableSince(partition: ExpectedPartition, cursor: ExpectedCursor, nowUs: number): number | null {
  const { queue } = partition;
  // What was removed is not there for anybody.
  let offset = Math.max(cursor.committed + 1, partition.logStart);
  while (isCancelled(partition, offset)) offset++;
  const next = partition.records[offset] as ExpectedRecord | undefined;
  // One that is at its limit is given up, and no answer tells.
  if (queue.options.maxDeliveries > 0 && cursor.attemptCount >= queue.options.maxDeliveries) return null;
  if (next === undefined || queue.mayHaveExpired(next.stampUs, nowUs)) return null;
  const sinceUs = Math.max(
    next.stampUs + queue.delayUs,
    queue.windowUs > 0 ? partition.newestStampUs + queue.windowUs : 0,
    cursor.lease === null ? 0 : cursor.lease.expiresAtUs + 1,
    cursor.heldUntilUs,
    cursor.changedAtUs,
    queue.changedAtUs,
    partition.due.get(offset)?.dueUs ?? 0,
    partition.dueChangedAtUs,
  );
  return sinceUs <= nowUs ? sinceUs : null;
}
