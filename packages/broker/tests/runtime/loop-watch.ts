/** For tests that look at how long the loop is held up by something large. */
import { existsSync, readFileSync } from 'node:fs';
import { scanPushBody } from '../../src/codec/mod.ts';
import type { Refusal } from '../../src/core/mod.ts';
import type { Reply, Shard } from '../../src/runtime/mod.ts';

/** What nothing may hold the loop up for longer. */
export const turnMsMax = 20;

/**
 * Measures how long the loop is away from a task that runs in each of its rounds. Time in which this thread did not have
 * a processor does not count, where the system tells it: others use the machine too.
 */
export class LoopWatch {
  longestMs = 0;
  #isOver = false;

  constructor() {
    this.#watch(performance.now(), usedMs());
  }

  #watch(sinceMs: number, sinceUsedMs: number): void {
    setImmediate(() => {
      const nowMs = performance.now();
      const nowUsedMs = usedMs();
      this.longestMs = Math.max(this.longestMs, Math.min(nowMs - sinceMs, nowUsedMs - sinceUsedMs));
      if (!this.#isOver) this.#watch(nowMs, nowUsedMs);
    });
  }

  stop(): number {
    this.#isOver = true;
    return this.longestMs;
  }
}

const schedstat = '/proc/self/schedstat';
const hasSchedstat = existsSync(schedstat);

/** Milliseconds for which the main thread has had a processor: the first number there, in nanoseconds. */
function usedMs(): number {
  return hasSchedstat ? Number.parseInt(readFileSync(schedstat, 'latin1'), 10) / 1e6 : performance.now();
}

/** The outcome of an operation; rejects with the message of its refusal. */
export function call<Outcome>(send: (reply: Reply<Outcome>) => void): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let outcome: Outcome;
    send({
      encode: (encoded) => {
        outcome = encoded;
      },
      send: (failure: Refusal | null) => (failure === null ? resolve(outcome) : reject(new Error(failure.message))),
    });
  });
}

export interface PushedItem {
  readonly queue: string;
  readonly partition: string;
  readonly payload: unknown;
  readonly transactionId?: string;
}

export function pushItems(shard: Shard, items: readonly PushedItem[]): Promise<unknown> {
  const scanned = scanPushBody(Buffer.from(JSON.stringify({ items })));
  if (!scanned.ok) throw new Error('the items make no push');
  return call((reply) => shard.push(scanned.items, reply));
}

export interface WatchedWork<Outcome> {
  readonly outcome: Outcome;
  readonly turns: number;
  readonly pushes: number;
  readonly longestMs: number;
  /** What a test may tell about it. */
  readonly text: string;
}

/** Does something while one push after the other is made. */
export async function whilePushing<Outcome>(
  shard: Shard,
  item: PushedItem,
  work: () => Promise<Outcome>,
): Promise<WatchedWork<Outcome>> {
  const turnsBefore = shard.metrics()['turns'];
  const watch = new LoopWatch();
  let isOver = false;
  const startedAtMs = performance.now();
  const working = work().finally(() => {
    isOver = true;
  });
  let pushes = 0;
  while (!isOver) {
    await pushItems(shard, [item]);
    pushes++;
  }
  const outcome = await working;
  const tookMs = performance.now() - startedAtMs;
  const longestMs = watch.stop();
  const text = `${tookMs.toFixed(0)} ms, ${pushes} pushes meanwhile, loop held up for at most ${longestMs.toFixed(1)} ms`;
  return { outcome, turns: shard.metrics()['turns'] - turnsBefore, pushes, longestMs, text };
}
