/**
 * What the clients of one broker saw: every request with the moments it began and ended, and how it ended.
 *
 * All clients live in one process and use one monotonic clock, so that "this request ended before that one began" is a
 * fact. A broker takes its decision about a request somewhere between the two moments; the auditor concludes only from
 * what follows whatever that moment was.
 *
 * Outcomes:
 *   open      not ended yet; may still have an effect
 *   answered  a 2xx answer: its effect is a fact
 *   refused   a 4xx answer: it had no effect
 *   unknown   5xx, or no answer: it had its effect, or none
 */
export type Outcome = 'open' | 'answered' | 'refused' | 'unknown';

/** The parts that all operations share. Times are milliseconds of the clients' clock. */
export interface Operation {
  readonly beganAtMs: number;
  /** Infinity while it is open. */
  endedAtMs: number;
  outcome: Outcome;
}

export interface PushItem {
  readonly queue: string;
  readonly partition: string;
  /** null = none was sent: the broker makes one, equal to the message id. Then `payload` must be unique. */
  readonly transactionId: string | null;
  /** JSON text as `JSON.stringify` writes it. */
  readonly payload: string;
}

export interface PushResult {
  readonly status: 'queued' | 'duplicate' | 'error';
  readonly messageId: string;
  readonly transactionId: string;
  /** null where nothing was stored. */
  readonly offset: number | null;
}

export interface PushOperation extends Operation {
  readonly kind: 'push';
  readonly items: readonly PushItem[];
}

export interface PopRequest {
  readonly queue: string;
  /** null = any partition of the queue. */
  readonly partition: string | null;
  readonly group: string;
  readonly batch: number;
  readonly partitions: number;
  readonly leaseMs: number;
  readonly commitOnDelivery: boolean;
}

export interface DeliveredMessage {
  readonly partition: string;
  readonly partitionId: string;
  readonly offset: number;
  readonly messageId: string;
  readonly transactionId: string;
  /** `JSON.stringify` of the parsed payload. */
  readonly payload: string;
  readonly createdAt: string;
  readonly attempt: number;
  readonly leaseId: string;
}

export interface PopOperation extends Operation {
  readonly kind: 'pop';
  readonly request: PopRequest;
}

export type AckStatus = 'completed' | 'failed' | 'retry' | 'dlq';

export interface AckItem {
  readonly partitionId: string;
  readonly transactionId: string;
  /** '' = none is sent. */
  readonly leaseId: string;
  readonly status: AckStatus;
}

export interface AckResult {
  readonly success: boolean;
  readonly error: string | null;
  readonly leaseReleased: boolean;
  readonly deadLettered: boolean;
  readonly noop: boolean;
}

export interface AckOperation extends Operation {
  readonly kind: 'ack';
  readonly group: string;
  readonly items: readonly AckItem[];
}

export interface ExtendOperation extends Operation {
  readonly kind: 'extend';
  readonly leaseId: string;
  readonly extensionMs: number;
  /** Meaningful when answered. */
  granted: boolean;
}

/** One option of one queue being set. */
export interface ConfigureOperation extends Operation {
  readonly kind: 'configure';
  readonly queue: string;
  readonly option: string;
  readonly value: number;
}

export interface DeadLetterRow {
  readonly partition: string;
  readonly group: string;
  readonly offset: number;
  readonly transactionId: string;
  readonly messageId: string;
  readonly payload: string;
}

/** What one pop delivered of one partition: consecutive offsets under one lease. */
export interface Run {
  readonly pop: PopOperation;
  readonly leaseId: string;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly attempt: number;
}

export interface AckedItem {
  readonly offset: number;
  readonly status: AckStatus;
  /** null while the outcome is not a 2xx. */
  result: AckResult | null;
}

/** The part of an ack call that concerns one partition under one lease: the unit the broker decides on. */
export interface AckTarget {
  readonly operation: AckOperation;
  readonly leaseId: string;
  readonly items: AckedItem[];
}

/** Everything seen of one group in one partition. */
export class CursorHistory {
  readonly group: string;
  readonly runs: Run[] = [];
  readonly targets: AckTarget[] = [];
  readonly deadLetters: DeadLetterRow[] = [];

  constructor(group: string) {
    this.group = group;
  }
}

/** A record as far as it is known from answers and deliveries. */
export interface KnownRecord {
  readonly offset: number;
  messageId: string;
  transactionId: string;
  /** null until a delivery has shown it. */
  payload: string | null;
  createdAt: string | null;
  /** When a first push that may have stored it began; Infinity when none is known. */
  pushBeganAtMs: number;
  /** When it was first known to be stored. */
  storedByMs: number;
}

/** Every push of one transactionId (or, without one, of one payload) in one partition. */
export interface Intent {
  readonly payloads: Set<string>;
  readonly operations: PushOperation[];
  /** Answered with `queued` so many times. */
  queuedCount: number;
  /** Seen as so many records. */
  recordCount: number;
}

export class PartitionHistory {
  readonly queue: string;
  readonly name: string;
  /** null until a delivery has shown it. */
  id: string | null = null;
  readonly records = new Map<number, KnownRecord>();
  readonly offsetOfTransaction = new Map<string, number>();
  readonly offsetOfMessage = new Map<string, number>();
  readonly intents = new Map<string, Intent>();
  readonly cursors = new Map<string, CursorHistory>();

  constructor(queue: string, name: string) {
    this.queue = queue;
    this.name = name;
  }

  cursor(group: string): CursorHistory {
    let cursor = this.cursors.get(group);
    if (cursor === undefined) {
      cursor = new CursorHistory(group);
      this.cursors.set(group, cursor);
    }
    return cursor;
  }
}
