/**
 * The records of the log: every change of state is one of them, and `apply` in broker-state.ts is the only code that
 * makes it. Rare records are plain objects (stored as JSON); the two that come with every message are laid out as bytes.
 */
import type { QueueOptions } from '@lanemq/protocol';
import type { PushItems } from './commands.ts';
import type { EdgeJournal, EdgeRecordHandlers } from './edges/edge-records.ts';
import type { BrokerIdentity } from './ids.ts';
import type { LogRange } from './reclaimed.ts';

/** First record of a log: the numbers drawn once for the data folder. */
export interface GenesisRecord extends BrokerIdentity {
  readonly createdAtUs: number;
}

/** A queue was created or configured: all of it, as it is from now on. */
export interface QueueRecord {
  /** Number for ever; never reused. */
  readonly number: number;
  readonly name: string;
  readonly namespace: string;
  readonly task: string;
  readonly options: QueueOptions;
  readonly createdAtUs: number;
  /** Nothing of it is delivered since then; 0 = it is not paused, missing = as it was. */
  readonly pausedAtUs?: number;
}

export interface QueueDeletedRecord {
  readonly number: number;
}

/** Where a group starts in a partition it has no cursor in. */
export type SubscriptionMode = 'all' | 'new' | 'timestamp';

/** A group is known on a queue. */
export interface SubscriptionRecord {
  /** Number for ever; never reused. */
  readonly number: number;
  readonly queueNumber: number;
  readonly group: string;
  readonly mode: SubscriptionMode;
  /** Start time of modes `new` and `timestamp`, microseconds; 0 for `all`. */
  readonly sinceUs: number;
  readonly conflation: boolean;
  /** False while only pinned pops have named the group: such a group takes its start from each request. */
  readonly registered: boolean;
  readonly createdAtUs: number;
  /** Nothing is delivered to the group since then; 0 = it is not paused, missing = as it was. */
  readonly pausedAtUs?: number;
  /**
   * True when the group may begin in the middle of what is there: its positions were deleted and its registration kept,
   * or records came between its pop and its registration.
   */
  readonly restarted?: boolean;
}

/** A group is gone from a queue, with all its cursors there. */
export interface SubscriptionDeletedRecord {
  readonly number: number;
}

/** Nothing of one partition is delivered, or it is again. */
export interface PartitionPausedRecord {
  readonly pid: number;
  /** 0 = it is not paused any more. */
  readonly pausedAtUs: number;
}

/** A group gave up on a message. */
export interface DeadLetterRecord {
  /** Makes the row id, together with the pid and `index`. */
  readonly stampUs: number;
  readonly index: number;
  readonly queueNumber: number;
  readonly pid: number;
  readonly group: string;
  readonly offset: number;
  readonly error: string;
  readonly retryCount: number;
  /** The partition's name, kept with the row. Rows of early logs have none: their partition exists. */
  readonly partition?: string;
  /** Keyed hash of the transactionId by which the row is addressed; both 0 = its message id. Rows of early logs have none. */
  readonly idHigh?: number;
  readonly idLow?: number;
}

/** A dead letter was replayed, deleted, or filed anew. */
export interface DeadLetterRemovedRecord {
  /** Id of the row. */
  readonly stampUs: number;
  readonly index: number;
  readonly pid: number;
}

/** What a consumer noted down about a message. */
export interface TraceRecord {
  /** Makes the id of the trace. */
  readonly stampUs: number;
  /** 0 = no partition was named. */
  readonly pid: number;
  readonly transactionId: string;
  readonly group: string | null;
  readonly eventType: string;
  readonly names: readonly string[];
  /** JSON text. */
  readonly data: string;
  readonly worker: string | null;
  /** The client's own; null = the id of the trace is meant. */
  readonly traceId: string | null;
  readonly messageId: string | null;
}

/**
 * The whole state of one cursor after a change. Absolute values, so that applying needs no history.
 * One mutable object is reused for all of them: whoever receives it reads it at once.
 */
export class CursorRecord {
  pid = 0;
  subscription = 0;
  /** Offset of the last consumed record; −1 = none. */
  committed = -1;
  /** 0 = no lease in the row. */
  leaseStamp = 0;
  /** Offset of the last leased record. */
  leaseEnd = 0;
  expiresAtUs = 0;
  conflated = false;
  retryCount = 0;
  /** First offset of the last leased delivery; −1 = none. */
  attemptOffset = -1;
  attemptCount = 0;
  /** The failed head waits until then; 0 = it does not wait. */
  heldUntilUs = 0;
  /** The last lease that an ack released: its stamp (0 = none), first offset and length. */
  memoStamp = 0;
  memoFrom = 0;
  memoCount = 0;
  /** Records this change settled. */
  consumed = 0;
  /** True when this change settled a whole batch. */
  batchDone = false;
}

/** The oldest appends of a partition are gone. One mutable object is reused when it is read. */
export interface LogStartRecord {
  readonly pid: number;
  /** Offset of the first record that is kept; the next offset when none is. */
  readonly logStart: number;
  /** What went, in records and in bytes of their blocks. */
  readonly records: number;
  readonly bytes: number;
  /** Stamp of the first append that is kept; 0 when none is. */
  readonly keptSinceUs: number;
}

/** What reads the records of an entry. Byte ranges are valid only during the call. */
export interface RecordHandlers {
  /** null = records of edge tables are passed over. */
  readonly edges: EdgeRecordHandlers | null;
  genesis(record: GenesisRecord): void;
  queue(record: QueueRecord): void;
  queueDeleted(record: QueueDeletedRecord): void;
  partition(
    pid: number,
    queueNumber: number,
    createdAtUs: number,
    nameHash: number,
    bytes: Uint8Array,
    nameStart: number,
    nameEnd: number,
  ): void;
  /** `bytes[at …]` is the block record, `length` bytes of it; the numbers are its header. */
  block(
    pid: number,
    firstOffset: number,
    stampUs: number,
    count: number,
    length: number,
    bytes: Uint8Array,
    view: DataView,
    at: number,
  ): void;
  subscription(record: SubscriptionRecord): void;
  cursor(record: CursorRecord): void;
  deadLetter(record: DeadLetterRecord): void;
  subscriptionDeleted(record: SubscriptionDeletedRecord): void;
  partitionPaused(record: PartitionPausedRecord): void;
  logStart(record: LogStartRecord): void;
  /** Partitions of one queue, ascending by pid. */
  partitionsDeleted(queueNumber: number, pids: readonly number[]): void;
  /** As `block`, for a copy of a block that was stored before; it came from `fromAddress`. */
  relocatedBlock(
    pid: number,
    firstOffset: number,
    fromAddress: number,
    bytes: Uint8Array,
    view: DataView,
    at: number,
  ): void;
  segmentReclaimed(range: LogRange): void;
  trace(record: TraceRecord): void;
  deadLetterRemoved(record: DeadLetterRemovedRecord): void;
  /** A record of the block that follows has to wait for a time. */
  dueRecord(pid: number, offset: number, dueUs: number, stampUs: number): void;
  /** A record that waits has another time from now on; `dueUs` 0 = it was cancelled. */
  dueChanged(pid: number, offset: number, dueUs: number): void;
}

/**
 * Where decisions put their records. A record is encoded and applied before the call returns, so that what is decided
 * next sees it; it becomes durable with the entry that is being filled.
 */
export interface Journal {
  readonly edges: EdgeJournal;
  queue(record: QueueRecord): void;
  queueDeleted(record: QueueDeletedRecord): void;
  partition(
    pid: number,
    queueNumber: number,
    createdAtUs: number,
    nameHash: number,
    bytes: Uint8Array,
    nameStart: number,
    nameEnd: number,
  ): void;
  /** Appends items `numbers[0..count)` of `items` as one block. */
  block(
    pid: number,
    firstOffset: number,
    stampUs: number,
    items: PushItems,
    numbers: Int32Array,
    from: number,
    count: number,
    encrypted: boolean,
  ): void;
  subscription(record: SubscriptionRecord): void;
  cursor(record: CursorRecord): void;
  deadLetter(record: DeadLetterRecord): void;
  subscriptionDeleted(record: SubscriptionDeletedRecord): void;
  partitionPaused(record: PartitionPausedRecord): void;
  logStart(record: LogStartRecord): void;
  partitionsDeleted(queueNumber: number, pids: readonly number[]): void;
  /** Stores the block record `bytes[at, at + length)` once more, nearer to the tail. */
  relocatedBlock(fromAddress: number, bytes: Uint8Array, at: number, length: number): void;
  segmentReclaimed(range: LogRange): void;
  trace(record: TraceRecord): void;
  deadLetterRemoved(record: DeadLetterRemovedRecord): void;
  dueChanged(pid: number, offset: number, dueUs: number): void;
}
