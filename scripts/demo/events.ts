/** What the processes of the demo say to each other. */

/** What a worker is told when it is started, as JSON in its one argument. */
export interface WorkerTask {
  readonly url: string;
  readonly queue: string;
  readonly group: string;
  readonly worker: string;
  readonly batch: number;
  readonly leaseSeconds: number;
  /** The message whose handler always throws; null = none. */
  readonly poisonTransactionId: string | null;
  /** True: the worker stops dead at its first message and waits to be killed. */
  readonly hangs: boolean;
}

/**
 * One thing a handler did. Times are nanoseconds of the machine's monotonic clock, which all processes share, so
 * that the events of different workers can be put in one order.
 */
export interface HandlingEvent {
  readonly kind: 'started' | 'completed' | 'failed';
  readonly atNs: number;
  readonly partition: string;
  readonly offset: number;
  readonly transactionId: string;
}

export type WorkerMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'events'; readonly events: readonly HandlingEvent[] }
  | { readonly type: 'holding' }
  /** The last word of a worker that was asked to stop: the words its handlers read. */
  | { readonly type: 'finished'; readonly words: number }
  /** Something that should not happen in an undisturbed run. */
  | { readonly type: 'trouble'; readonly text: string };

export type ParentMessage = { readonly type: 'stop' };

export function nowNs(): number {
  return Number(process.hrtime.bigint());
}
