/** What may be asked of a running broker about messages that wait for their time. See engine.ts for how replies work. */
import type { DueChange } from '../core/mod.ts';
import type { Reply } from './engine.ts';
import type { PartitionRef } from './partition-ref.ts';

/** A place in the list: behind it the next page begins. */
export interface DuePlace {
  readonly dueUs: number;
  readonly pid: number;
  readonly offset: number;
}

export interface DueFilter {
  /** null = all. `partition` needs `queue`. */
  readonly queue: string | null;
  readonly partition: string | null;
  /** Only messages due at `fromUs` or later, and before `untilUs`. */
  readonly fromUs: number;
  readonly untilUs: number;
  readonly limit: number;
  readonly after: DuePlace | null;
}

/** A message that waits. Times in microseconds. */
export interface DueMessage extends DuePlace {
  readonly queue: string;
  readonly partition: string;
  readonly messageId: string;
  readonly transactionId: string;
  readonly createdAtUs: number;
}

export interface DuePage {
  /** Earliest first. */
  readonly rows: readonly DueMessage[];
  /** Null on the last page. */
  readonly next: DuePlace | null;
  /** Messages that wait, in all queues. */
  readonly waiting: number;
}

export interface DueChangeRequest {
  /** The message's partition: by its id, by its name, or the one that the message id says (null). */
  readonly partition: PartitionRef | { readonly queue: string; readonly partition: string } | null;
  /** The transactionId, or the message id; without a partition only the latter. */
  readonly name: string;
  /** A time in microseconds, or −1 − d for d microseconds from now; null = cancel. */
  readonly due: number | null;
}

export interface ChangedDue extends DueChange {
  readonly pid: number;
}

export interface DueEngine {
  /** Messages whose time comes while the pages are read may be missing; no other is, and none comes twice. */
  list(filter: DueFilter, reply: Reply<DuePage>): void;
  /** Moves a message to another time, or cancels it. */
  change(request: DueChangeRequest, reply: Reply<ChangedDue>): void;
}
