/** Broker time. Never runs backwards while the process lives; follows real elapsed time, not steps of the wall clock. */
export interface Clock {
  /** Microseconds since 1970-01-01 UTC, an integer. */
  nowUs(): number;
}

/** Chance. */
export interface Random {
  /** Fills the array with unpredictable bytes (seeded ones in the simulation). */
  fill(target: Uint8Array): void;
  /** An integer in [0, below). */
  integer(below: number): number;
}

/** Deferred work. */
export interface Scheduler {
  /** Runs `task` after the requests that have already arrived were taken in (one turn of the loop later). */
  soon(task: () => void): void;
  /** Runs `task` after `delayMs` milliseconds; the result cancels it. Never keeps the process alive by itself. */
  after(delayMs: number, task: () => void): () => void;
}
