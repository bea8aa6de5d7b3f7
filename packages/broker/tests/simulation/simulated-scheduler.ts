/**
 * Deferred work and time that move only when a test says so. Promises settle between the tasks, as they do between the
 * turns of a real loop.
 */
import type { Clock, Scheduler } from '../../src/ports/mod.ts';

/** Turns that may follow each other while time stands still. */
const turnsAtOnceMax = 100_000;

interface Timer {
  readonly atMs: number;
  readonly order: number;
  readonly task: () => void;
}

export class SimulatedScheduler implements Scheduler {
  #nowMs = 0;
  #order = 0;
  #soon: (() => void)[] = [];
  readonly #timers = new Set<Timer>();

  /** Milliseconds since the simulation began. */
  get nowMs(): number {
    return this.#nowMs;
  }

  soon(task: () => void): void {
    this.#soon.push(task);
  }

  after(delayMs: number, task: () => void): () => void {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, task };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /**
   * Runs everything that is due now, and what follows from it, until only later timers are left. Rejects when that does
   * not end: something asks for the next turn again and again.
   */
  async runUntilIdle(): Promise<void> {
    for (let turns = 0; ; turns++) {
      if (turns > turnsAtOnceMax) throw new Error(`${turns} turns passed, but no time`);
      await settlePromises();
      const tasks = this.#soon;
      this.#soon = [];
      for (const task of tasks) {
        task();
        await settlePromises();
      }
      const timer = this.#nextTimer();
      if (timer !== undefined && timer.atMs <= this.#nowMs) this.#run(timer);
      else if (this.#soon.length === 0 && tasks.length === 0) return;
    }
  }

  /** Lets time pass; timers run when they are due, in order. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await this.runUntilIdle();
    for (let timer = this.#nextTimer(); timer !== undefined && timer.atMs <= endMs; timer = this.#nextTimer()) {
      this.#nowMs = Math.max(this.#nowMs, timer.atMs);
      this.#run(timer);
      await this.runUntilIdle();
    }
    this.#nowMs = endMs;
  }

  /** Lets time pass from timer to timer until the promise settles. Rejects when nothing is left that could settle it. */
  async runUntil<Result>(promise: Promise<Result>): Promise<Result> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    promise.then(mark, mark);
    await this.runUntilIdle();
    while (!settled) {
      const timer = this.#nextTimer();
      if (timer === undefined) throw new Error('the simulation stands still: nothing is left that could go on');
      await this.advance(timer.atMs - this.#nowMs);
    }
    return promise;
  }

  #run(timer: Timer): void {
    this.#timers.delete(timer);
    timer.task();
  }

  #nextTimer(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      const isEarlier =
        next === undefined || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order);
      if (isEarlier) next = timer;
    }
    return next;
  }
}

/** Broker time that is the scheduler's. */
export class SimulatedClock implements Clock {
  readonly #scheduler: SimulatedScheduler;
  readonly #startUs: number;

  constructor(scheduler: SimulatedScheduler, startUs = 1_700_000_000_000_000) {
    this.#scheduler = scheduler;
    this.#startUs = startUs;
  }

  nowUs(): number {
    return this.#startUs + Math.floor(this.#scheduler.nowMs * 1000);
  }
}

/** All promise reactions that are due have run when this resolves: the host runs them before the next tick callback. */
function settlePromises(): Promise<void> {
  return new Promise((resolve) => {
    process.nextTick(resolve);
  });
}
