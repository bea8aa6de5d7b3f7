/** Answers of the read routes, as plain data. Times in microseconds, sizes in bytes. */
import type { QueueOptions } from '@lanemq/protocol';
import type { Block, GroupBounds } from './group-standing.ts';

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

/** A queue as its configuration made it. */
export type ConfiguredQueue = Pick<QueueSummary, 'id' | 'name' | 'namespace' | 'task' | 'options'>;

/** Newest first. */
export interface QueuePage {
  readonly limit: number;
  readonly offset: number;
  /** False: messages need not be counted. */
  readonly counted: boolean;
}

/** What ends a listing of queues. */
export interface QueueList {
  readonly total: number;
  /** False when there are more behind the page. */
  readonly isWhole: boolean;
}

/** Partitions in the order of their creation, behind the one with number `after` (0 = from the first). */
export interface PartitionPage {
  readonly limit: number;
  readonly after: number;
}

export interface QueueDetail extends QueueSummary {
  readonly partitions: readonly PartitionDetail[];
  /** `after` of the next page; null = this was the last. */
  readonly partitionsNext: number | null;
}

export interface QueueDepth {
  readonly queue: string;
  readonly group: string;
  /** Not leased. */
  readonly pending: number;
  readonly processing: number;
  /** Those of `pending` that a pop could have now, were nothing paused and the group within its bounds. */
  readonly ready: number;
  readonly partitionsPending: number;
  readonly partitionsReady: number;
  /** Of those that hold something. */
  readonly partitionsPaused: number;
  /** Why the group gets nothing of the queue now. */
  readonly blockedBy: readonly Block[];
  readonly bounds: GroupBounds | null;
  readonly conflation: boolean;
  readonly partitions: readonly {
    readonly partition: string;
    readonly pid: number;
    readonly pending: number;
    readonly processing: number;
    readonly ready: number;
    readonly paused: boolean;
  }[];
  readonly partitionsNext: number | null;
}

export interface QueueSizes {
  readonly queue: string;
  readonly retainedBytes: number;
  readonly partitions: readonly { readonly name: string; readonly bytes: number }[];
  readonly partitionsNext: number | null;
}

/** All queues with one namespace or task. */
export interface LabelTotals {
  readonly label: string;
  queues: number;
  partitions: number;
  total: number;
  pending: number;
}

export interface OverviewView {
  readonly queues: number;
  readonly partitions: number;
  readonly namespaces: readonly LabelTotals[];
  readonly tasks: readonly LabelTotals[];
  readonly messages: MessageCounts;
  /** Pending messages per queue. */
  readonly offsetLag: { readonly avg: number; readonly median: number; readonly min: number; readonly max: number };
  readonly nowUs: number;
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
