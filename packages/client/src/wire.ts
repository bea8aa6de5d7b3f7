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

/** One delivered message. `T` is what the producer pushed. */
export interface Message<T = unknown> {
  readonly id: string;
  readonly transactionId: string;
  readonly traceId: string | null;
  readonly data: T;
  readonly producerSub: string | null;
  /** ISO time with microseconds; all messages of one push to one partition share it. */
  readonly createdAt: string;
  /** Names the partition in acks; a decimal number as text. */
  readonly partitionId: string;
  readonly partition: string;
  /** One lease covers all messages of one pop; empty with commit on delivery. */
  readonly leaseId: string;
  readonly consumerGroup: string | null;
  /** 1 at the first delivery. */
  readonly deliveryAttempt: number;
  /** Position in the partition, from 0, without gaps. */
  readonly offset: number;
}

/** What an ack can say about a message. */
export type AckStatus = 'completed' | 'failed' | 'retry' | 'dlq';

/** One acknowledgement as sent. */
export interface AckItem {
  readonly transactionId: string;
  readonly partitionId: string;
  readonly leaseId: string;
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
  /** Time that the record still waits for. */
  readonly dueAt?: string;
  /** True when it was cancelled before its time; otherwise absent. */
  readonly cancelled?: true;
}

/** What a fetch read of one partition. */
export interface FetchedPartition<T = unknown> {
  readonly queue: string;
  readonly partition: string;
  readonly records: readonly FetchedRecord<T>[];
  /** The next offset to be given. */
  readonly highWatermark: number;
  /** The oldest offset that is kept. */
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
