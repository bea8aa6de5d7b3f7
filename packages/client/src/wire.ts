/** What travels: requests and answers of the routes the client calls, spelled as on the wire. */
import type { QueueOptions } from '@lanemq/protocol';

/** The broker's word on one pushed item. The mixed casing is the contract's. */
export interface PushResult {
  /** Position of the item in the push. */
  readonly index: number;
  readonly message_id: string;
  readonly transaction_id: string;
  readonly queueName: string;
  /** `duplicate`: the partition already holds this transactionId; id and offset are those of the original. */
  readonly status: 'queued' | 'duplicate' | (string & {});
  /** Absent when the item was not stored. */
  readonly offset?: number;
  /** The ISO time that a newly stored item waits for; absent when it does not wait. */
  readonly dueAt?: string;
}

/** A message that waits for its time. */
export interface DueMessage {
  readonly id: string;
  readonly transactionId: string;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly offset: number;
  readonly createdAt: string;
  readonly dueAt: string;
}

/** Messages that wait, the earliest first. */
export interface DuePage {
  readonly messages: readonly DueMessage[];
  /** `after` of the next page; null on the last one. */
  readonly next: string | null;
  /** Messages that wait, in all queues. */
  readonly waiting: number;
}

/** What became of a message that was moved or cancelled. */
export interface DueChange {
  readonly success: true;
  readonly partitionId: string;
  readonly offset: number;
  readonly cancelled: boolean;
  /** The time it waits for now; one that has passed: it is due. Null when it was cancelled. */
  readonly dueAt: string | null;
  /** False when it was so already. */
  readonly changed: boolean;
}

/** Texts that travel with a message beside its payload, such as a trace context. */
export type MessageHeaders = Readonly<Record<string, string>>;

/** A message as a pop delivers it. */
export interface WireMessage {
  readonly id: string;
  readonly transactionId: string;
  readonly traceId: string | null;
  readonly data: unknown;
  readonly headers?: MessageHeaders;
  readonly producerSub: string | null;
  readonly createdAt: string;
  readonly partitionId: string;
  readonly partition: string;
  readonly leaseId: string;
  readonly consumerGroup: string | null;
  readonly deliveryAttempt: number;
  readonly offset: number;
}

/** What an ack can say about a message. */
export type AckStatus = 'completed' | 'failed' | 'retry' | 'dlq';

/** One acknowledgement as sent. */
export interface AckItem {
  readonly transactionId: string;
  readonly partitionId: string;
  readonly leaseId?: string;
  readonly status: AckStatus;
  readonly error?: string;
}

/** The broker's word on one acknowledgement. */
export interface AckResult {
  readonly index: number;
  readonly transactionId: string;
  readonly success: boolean;
  readonly error: string | null;
  /** The lease of the message's partition is gone after this ack. */
  readonly leaseReleased: boolean;
  /** This ack made the message a dead letter. */
  readonly dlq: boolean;
  /** The message had been settled before. */
  readonly noop: boolean;
}

/** Answer to a lease extension. */
export interface ExtendResult {
  readonly leaseId: string;
  /** False: no live lease has this id. */
  readonly success: boolean;
  /** Partitions whose lease was extended. */
  readonly renewed: number;
  /** The earliest new expiry as an ISO time; null when nothing was extended. */
  readonly newExpiresAt: string | null;
  /** Why nothing was extended. */
  readonly error?: string;
}

/** Answer to a configure: the queue as it is now. */
export interface QueueConfiguration {
  readonly configured: true;
  readonly queueId: string;
  readonly queue: string;
  readonly namespace: string;
  readonly task: string;
  readonly options: QueueOptions;
}

/** Answer to a delete; deleting what is not there is no error. */
export interface QueueDeletion {
  readonly deleted: boolean;
  readonly existed: boolean;
  readonly queue: string;
}

/** One row of the queue list. */
export interface QueueRow {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly task: string;
  /** How many partitions the queue has. */
  readonly partitions: number;
  readonly messages: {
    readonly total: number;
    readonly pending: number;
    readonly processing: number;
    readonly completed: number;
    readonly deadLetter: number;
  };
  readonly retainedBytes: number;
  readonly options: QueueOptions;
  readonly createdAt: string;
}

/** One dead letter: a copy of the message and why a group gave up on it. */
export interface DeadLetter<T = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly createdAt: string;
  readonly consumerGroup: string;
  readonly offset: number;
  readonly messageId: string;
  readonly transactionId: string;
  readonly data: T;
  readonly errorMessage: string;
  /** Failed deliveries charged before it was filed. */
  readonly retryCount: number;
  readonly failedAt: string;
}

/** A page of dead letters, newest failure first. */
export interface DeadLetterPage<T = unknown> {
  readonly messages: readonly DeadLetter<T>[];
  /** All that match, not only this page. */
  readonly total: number;
}

/** A record as reads by offset show it. */
export interface FetchedRecord<T = unknown> {
  readonly offset: number;
  readonly transactionId: string;
  readonly payload: T;
  /** ISO time with microseconds of the push that stored it. */
  readonly ts: string;
}

/** An entry of a fetch, as it travels. */
export interface WireFetch<T = unknown> {
  readonly records: readonly FetchedRecord<T>[];
  readonly highWatermark: number;
  readonly logStartOffset: number;
  /** `OFFSET_OUT_OF_RANGE`, `UNKNOWN_TOPIC_OR_PARTITION` or `RECORD_DAMAGED`; absent when the entry was answered. */
  readonly error?: string;
}

/** The first record of a partition at or after a time. */
export interface FoundOffset {
  readonly queue: string;
  readonly partition: string;
  /** null: no record is as young as that. */
  readonly offset: number | null;
  readonly ts: string | null;
  readonly highWatermark: number;
  readonly logStartOffset: number;
  readonly error?: string;
}

/** A partition in a list of changed ones. */
export interface ChangedPartition {
  readonly name: string;
  readonly id: string;
  /** −1 when nothing was ever written. */
  readonly lastOffset: number;
  readonly logStart: number;
  readonly lastWriteAt: string;
}

/** Answer of a seek. */
export interface SeekResult {
  readonly success: boolean;
  readonly consumerGroup: string;
  readonly queueName: string;
  readonly partitionName: string | null;
  readonly partitionsUpdated: number;
}

/** Answer of deleting a group; also when there was none. */
export interface GroupDeletion {
  readonly success: boolean;
  readonly consumerGroup: string;
  readonly queueName: string | null;
  readonly deletedPartitions: number;
  readonly metadataDeleted: boolean;
  readonly queues: readonly string[];
}

/** Answer of moving where a group starts. */
export interface GroupStart {
  readonly success: boolean;
  readonly consumerGroup: string;
  readonly newTimestamp: string;
  readonly rowsUpdated: number;
}

/** Answer of pausing or resuming; `changed` is false when it was so already. */
export interface PauseResult {
  readonly success: boolean;
  readonly paused: boolean;
  readonly pausedAt: string | null;
  readonly changed: boolean;
}

/** What became of the replay of one dead letter. */
export interface ReplayResult {
  /** `duplicate`: the destination has it already, and the dead letter stays. */
  readonly result: 'moved' | 'duplicate';
  readonly queue: string;
  readonly partition: string;
  readonly consumerGroup: string;
  readonly dlqId: string;
  readonly originalTransactionId: string;
  readonly replayedAs: PushResult;
  readonly dlqRowRemoved: boolean;
}

/** A redrive: many dead letters replayed by the broker. */
export interface Redrive {
  readonly id: string;
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  readonly moved: number;
  readonly duplicates: number;
  readonly failed: number;
  readonly startedAt: string;
  readonly endedAt: string | null;
  readonly lastError: string | null;
}

/** What a group has before it on a queue. */
export interface QueueDepth {
  readonly queue: string;
  readonly group: string | null;
  /** Not settled, leased ones apart. */
  readonly pending: number;
  /** Under a lease. */
  readonly processing: number;
  /** What a pop could have now. */
  readonly ready: number;
  readonly partitionsPending: number;
  readonly partitionsReady: number;
  readonly conflation: boolean;
  /** As `pending` and `ready`, one message per partition for a group that conflates. */
  readonly effectivePending: number;
  readonly effectiveReady: number;
  readonly partitions: readonly {
    readonly partition: string;
    readonly pending: number;
    readonly processing: number;
    readonly ready: number;
  }[];
}

/** A message as lists show it, with its state. */
export interface MessageRow {
  readonly id: string;
  readonly transactionId: string;
  readonly data: unknown;
  /** ISO time with milliseconds. */
  readonly createdAt: string;
  readonly queue: string;
  readonly partition: string;
  /** A UUID. */
  readonly partitionId: string;
  readonly status: 'pending' | 'processing' | 'completed' | 'dead_letter';
  readonly [field: string]: unknown;
}

/** A page of messages, newest first. */
export interface MessageList {
  readonly messages: readonly MessageRow[];
  readonly total: number;
  /** False: the search ended before everything was looked at. */
  readonly totalIsExact: boolean;
  readonly [field: string]: unknown;
}

/** What consumers noted down, newest first. */
export interface TraceList {
  readonly traces: readonly Readonly<Record<string, unknown>>[];
  readonly total: number;
  readonly [field: string]: unknown;
}

/** A group on a queue. */
export interface GroupRow {
  readonly name: string;
  readonly queueName: string;
  readonly members: number;
  readonly partitionsWithLag: number;
  /** Messages that are not settled, leased ones included. */
  readonly totalLag: number;
  /** Age in seconds of the oldest message that is not settled. */
  readonly maxTimeLag: number;
  readonly state: 'Stable' | 'Lagging' | 'Dead';
  readonly [field: string]: unknown;
}

/** A partition in which a group lags. */
export interface LaggingPartition {
  readonly consumer_group: string;
  readonly queue_name: string;
  readonly partition_name: string;
  /** A UUID. */
  readonly partition_id: string;
  readonly offset_lag: number;
  readonly time_lag_seconds: number;
  readonly oldest_unconsumed_at: string;
  readonly [field: string]: unknown;
}
