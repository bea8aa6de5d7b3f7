/** What may be asked of a running broker about consumer groups. See engine.ts for how replies work. */
import type { SeekTarget, SubscriptionMode } from '../core/mod.ts';
import type { Reply } from './engine.ts';

/** A reply that is given its rows in pieces, each valid during the call, before `encode`: no answer is made in one piece. */
export interface RowsReply<Row, End> extends Reply<End> {
  rows(rows: readonly Row[]): void;
}

export interface SeekRequest {
  readonly group: string;
  readonly queue: string;
  /** null = every partition that the queue has when the seek begins. */
  readonly partition: string | null;
  readonly target: SeekTarget;
}

export interface SeekOutcome {
  /** What there is none of. */
  readonly missing: 'queue' | 'partition' | null;
  readonly partitions: number;
}

export interface DeleteGroupRequest {
  readonly group: string;
  /** null = every queue. */
  readonly queue: string | null;
  /** True: a registered group starts again as it first did. */
  readonly keepRegistration: boolean;
}

export interface DeleteGroupOutcome {
  /** Cursors that are gone. */
  readonly partitions: number;
  /** Names of the queues that knew the group, at most `limits.groupPartitionsMax`. */
  readonly queues: readonly string[];
}

/** What is paused or resumed: a queue, one partition of it, or one group on it. */
export interface PauseRequest {
  readonly queue: string;
  readonly partition: string | null;
  readonly group: string | null;
  readonly paused: boolean;
}

export interface PauseOutcome {
  readonly missing: 'queue' | 'partition' | 'group' | null;
  /** False when it was so already. */
  readonly changed: boolean;
  /** Since when it is paused, microseconds; 0 = it is not. */
  readonly pausedAtUs: number;
}

/** One group on one queue. Times in microseconds, 0 = none. */
export interface GroupRow {
  readonly group: string;
  readonly queue: string;
  readonly registered: boolean;
  readonly mode: SubscriptionMode;
  readonly sinceUs: number;
  readonly createdAtUs: number;
  readonly conflation: boolean;
  readonly members: number;
  readonly partitionCursors: number;
  readonly partitionsBehind: number;
  readonly pending: number;
  /** False when partitions without a position may hold more. */
  readonly isCountExact: boolean;
  /** Age of the oldest record that is not settled; of the partitions that were looked at. */
  readonly oldestAgeUs: number;
  readonly pausedAtUs: number;
  readonly queuePausedAtUs: number;
}

/** One group in one partition. */
export interface GroupPartitionRow {
  readonly group: string;
  readonly queue: string;
  readonly partition: string;
  readonly pid: number;
  readonly id: string;
  /** Offset of the next record to read; null = the group has no position there. */
  readonly next: number | null;
  readonly pending: number;
  readonly totalConsumed: number;
  /** Stamp of the next record, microseconds; 0 = there is none. */
  readonly oldestUs: number;
  readonly oldestAgeUs: number;
  /** Stamp of the live lease; 0 = none. */
  readonly leaseStamp: number;
  readonly pausedAtUs: number;
}

/** A queue of the group that is described. Its partitions follow as rows. */
export interface GroupQueue {
  readonly row: GroupRow;
  readonly partitionsTotal: number;
  /** Number of the partition that the next page begins with. */
  partitionsThrough: number;
  readonly partitions: GroupPartitionRow[];
}

export interface GroupPosition {
  readonly queue: string;
  readonly partition: string;
  readonly next: number | null;
}

export interface GroupEngine {
  /** Not atomic over partitions: each is moved at its turn. Answered when all are; safe to repeat. */
  seek(request: SeekRequest, reply: Reply<SeekOutcome>): void;
  /** Not atomic over queues; safe to repeat. */
  delete(request: DeleteGroupRequest, reply: Reply<DeleteGroupOutcome>): void;
  /** Registered groups of this name start from `sinceUs` where they have no position yet; answers how many they are. */
  startFrom(group: string, sinceUs: number, reply: Reply<{ readonly changed: number }>): void;
  pause(request: PauseRequest, reply: Reply<PauseOutcome>): void;
  /** Groups by queue, oldest queue first; `offset` rows are passed over. */
  list(page: { readonly limit: number; readonly offset: number }, reply: RowsReply<GroupRow, object>): void;
  /** null = no queue knows the group. At most `limit` partitions of each queue from number `offset` on. */
  describe(
    request: { readonly group: string; readonly limit: number; readonly offset: number },
    reply: Reply<{ readonly queues: readonly GroupQueue[] } | null>,
  ): void;
  /** Partitions in which a group's next record is at least `ageUs` old. */
  lagging(
    filter: { readonly ageUs: number; readonly limit: number },
    reply: RowsReply<GroupPartitionRow, object>,
  ): void;
  /** `entries` null = every position of the group; an entry without partition = every position on the queue. */
  positions(
    request: {
      readonly group: string;
      readonly entries: readonly { readonly queue: string; readonly partition: string | null }[] | null;
    },
    reply: RowsReply<GroupPosition, { readonly truncated: boolean }>,
  ): void;
}
