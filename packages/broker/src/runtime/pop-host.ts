import type { Hasher } from '../codec/mod.ts';
import type { DecisionContext, MissingRow, PopOutcome } from '../core/mod.ts';
import type { Scheduler } from '../ports/mod.ts';
import type { PopRequest } from './engine.ts';
import type { Operation } from './operations.ts';
import type { Waiters } from './waiters.ts';

/** What a pop needs from the shard it runs in. */
export interface PopHost {
  readonly context: DecisionContext;
  readonly waiters: Waiters;
  readonly scheduler: Scheduler;
  readonly hasher: Hasher;
  submit(operation: Operation): void;
  /** Reads the next blocks of rows; then gives the rows back and submits `then` again. */
  loadRows(rows: readonly MissingRow[], then: Operation | null): void;
  countDelivered(outcome: PopOutcome): void;
  /** True when rows are being read: the operation is submitted again when the next of these reads is over. */
  awaitLoads(operation: Operation): boolean;
  handBack(leaseStamp: number): void;
  /** How long a waiting pop that just arrived is to collect; 0 when its batch is already there. */
  collectMs(request: PopRequest): number;
  isConflated(queue: string, group: string): boolean;
}
