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
