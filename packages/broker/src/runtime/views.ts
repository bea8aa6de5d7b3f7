/** Answers of the read routes, as plain data. Times in microseconds, sizes in bytes. */
import type { QueueOptions } from '@lanemq/protocol';

export interface MessageCounts {
  total: number;
  pending: number;
  processing: number;
  completed: number;
  deadLetter: number;
}

export interface QueueSummary {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly task: string;
  readonly createdAtUs: number;
  readonly partitionCount: number;
  readonly segmentCount: number;
  readonly messages: MessageCounts;
  readonly retainedBytes: number;
  readonly options: QueueOptions;
  /** Since when nothing is delivered; 0 = it is not paused. */
  readonly pausedAtUs: number;
}

export interface PartitionDetail {
  readonly id: string;
  readonly pid: number;
  readonly name: string;
  readonly createdAtUs: number;
  /** Stamp of the oldest append that is kept; 0 = none. */
  readonly firstWriteAtUs: number;
  /** Stamp of the newest append; 0 = none was ever made. */
  readonly lastWriteAtUs: number;
  readonly counts: MessageCounts;
  readonly totalConsumed: number;
  readonly batchesConsumed: number;
  readonly retainedBytes: number;
  readonly pausedAtUs: number;
}

export interface QueueDetail extends QueueSummary {
  /** At most `partitionsListedMax` of them, in creation order. */
  readonly partitions: readonly PartitionDetail[];
}

export interface DeadLetterView {
  readonly id: string;
  readonly queue: string;
  readonly partition: string;
  readonly pid: number;
  readonly group: string;
  readonly offset: number;
  readonly messageId: string;
  readonly transactionId: string;
  readonly createdAtUs: number;
  readonly failedAtUs: number;
  readonly retryCount: number;
  readonly error: string;
  /** The payload's JSON text as it was pushed, decrypted. */
  readonly payload: Uint8Array;
}

export interface DeadLetterPage {
  readonly rows: readonly DeadLetterView[];
  readonly total: number;
}
