/** What travels: requests and answers of the routes the client calls, spelled as on the wire. */
import type { QueueOptions } from '@lanemq/protocol';

/** The broker's word on one pushed item. The mixed casing is the contract's. */
export interface PushResult {
  /** Position of the item in the push. */
  readonly index: number;
  /** UUID of the message; of the first one when it was a duplicate. */
  readonly message_id: string;
  /** As it was sent, or the message id. */
  readonly transaction_id: string;
  /** The queue. */
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
  /** A UUID of version 7. */
  readonly id: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** Position in the partition, from 0. */
  readonly offset: number;
  /** When it was stored: ISO time, microseconds. */
  readonly createdAt: string;
  /** ISO time before which it is not delivered. */
  readonly dueAt: string;
}

/** Messages that wait, the earliest first. */
export interface DuePage {
  /** The rows of the page. */
  readonly messages: readonly DueMessage[];
  /** `after` of the next page; null on the last one. */
  readonly next: string | null;
  /** Messages that wait, in all queues. */
  readonly waiting: number;
}

/** What became of a message that was moved or cancelled. */
export interface DueChange {
  /** Done as asked. */
  readonly success: true;
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** Position in the partition, from 0. */
  readonly offset: number;
  /** It is never delivered. */
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
  /** A UUID of version 7. */
  readonly id: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** A UUID, or null. */
  readonly traceId: string | null;
  /** The payload. */
  readonly data: unknown;
  /** What travels beside the payload. */
  readonly headers?: MessageHeaders;
  /** Who pushed it, where the broker knows users; else null. */
  readonly producerSub: string | null;
  /** When it was stored: ISO time, microseconds. */
  readonly createdAt: string;
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** Name of the partition. */
  readonly partition: string;
  /** The lease; empty or absent: none. */
  readonly leaseId: string;
  /** The group; null: queue mode. */
  readonly consumerGroup: string | null;
  /** 1 at the first delivery. */
  readonly deliveryAttempt: number;
  /** Position in the partition, from 0. */
  readonly offset: number;
}

/** What an ack can say about a message. */
export type AckStatus = 'completed' | 'failed' | 'retry' | 'dlq';

/** One acknowledgement as sent. */
export interface AckItem {
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** The lease; empty or absent: none. */
  readonly leaseId?: string;
  /** What becomes of it. */
  readonly status: AckStatus;
  /** Why not; null or absent when it was done. */
  readonly error?: string;
}

/** The broker's word on one acknowledgement. */
export interface AckResult {
  /** Position in the call, from 0. */
  readonly index: number;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** Done as asked. */
  readonly success: boolean;
  /** Why not; null or absent when it was done. */
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
  /** The lease; empty or absent: none. */
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
  /** Always true. */
  readonly configured: true;
  /** UUID of the queue. */
  readonly queueId: string;
  /** Name of the queue. */
  readonly queue: string;
  /** Label of the queue; empty: none. */
  readonly namespace: string;
  /** Second label; empty: none. */
  readonly task: string;
  /** All options of the queue. */
  readonly options: QueueOptions;
}

/** Answer to a delete; deleting what is not there is no error. */
export interface QueueDeletion {
  /** Something was removed. */
  readonly deleted: boolean;
  /** There was such a queue. */
  readonly existed: boolean;
  /** Name of the queue. */
  readonly queue: string;
}

/** One row of the queue list. */
export interface QueueRow {
  /** A UUID of version 7. */
  readonly id: string;
  /** Its name. */
  readonly name: string;
  /** Label of the queue; empty: none. */
  readonly namespace: string;
  /** Second label; empty: none. */
  readonly task: string;
  /** How many partitions the queue has. */
  readonly partitions: number;
  /** The rows of the page. */
  readonly messages: {
    readonly total: number;
    readonly pending: number;
    readonly processing: number;
    readonly completed: number;
    readonly deadLetter: number;
  };
  /** Bytes of payloads that are kept. */
  readonly retainedBytes: number;
  /** All options of the queue. */
  readonly options: QueueOptions;
  /** When it was stored: ISO time, microseconds. */
  readonly createdAt: string;
}

/** One dead letter: a copy of the message and why a group gave up on it. */
export interface DeadLetter<T = unknown> {
  /** A UUID of version 7. */
  readonly id: string;
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** Number of the partition, as text. */
  readonly partitionId: string;
  /** When it was stored: ISO time, microseconds. */
  readonly createdAt: string;
  /** The group; null: queue mode. */
  readonly consumerGroup: string;
  /** Position in the partition, from 0. */
  readonly offset: number;
  /** UUID of the message. */
  readonly messageId: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** The payload. */
  readonly data: T;
  /** What the last failed delivery said. */
  readonly errorMessage: string;
  /** Failed deliveries charged before it was filed. */
  readonly retryCount: number;
  /** When it was filed: ISO time. */
  readonly failedAt: string;
}

/** A page of dead letters, newest failure first. */
export interface DeadLetterPage<T = unknown> {
  /** The rows of the page. */
  readonly messages: readonly DeadLetter<T>[];
  /** All that match, not only this page. */
  readonly total: number;
}

/** A record as reads by offset show it. */
export interface FetchedRecord<T = unknown> {
  /** Position in the partition, from 0. */
  readonly offset: number;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** What is stored. */
  readonly payload: T;
  /** ISO time with microseconds of the push that stored it. */
  readonly ts: string;
  /** Time that the record still waits for. */
  readonly dueAt?: string;
  /** True when it was cancelled before its time; otherwise absent. */
  readonly cancelled?: true;
}

/** An entry of a fetch, as it travels. */
export interface WireFetch<T = unknown> {
  /** In the order of their offsets. */
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
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** null: no record is as young as that. */
  readonly offset: number | null;
  /** ISO time. */
  readonly ts: string | null;
  /** The next offset to be given. */
  readonly highWatermark: number;
  /** The oldest offset that is kept. */
  readonly logStartOffset: number;
  /** Why not; null or absent when it was done. */
  readonly error?: string;
}

/** A partition in a list of changed ones. */
export interface ChangedPartition {
  /** Its name. */
  readonly name: string;
  /** A UUID of version 7. */
  readonly id: string;
  /** −1 when nothing was ever written. */
  readonly lastOffset: number;
  /** The oldest offset that is kept. */
  readonly logStart: number;
  /** ISO time of the newest record. */
  readonly lastWriteAt: string;
}

/** Answer of a seek. */
export interface SeekResult {
  /** Done as asked. */
  readonly success: boolean;
  /** The group; null: queue mode. */
  readonly consumerGroup: string;
  /** The queue. */
  readonly queueName: string;
  /** The partition; null: all. */
  readonly partitionName: string | null;
  /** In how many partitions it was moved. */
  readonly partitionsUpdated: number;
}

/** Answer of deleting a group; also when there was none. */
export interface GroupDeletion {
  /** Done as asked. */
  readonly success: boolean;
  /** The group; null: queue mode. */
  readonly consumerGroup: string;
  /** The queue. */
  readonly queueName: string | null;
  /** Positions that were removed. */
  readonly deletedPartitions: number;
  /** The registration was removed, too. */
  readonly metadataDeleted: boolean;
  /** The queues concerned. */
  readonly queues: readonly string[];
}

/** Answer of moving where a group starts. */
export interface GroupStart {
  /** Done as asked. */
  readonly success: boolean;
  /** The group; null: queue mode. */
  readonly consumerGroup: string;
  /** The time, as it was sent. */
  readonly newTimestamp: string;
  /** Registrations that were changed. */
  readonly rowsUpdated: number;
}

/** Answer of pausing or resuming; `changed` is false when it was so already. */
export interface PauseResult {
  /** Done as asked. */
  readonly success: boolean;
  /** How it is now. */
  readonly paused: boolean;
  /** Since when: ISO time; null when it is not paused. */
  readonly pausedAt: string | null;
  /** False: it was so before. */
  readonly changed: boolean;
}

/** What became of the replay of one dead letter. */
export interface ReplayResult {
  /** `duplicate`: the destination has it already, and the dead letter stays. */
  readonly result: 'moved' | 'duplicate';
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** The group; null: queue mode. */
  readonly consumerGroup: string;
  /** Id of the dead letter. */
  readonly dlqId: string;
  /** Of the message that was filed. */
  readonly originalTransactionId: string;
  /** The result of the push. */
  readonly replayedAs: PushResult;
  /** The dead letter is gone. */
  readonly dlqRowRemoved: boolean;
}

/** A redrive: many dead letters replayed by the broker. */
export interface Redrive {
  /** A UUID of version 7. */
  readonly id: string;
  /** How it is. */
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  /** Replayed. */
  readonly moved: number;
  /** The destination had them already. */
  readonly duplicates: number;
  /** Could not be replayed. */
  readonly failed: number;
  /** ISO time. */
  readonly startedAt: string;
  /** ISO time; null while it runs. */
  readonly endedAt: string | null;
  /** The last failure; null: none. */
  readonly lastError: string | null;
}

/** What a group has before it on a queue. */
export interface QueueDepth {
  /** Name of the queue. */
  readonly queue: string;
  /** The group. */
  readonly group: string | null;
  /** Not settled, leased ones apart. */
  readonly pending: number;
  /** Under a lease. */
  readonly processing: number;
  /** What a pop could have now. */
  readonly ready: number;
  /** Partitions that hold something. */
  readonly partitionsPending: number;
  /** Partitions that a pop could have now. */
  readonly partitionsReady: number;
  /** The group gets the newest message of each partition only. */
  readonly conflation: boolean;
  /** As `pending` and `ready`, one message per partition for a group that conflates. */
  readonly effectivePending: number;
  /** As `ready`, one message per partition for a group that conflates. */
  readonly effectiveReady: number;
  /** The partitions. */
  readonly partitions: readonly {
    readonly partition: string;
    readonly pending: number;
    readonly processing: number;
    readonly ready: number;
  }[];
}

/** A message as lists show it, with its state. */
export interface MessageRow {
  /** A UUID of version 7. */
  readonly id: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** The payload. */
  readonly data: unknown;
  /** ISO time with milliseconds. */
  readonly createdAt: string;
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** A UUID. */
  readonly partitionId: string;
  /** What becomes of it. */
  readonly status: 'pending' | 'processing' | 'completed' | 'dead_letter';
  readonly [field: string]: unknown;
}

/** A page of messages, newest first. */
export interface MessageList {
  /** The rows of the page. */
  readonly messages: readonly MessageRow[];
  /** All that match. */
  readonly total: number;
  /** False: the search ended before everything was looked at. */
  readonly totalIsExact: boolean;
  readonly [field: string]: unknown;
}

/** What consumers noted down, newest first. */
export interface TraceList {
  /** The notes. */
  readonly traces: readonly Readonly<Record<string, unknown>>[];
  /** All that match. */
  readonly total: number;
  readonly [field: string]: unknown;
}

/** A group on a queue. */
export interface GroupRow {
  /** Its name. */
  readonly name: string;
  /** The queue. */
  readonly queueName: string;
  /** Partitions under lease, and pops that wait. */
  readonly members: number;
  /** Partitions with messages that are not settled. */
  readonly partitionsWithLag: number;
  /** Messages that are not settled, leased ones included. */
  readonly totalLag: number;
  /** Age in seconds of the oldest message that is not settled. */
  readonly maxTimeLag: number;
  /** How it is. */
  readonly state: 'Stable' | 'Lagging' | 'Dead';
  readonly [field: string]: unknown;
}

/** A partition in which a group lags. */
export interface LaggingPartition {
  /** The group. */
  readonly consumer_group: string;
  /** The queue. */
  readonly queue_name: string;
  /** The partition. */
  readonly partition_name: string;
  /** A UUID. */
  readonly partition_id: string;
  /** Messages before the group. */
  readonly offset_lag: number;
  /** Age of its next message. */
  readonly time_lag_seconds: number;
  /** ISO time of its next message. */
  readonly oldest_unconsumed_at: string;
  readonly [field: string]: unknown;
}
