/**
 * The rules of acknowledgement once more, written down straight from sections 5.3 to 5.5 of the contract: one target (the
 * items of one partition and one lease id) against one cursor.
 */
import { ackError, ackStatus } from '../../src/core/mod.ts';
import { firstWaiting } from './due-audit.ts';
import { type ExpectedCursor, type ExpectedPartition, hasLiveLease, retryDelayUsOf } from './expected-state.ts';

export interface ExpectedAckItem {
  readonly id: string;
  readonly status: number;
  readonly error: string | null;
}

export interface AckVerdict {
  readonly error: number;
  readonly released: boolean;
  readonly dlq: boolean;
  readonly noop: boolean;
}

/** Ids are known this long at least, microseconds; longer when the queue's dedup window is longer. */
export const idsKnownUs = 900_000_000;

/** True when what the broker said about an item is what was expected of it. */
export function isSameVerdict(expected: ExpectedVerdict, actual: AckVerdict): boolean {
  const same = (a: AckVerdict, b: AckVerdict): boolean =>
    a.error === b.error && a.released === b.released && a.dlq === b.dlq && a.noop === b.noop;
  if (same(expected, actual)) return true;
  return expected.mayBeForgotten === true && same({ ...expected, error: ackError.stale, noop: false }, actual);
}

/** `mayBeForgotten`: the id lies below the cursor, and is so old that the broker need not know it any more. */
interface ExpectedVerdict extends AckVerdict {
  readonly mayBeForgotten?: boolean;
}

export interface ExpectedAck {
  readonly verdicts: readonly ExpectedVerdict[];
  readonly next: ExpectedCursor | null;
  readonly filed: readonly { readonly offset: number; readonly error: string }[];
  /** Retries charged before this ack: what a dead letter shows. */
  readonly retriesBefore: number;
}

const byStrength: readonly number[] = [ackStatus.completed, ackStatus.retry, ackStatus.failed, ackStatus.dlq];

function refused(items: readonly ExpectedAckItem[], cursor: ExpectedCursor | null, error: number): ExpectedAck {
  const verdict = { error, released: false, dlq: false, noop: false };
  return { verdicts: items.map(() => verdict), next: cursor, filed: [], retriesBefore: 0 };
}

/**
 * `leaseStamp`: 0 = none was sent, −1 = no lease of this broker. `cursor`: null = there is none. `forgets`: ids of removed
 * records are not known any more.
 */
export function expectAck(
  partition: ExpectedPartition,
  cursor: ExpectedCursor | null,
  leaseStamp: number,
  items: readonly ExpectedAckItem[],
  nowUs: number,
  forgottenBeforeUs: number,
  forgets = false,
): ExpectedAck {
  if (cursor === null) return refused(items, cursor, ackError.stale);
  if (leaseStamp !== 0 && !(cursor.lease?.stampUs === leaseStamp && hasLiveLease(cursor, nowUs))) {
    if (cursor.memo?.stampUs !== leaseStamp) return refused(items, cursor, ackError.lease);
    return repeated(partition, cursor, items, forgets);
  }
  const from = cursor.committed + 1;
  // What is not due was not delivered.
  const to = cursor.lease?.end ?? firstWaiting(partition, Math.max(from, partition.logStart), nowUs, false) - 1;
  const places = items.map(({ id }) => place(partition, id, from, to, cursor.committed, forgets));
  const named = nameOffsets(items, places);
  const settled = settle(partition, cursor, named, nowUs);
  // What is gone is not filed.
  settled.filed = settled.filed.filter(({ offset }) => offset >= partition.logStart);
  const released = settled.next.lease === null;
  const windowUs = Math.max(idsKnownUs, partition.queue.options.dedupWindowSeconds * 1_000_000);
  const knownSinceUs = Math.max(nowUs - windowUs, forgottenBeforeUs);
  const verdicts = items.map((item, i): ExpectedVerdict => {
    const at = places[i];
    if (at === 'unknown') return { error: ackError.stale, released, dlq: false, noop: false };
    if (at === 'below') {
      const completed = item.status === ackStatus.completed;
      const newest = partition.records[partition.offsets.get(item.id)?.at(-1) ?? 0];
      const mayBeForgotten = newest.stampUs < knownSinceUs;
      const error = completed ? ackError.none : ackError.stale;
      return { error, released, dlq: false, noop: completed, mayBeForgotten };
    }
    const gaveUp =
      item.status === ackStatus.failed ||
      item.status === ackStatus.dlq ||
      (item.status === ackStatus.retry && at === settled.lastDelivered);
    const dlq = gaveUp && settled.filed.some(({ offset }) => offset === at);
    return { error: ackError.none, released, dlq, noop: false };
  });
  return { verdicts, next: settled.next, filed: settled.filed, retriesBefore: cursor.retryCount };
}

/** 5.5: the ack of a lease that an ack has released comes again. */
function repeated(
  partition: ExpectedPartition,
  cursor: ExpectedCursor,
  items: readonly ExpectedAckItem[],
  forgets: boolean,
): ExpectedAck {
  const from = cursor.memo?.from ?? 0;
  const to = Math.min(cursor.memo?.end ?? -1, cursor.committed);
  const verdicts = items.map(({ id }) => {
    const at = placedAt(partition, id, from, to, forgets);
    const isKnown = at >= from && at <= to;
    return { error: isKnown ? ackError.none : ackError.lease, released: isKnown, dlq: false, noop: false };
  });
  return { verdicts, next: cursor, filed: [], retriesBefore: 0 };
}

type Place = number | 'below' | 'unknown';

/**
 * The offset that an id stands for: of the records in the span that are kept the lowest, else the newest with the id. A
 * message id tells no more than that its record is one of those that were removed. −1 = none.
 */
function placedAt(partition: ExpectedPartition, id: string, from: number, to: number, forgets: boolean): number {
  const { logStart } = partition;
  const offsets = partition.offsets.get(id) ?? [];
  const inside = offsets.find((offset) => offset >= Math.max(from, logStart) && offset <= to);
  if (inside !== undefined) return inside;
  const newest = offsets.at(-1) ?? -1;
  const isGone = newest >= 0 && newest < logStart;
  if (isGone && forgets) return -1;
  return isGone && !partition.records[newest].hasOwnId ? Math.min(logStart - 1, to) : newest;
}

function place(
  partition: ExpectedPartition,
  id: string,
  from: number,
  to: number,
  committed: number,
  forgets: boolean,
): Place {
  const offsets = partition.offsets.get(id) ?? [];
  const at = placedAt(partition, id, from, to, forgets);
  if (at >= from && at <= to) return at;
  // Behind the span only the ids know it.
  if (forgets) return 'unknown';
  // The broker looks for the newest record with the id: one that was used again later is not found below.
  if ((offsets.at(-1) ?? -1) > to) return 'unknown';
  return offsets.some((offset) => offset <= committed) ? 'below' : 'unknown';
}

interface Named {
  status: number;
  error: string | null;
}

function nameOffsets(items: readonly ExpectedAckItem[], places: readonly Place[]): Map<number, Named> {
  const named = new Map<number, Named>();
  items.forEach((item, i) => {
    const at = places[i];
    if (typeof at !== 'number') return;
    const before = named.get(at);
    if (before === undefined) named.set(at, { status: item.status, error: item.error });
    else {
      if (byStrength.indexOf(item.status) > byStrength.indexOf(before.status)) before.status = item.status;
      before.error ??= item.error;
    }
  });
  return named;
}

interface Settled {
  /** Offset of a record whose last delivery ended without its being settled. */
  lastDelivered?: number;
  next: ExpectedCursor;
  filed: { offset: number; error: string }[];
}

function settle(
  partition: ExpectedPartition,
  cursor: ExpectedCursor,
  named: ReadonlyMap<number, Named>,
  nowUs: number,
): Settled {
  const completed = [...named].filter(([, { status }]) => status === ackStatus.completed).map(([offset]) => offset);
  const signals = [...named].filter(([, { status }]) => status !== ackStatus.completed).map(([offset]) => offset);
  const signal = Math.min(...signals);
  const prefix = Math.max(cursor.committed, ...completed.filter((offset) => offset < signal));
  const { lease } = cursor;
  if (named.size === 0) return { next: cursor, filed: [] };
  if (lease === null) {
    const next = prefix > cursor.committed ? { ...cursor, committed: prefix, changedAtUs: nowUs } : cursor;
    return { next, filed: [] };
  }
  const from = cursor.memo?.stampUs === lease.stampUs ? cursor.memo.from : cursor.committed + 1;
  const memo = { stampUs: lease.stampUs, from, end: lease.end };
  const done = { retryCount: 0, attemptOffset: -1, attemptCount: 0 };
  if (signals.length === 0) {
    if (lease.conflated || prefix >= lease.end) {
      return { next: { ...cursor, ...done, committed: lease.end, lease: null, memo, changedAtUs: nowUs }, filed: [] };
    }
    const next = { ...cursor, committed: prefix, memo, attemptOffset: prefix + 1, changedAtUs: nowUs };
    return { next, filed: [] };
  }
  const released = { ...cursor, committed: prefix, lease: null, memo, changedAtUs: nowUs };
  const head = named.get(signal) as Named;
  const { options } = partition.queue;
  const exhausted = cursor.retryCount >= options.retryLimit;
  const comesAgain = head.status === ackStatus.retry || (head.status === ackStatus.failed && !exhausted);
  const isLast =
    options.maxDeliveries > 0 &&
    cursor.attemptCount >= options.maxDeliveries &&
    cursor.attemptOffset === signal &&
    (lease.conflated || signal === prefix + 1);
  if (comesAgain && isLast) {
    const text = `${head.error ?? 'given back by an ack'} (delivered ${cursor.attemptCount} times, maxDeliveries ${options.maxDeliveries})`;
    return {
      ...settleAbove(partition, cursor, released, named, signal, exhausted, text),
      lastDelivered: signal,
    };
  }
  if (head.status === ackStatus.retry) return { next: released, filed: [] };
  if (comesAgain) {
    const delayUs = retryDelayUsOf(options);
    const heldUntilUs = delayUs > 0 ? nowUs + delayUs : released.heldUntilUs;
    return { next: { ...released, retryCount: cursor.retryCount + 1, heldUntilUs }, filed: [] };
  }
  return settleAbove(partition, cursor, released, named, signal, exhausted);
}

/** The head is given up; the walk above it goes on to the first record that has to come back. */
function settleAbove(
  partition: ExpectedPartition,
  cursor: ExpectedCursor,
  released: ExpectedCursor,
  named: ReadonlyMap<number, Named>,
  signal: number,
  exhausted: boolean,
  headText?: string,
): Settled {
  const { options } = partition.queue;
  const files = options.deadLetterQueue || options.dlqAfterMaxRetries;
  const head = named.get(signal) as Named;
  const headError = head.error ?? 'Retries exhausted';
  const highestCompleted = Math.max(
    -1,
    ...[...named].filter(([, { status }]) => status === ackStatus.completed).map(([offset]) => offset),
  );
  const filed: { offset: number; error: string }[] = [];
  const giveUp = (offset: number, { status, error }: Named): void => {
    if (status === ackStatus.dlq || files) filed.push({ offset, error: error ?? headError });
  };
  giveUp(signal, { status: head.status, error: headText ?? headError });
  let committed = signal;
  let retryCount = 0;
  const end = cursor.lease?.conflated ? signal : (cursor.lease?.end ?? signal);
  for (let offset = signal + 1; offset <= end; offset++) {
    const at = named.get(offset);
    if (at === undefined) {
      if (offset > highestCompleted) break;
    } else if (at.status === ackStatus.retry) break;
    else if (at.status === ackStatus.failed && !exhausted) {
      retryCount = cursor.retryCount;
      break;
    } else if (at.status !== ackStatus.completed) giveUp(offset, at);
    committed = offset;
  }
  if (cursor.lease?.conflated) committed = cursor.lease.end;
  const forgets = released.attemptOffset <= committed;
  const attempts = forgets ? { attemptOffset: -1, attemptCount: 0 } : {};
  return { next: { ...released, ...attempts, committed, retryCount }, filed };
}
