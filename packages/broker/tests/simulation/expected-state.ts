/**
 * What a broker must hold, as an obvious model: arrays of records, cursors as plain values. Nothing here is shared with
 * the production code but the table of option defaults.
 *
 * Some changes have no reply (a claim that was handed back, expired records that were passed over while nothing could be
 * delivered). A cursor is therefore a list of candidates; every reply strikes out those it contradicts.
 */
import { type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import { ageUsOf, completedUsOf } from './expected-retention.ts';

export interface ExpectedRecord {
  readonly offset: number;
  /** Its own transactionId, or its message id when it has none. */
  readonly id: string;
  readonly hasOwnId: boolean;
  readonly messageId: string;
  /** The JSON text that was pushed. */
  readonly payload: string;
  readonly stampUs: number;
  /** Place in its append. */
  readonly index: number;
}

export interface ExpectedAppend {
  readonly first: number;
  /** Offset of its last record. */
  readonly last: number;
  readonly stampUs: number;
}

export class ExpectedPartition {
  readonly pid: number;
  readonly name: string;
  readonly queue: ExpectedQueue;
  readonly records: ExpectedRecord[] = [];
  readonly appends: ExpectedAppend[] = [];
  /** Offsets by id, ascending. */
  readonly offsets = new Map<string, number[]>();
  /** Offset of the first record that is kept. */
  logStart = 0;
  /** By group. */
  readonly cursors = new Map<string, readonly ExpectedCursor[]>();
  isPaused = false;
  resumedAtUs = 0;
  /** Records that wait or waited for a time of their own, and cancelled ones, by offset. */
  readonly due = new Map<number, { readonly dueUs: number; readonly isCancelled: boolean }>();
  /** When one of them was moved or cancelled last. */
  dueChangedAtUs = 0;

  constructor(pid: number, name: string, queue: ExpectedQueue) {
    this.pid = pid;
    this.name = name;
    this.queue = queue;
  }

  get last(): number {
    return this.records.length - 1;
  }

  /** The append that holds an offset. */
  appendOf(offset: number): ExpectedAppend {
    let low = 0;
    let high = this.appends.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.appends[middle].last >= offset) high = middle;
      else low = middle + 1;
    }
    if (low === this.appends.length) throw new Error(`pid ${this.pid} has no offset ${offset}`);
    return this.appends[low];
  }

  get newestStampUs(): number {
    return this.appends.length === 0 ? 0 : this.appends[this.appends.length - 1].stampUs;
  }
}

export interface ExpectedSubscription {
  readonly number: number;
  readonly registered: boolean;
  readonly mode: 'all' | 'new' | 'timestamp';
  readonly sinceUs: number;
  readonly conflation: boolean;
  /** When it was first seen like this. */
  readonly seenAtUs: number;
  readonly isPaused?: boolean;
  readonly resumedAtUs?: number;
  /** Where it began before it was moved: appends of that time may have given it positions. */
  readonly earlier?: readonly { readonly mode: 'all' | 'new' | 'timestamp'; readonly sinceUs: number }[];
}

/** A `ttl`, and ages that were in force from a moment on; 0 = none. */
interface TtlPeriod {
  readonly fromUs: number;
  /** Older records are not delivered: the shortest of what follows, or the ttl. */
  readonly ttlUs: number;
  /** Older appends are removed; older ones that are completed are. */
  readonly ageUs: number;
  readonly completedUs: number;
}

/** The period that begins when these options come into force. */
export function periodOf(options: QueueOptions, fromUs: number): TtlPeriod {
  return { fromUs, ttlUs: ttlUsOf(options), ageUs: ageUsOf(options), completedUs: completedUsOf(options) };
}

export class ExpectedQueue {
  readonly number: number;
  readonly name: string;
  options: QueueOptions;
  namespace: string;
  task: string;
  changedAtUs: number;
  isPaused = false;
  resumedAtUs = 0;
  ttls: readonly TtlPeriod[];
  readonly partitions = new Map<string, ExpectedPartition>();
  readonly subscriptions = new Map<string, ExpectedSubscription>();

  constructor(number: number, name: string, options: QueueOptions, nowUs: number) {
    this.number = number;
    this.name = name;
    this.options = options;
    this.namespace = '';
    this.task = '';
    this.changedAtUs = nowUs;
    this.ttls = [periodOf(options, 0)];
  }

  /** True when an append may have been removed for its age at some moment up to now. */
  mayHaveGone(stampUs: number, nowUs: number): boolean {
    return this.#isOlder(stampUs, nowUs, ({ ageUs }) => ageUs);
  }

  /** True when an append may have been removed once it was completed. */
  mayBeCompleted(stampUs: number, nowUs: number): boolean {
    return this.#isOlder(stampUs, nowUs, ({ completedUs }) => completedUs);
  }

  #isOlder(stampUs: number, nowUs: number, agesOf: (period: TtlPeriod) => number): boolean {
    return this.ttls.some((period, i) => {
      const untilUs = this.ttls[i + 1]?.fromUs ?? nowUs;
      return agesOf(period) > 0 && stampUs < untilUs - agesOf(period);
    });
  }

  /** True when a record may have been passed over as expired at some moment up to now. */
  mayHaveExpired(stampUs: number, nowUs: number): boolean {
    return this.#isOlder(stampUs, nowUs, ({ ttlUs }) => ttlUs);
  }

  isExpired(stampUs: number, nowUs: number): boolean {
    const ttlUs = ttlUsOf(this.options);
    return ttlUs > 0 && stampUs < nowUs - ttlUs;
  }

  get delayUs(): number {
    return this.options.delayedProcessing * 1_000_000;
  }

  get windowUs(): number {
    return this.options.windowBuffer * 1_000_000;
  }
}

/** Older records are not delivered. An option that the contract stores without effect counts only when it is not the default. */
export function ttlUsOf(options: QueueOptions): number {
  const ttlUs = options.ttl === queueOptionTable.ttl.default ? 0 : options.ttl * 1_000_000;
  const ageUs = ageUsOf(options);
  return ttlUs === 0 || ageUs === 0 ? ttlUs + ageUs : Math.min(ttlUs, ageUs);
}

export function retryDelayUsOf(options: QueueOptions): number {
  return options.retryDelay === queueOptionTable.retryDelay.default ? 0 : options.retryDelay * 1000;
}

export interface ExpectedLease {
  readonly stampUs: number;
  /** Last leased offset. */
  readonly end: number;
  readonly expiresAtUs: number;
  readonly conflated: boolean;
  /** The client that should have got it is gone: some time, perhaps, it is handed back. */
  readonly mayVanish?: boolean;
}

/** A group's place in a partition. Never changed: a change makes another one. */
export interface ExpectedCursor {
  readonly committed: number;
  /** Live or expired. */
  readonly lease: ExpectedLease | null;
  readonly retryCount: number;
  readonly attemptOffset: number;
  readonly attemptCount: number;
  readonly heldUntilUs: number;
  /** The last lease that an ack released or shortened, and its offsets. */
  readonly memo: { readonly stampUs: number; readonly from: number; readonly end: number } | null;
  readonly changedAtUs: number;
}

export function freshCursor(committed: number, nowUs: number): ExpectedCursor {
  return {
    committed,
    lease: null,
    retryCount: 0,
    attemptOffset: -1,
    attemptCount: 0,
    heldUntilUs: 0,
    memo: null,
    changedAtUs: nowUs,
  };
}

export function hasLiveLease(cursor: ExpectedCursor, nowUs: number): boolean {
  return cursor.lease !== null && cursor.lease.expiresAtUs >= nowUs;
}

/** What the cursor is after its claim was handed back: the delivery did not happen. */
export function handedBack(cursor: ExpectedCursor): ExpectedCursor {
  const attemptCount = cursor.attemptCount - 1;
  const attemptOffset = attemptCount === 0 ? -1 : cursor.attemptOffset;
  return { ...cursor, lease: null, attemptCount, attemptOffset };
}

export interface ExpectedDeadLetter {
  readonly queue: string;
  readonly queueNumber: number;
  readonly pid: number;
  readonly group: string;
  readonly offset: number;
  readonly error: string;
  readonly retryCount: number;
  readonly stampUs: number;
}
