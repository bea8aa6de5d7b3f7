/** What edge tables need from the shard they are in. */
import type { EdgeContext } from '../core/mod.ts';
import type { Scheduler } from '../ports/mod.ts';
import type { ReadFailureHost } from './failed-read.ts';
import type { Operation } from './operations.ts';
import type { Store } from './store.ts';
import type { StoreAccess } from './store-access.ts';

export interface EdgeHost extends ReadFailureHost {
  readonly scheduler: Scheduler;
  /** Polls that may wait at the same moment. */
  readonly parkedPollsMax: number;
  store(): Store;
  access(): StoreAccess;
  /** Of the decision that is being made. */
  context(): EdgeContext;
  nowUs(): number;
  submit(operation: Operation): void;
  /** An operation goes on reading after its release. A stop waits for it; a reload answers it with a failure. */
  readingBegan(operation: Operation): void;
  /** False: it was answered meanwhile. */
  readingEnded(operation: Operation): boolean;
  isDiskFull(): boolean;
}
