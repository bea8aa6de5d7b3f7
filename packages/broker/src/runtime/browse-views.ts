/** What browsing shows, as plain data, and what may be asked. Times in microseconds. */
import type { QueueOptions } from '@lanemq/protocol';
import type { TraceCommand, TraceOutcome } from '../core/mod.ts';
import type { Reply } from './engine.ts';
import type { RowsReply } from './group-engine.ts';
import type { Block } from './group-standing.ts';
import type { PartitionRef } from './partition-ref.ts';
import type {
  OverviewView,
  PartitionPage,
  QueueDepth,
  QueueList,
  QueuePage,
  QueueSizes,
  QueueSummary,
} from './views.ts';

export type MessageStatus = 'pending' | 'processing' | 'completed' | 'dead_letter';

export interface MessageFilter {
  readonly queue: string | null;
  readonly partition: string | null;
  readonly namespace: string | null;
  readonly task: string | null;
  readonly status: MessageStatus | null;
  /** Stamps from this one … */
  readonly fromUs: number;
  /** … up to, not including, this one. null = to the end of the minute that is running. */
  readonly toUs: number | null;
  readonly limit: number;
  readonly offset: number;
}

/** A record as it lies in its partition. */
export interface RecordView {
  readonly pid: number;
  readonly offset: number;
  readonly id: string;
  readonly transactionId: string;
  /** Fingerprint of the transactionId, 16 hexadecimal digits. */
  readonly fingerprint: string;
  readonly traceId: string | null;
  readonly producerSub: string | null;
  readonly createdAtUs: number;
  readonly isEncrypted: boolean;
  /** The payload's JSON text as it was pushed; null when it is encrypted and there is no key that fits. */
  readonly payload: Uint8Array | null;
  /** Offset of the first record of its append, and its place in it. */
  readonly appendOffset: number;
  readonly appendIndex: number;
}

/** What is true of a record for its whole partition or queue. */
export interface MessageView extends RecordView, DueFacts {
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly namespace: string;
  readonly task: string;
  readonly priority: number;
  readonly status: MessageStatus;
  /** In queue mode; null when nobody consumes the queue without a group. */
  readonly queueStatus: MessageStatus | null;
  /** Named groups that have passed it, of all named groups. */
  readonly consumedBy: number;
  readonly totalGroups: number;
  /** Of a live lease that covers it; 0 = none. */
  readonly leaseExpiresAtUs: number;
}

export interface ConsumptionMode {
  readonly hasQueueMode: boolean;
  readonly busGroupsCount: number;
}

export interface MessagePage {
  readonly rows: readonly MessageView[];
  readonly total: number;
  /** False: `total` counts those that were found before the search was ended; there may be more. */
  readonly totalIsExact: boolean;
  readonly mode: ConsumptionMode;
}

export interface MessageDetail extends MessageView {
  readonly errorMessage: string | null;
  readonly retryCount: number;
  readonly options: QueueOptions;
  readonly mode: ConsumptionMode;
  readonly groups: readonly {
    readonly name: string;
    readonly committed: number;
    readonly consumed: boolean;
    readonly leaseExpiresAtUs: number;
  }[];
}

export interface PeekRequest {
  readonly queue: string;
  readonly partition: string;
  /** null = from the oldest that is kept. */
  readonly offset: number | null;
  readonly limit: number;
  /** null = all groups. */
  readonly group: string | null;
}

/**
 * What a record is for one group. `held`: behind a failed head that waits; `delayed`: by the queue's delay or quiet time, or
 * because a record up to this one waits for a time of its own.
 */
export type PeekState = 'consumed' | 'leased' | 'held' | 'delayed' | 'cancelled' | 'ready';

export interface PeekGroup {
  readonly group: string;
  /** −1 = nothing. */
  readonly committed: number;
  readonly lease: {
    readonly id: string;
    readonly sinceUs: number;
    readonly from: number;
    readonly to: number;
    readonly expiresAtUs: number;
  } | null;
  readonly retryCount: number;
  readonly attemptCount: number;
  readonly heldUntilUs: number;
  readonly delayedUntilUs: number;
  /** Why it gets nothing of the partition now, whatever is ready. */
  readonly blockedBy: readonly Block[];
}

/** Whether a record has to wait for a time of its own. */
export interface DueFacts {
  /** 0 = it does not wait. */
  readonly dueUs: number;
  readonly isCancelled: boolean;
}

export interface PeekRecord extends RecordView, DueFacts {
  readonly isDeadLetter: boolean;
  /** One per group of the answer, in the same order; `untilUs` 0 = nothing ends by itself. */
  readonly states: readonly { readonly state: PeekState; readonly untilUs: number }[];
}

export interface PeekView {
  readonly queue: string;
  readonly partition: string;
  readonly pid: number;
  readonly partitionId: string;
  readonly logStart: number;
  readonly nextOffset: number;
  readonly groups: readonly PeekGroup[];
  readonly records: readonly PeekRecord[];
  /** Offset of the next page; null = the end was reached. */
  readonly next: number | null;
}

export interface TraceView {
  readonly id: string;
  readonly traceId: string;
  readonly transactionId: string;
  /** 0 = none was named. */
  readonly pid: number;
  /** The names as they are now; null when the partition is gone. */
  readonly queue: string | null;
  readonly partition: string | null;
  readonly partitionId: string | null;
  readonly group: string | null;
  readonly eventType: string;
  readonly names: readonly string[];
  /** JSON text. */
  readonly data: string;
  readonly worker: string | null;
  readonly messageId: string | null;
  readonly createdAtUs: number;
}

export interface TracePage {
  readonly rows: readonly TraceView[];
  readonly total: number;
}

export interface TraceNameRow {
  readonly name: string;
  traces: number;
  messages: number;
  lastSeenUs: number;
}

export interface TraceNamePage {
  readonly rows: readonly TraceNameRow[];
  readonly total: number;
}

export interface PageOf {
  readonly limit: number;
  readonly offset: number;
}

/** What happened in one minute. */
export interface MinuteSample {
  /** Begin of the minute. */
  readonly atUs: number;
  readonly pushed: number;
  readonly delivered: number;
  readonly acked: number;
  readonly deadLettered: number;
}

export interface StatusView {
  /** Newest first; minutes in which nothing happened are left out. */
  readonly samples: readonly MinuteSample[];
  readonly overview: OverviewView;
  readonly leasedPartitions: number;
  readonly leasedRecords: number;
  readonly deadLetterPartitions: number;
  readonly topErrors: readonly { readonly error: string; readonly count: number }[];
  /** Queues that hold messages, by name, as many as a page of queues has. */
  readonly queues: readonly QueueSummary[];
  /** When the process began to count. */
  readonly sinceUs: number;
}

/** The reads that consoles and operators make, and traces. One object of the shard implements it. */
export interface Views {
  listQueues(page: QueuePage, reply: RowsReply<QueueSummary, QueueList>): void;
  queueDepth(queue: string, group: string, page: PartitionPage, reply: Reply<QueueDepth | null>): void;
  queueSizes(queue: string, page: PartitionPage, reply: Reply<QueueSizes | null>): void;
  overview(reply: Reply<OverviewView>): void;
  status(fromUs: number, toUs: number, reply: Reply<StatusView>): void;
  messages(filter: MessageFilter, reply: Reply<MessagePage>): void;
  /** Null: there is no such partition, or no such message in it. */
  message(partition: PartitionRef, transactionId: string, reply: Reply<MessageDetail | null>): void;
  peek(request: PeekRequest, reply: Reply<PeekView | null>): void;
  recordTrace(trace: TraceCommand, reply: Reply<TraceOutcome>): void;
  /** Of a partition's message, newest first. `partition` null = none has this name any more. */
  tracesOf(partition: PartitionRef | null, transactionId: string, page: PageOf, reply: Reply<TracePage>): void;
  tracesNamed(name: string, page: PageOf, reply: Reply<TracePage>): void;
  traceNames(page: PageOf, reply: Reply<TraceNamePage>): void;
}
