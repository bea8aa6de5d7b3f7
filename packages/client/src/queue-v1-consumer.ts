/**
 * The consumer of queue/v1: a loop per partition, each of which polls, handles and commits.
 *
 * - A partition is read from its beginning every time: what was committed is gone, so what is left comes first, also
 *   what was enqueued late.
 * - A commit names the last message that was handled and the watermark of its page. It takes what the page showed up to
 *   that message, and nothing that came since.
 * - Polls begin behind a message instead of behind a seq, so a page may end anywhere, however many messages share one.
 */
import { badArgument } from './answers.ts';
import { atLeast } from './client-options.ts';
import type { ClientContext } from './context.ts';
import { isLaneError, LaneError } from './errors.ts';
import { errorText } from './log.ts';
import type { PageV1, QueueV1 } from './queue-v1.ts';
import { pause } from './transport.ts';

/** A message of a partition. */
export interface MessageV1<T> {
  /** The partition, from 0 on. */
  readonly partition: number;
  /** A ULID, which tells messages of one seq apart. */
  readonly id: string;
  /** The producer's number, exact. */
  readonly seq: bigint;
  /** What `JSON.parse` makes of the value: integers above 2^53 in it are rounded. */
  readonly value: T;
}

/** Handles one message; the next one of its partition waits for the promise it returns. */
export type MessageV1Handler<T> = (message: MessageV1<T>) => unknown;

/** Options of `consume`. */
export interface ConsumeV1Options {
  /** Ends the consumer: handlers that run end, and what was handled is committed. Default: `close` ends it. */
  readonly signal?: AbortSignal;
  /**
   * Which worker this is, from 1 on, of how many: it takes every `of`-th partition. No two workers may be the same one.
   * Default: all partitions.
   */
  readonly share?: { readonly worker: number; readonly of: number };
  /** Deliver messages with `seq` up to this only; `now` is the broker's time in milliseconds. Default: all. */
  readonly until?: bigint | number | 'now';
  /** Messages of one poll and commit, 1 to 1,000. Default 100. */
  readonly batch?: number;
  /** How long a poll waits at the broker, in milliseconds, at most 30,000. Default 30,000. */
  readonly waitMillis?: number;
  /** Pause in milliseconds after a handler threw, and while the broker is out of reach. Default 1,000. */
  readonly retryDelayMillis?: number;
  /**
   * Told of what does not end the consumer: a handler that threw, with its message, or a broker out of reach. Default:
   * the logger.
   */
  readonly onTrouble?: (error: unknown, message: MessageV1<unknown> | null) => void;
}

/** Before every message. */
const beginning = { seq: -(2n ** 63n), id: '0'.repeat(26) };
/** An empty page that came faster than this was not waited for; then the loop waits here. */
const emptyPollMillisMin = 100;

/** Resolves when it was stopped; rejects when the broker refuses for good. */
export async function runConsumerV1<T>(
  context: ClientContext,
  queue: QueueV1<T>,
  handler: MessageV1Handler<T>,
  options: ConsumeV1Options,
): Promise<void> {
  const { signal, share } = options;
  if (share !== undefined && !(isNatural(share.worker) && isNatural(share.of) && share.worker <= share.of)) {
    throw badArgument(`share must name a worker in 1..of, got ${share.worker} of ${share.of}`);
  }
  const retryDelayMillis = atLeast('retryDelayMillis', options.retryDelayMillis ?? 1000, 0);
  const consumer = new ConsumerV1(context, queue, handler, { ...options, retryDelayMillis });
  const stop = () => consumer.stop();
  const untrack = context.track(stop);
  signal?.addEventListener('abort', stop, { once: true });
  if (signal?.aborted) stop();
  try {
    await consumer.run();
  } finally {
    signal?.removeEventListener('abort', stop);
    untrack();
  }
}

function isNatural(value: number): boolean {
  return Number.isInteger(value) && value > 0;
}

class ConsumerV1<T> {
  readonly #context: ClientContext;
  readonly #queue: QueueV1<T>;
  readonly #handler: MessageV1Handler<T>;
  readonly #options: ConsumeV1Options & { readonly retryDelayMillis: number };
  /** What waits, each with a controller of its own: a signal for all loops would have as many listeners. */
  readonly #waits = new Set<AbortController>();
  #isStopped = false;

  constructor(
    context: ClientContext,
    queue: QueueV1<T>,
    handler: MessageV1Handler<T>,
    options: ConsumeV1Options & { readonly retryDelayMillis: number },
  ) {
    this.#context = context;
    this.#queue = queue;
    this.#handler = handler;
    this.#options = options;
  }

  stop(): void {
    this.#isStopped = true;
    for (const wait of this.#waits) wait.abort();
  }

  async run(): Promise<void> {
    const partitions = await this.#untilAnswered((signal) => this.#queue.partitions({ signal }));
    if (partitions === null) return;
    const { worker, of } = this.#options.share ?? { worker: 1, of: 1 };
    if (worker > partitions) throw badArgument(`there is nothing for worker ${worker}: ${partitions} partitions`);
    const loops: Promise<void>[] = [];
    for (let partition = worker - 1; partition < partitions; partition += of) loops.push(this.#loop(partition));
    const failed = (await Promise.allSettled(loops)).find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  /** One partition. If it fails for good, the others stop too. */
  async #loop(partition: number): Promise<void> {
    const { until, batch, waitMillis = 30_000 } = this.#options;
    try {
      while (!this.#isStopped) {
        const startedAtMs = performance.now();
        const page = await this.#untilAnswered((signal) =>
          this.#queue.poll(partition, {
            after: beginning,
            waitMillis,
            signal,
            ...(until === undefined ? {} : { until }),
            ...(batch === undefined ? {} : { limit: batch }),
          }),
        );
        if (page === null) return;
        if (page.messages.length > 0) await this.#handle(partition, page);
        else if (performance.now() - startedAtMs < emptyPollMillisMin) await this.#pause(emptyPollMillisMin);
      }
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  async #handle(partition: number, { messages, watermark }: PageV1<T>): Promise<void> {
    let handled: MessageV1<T> | null = null;
    let hasFailed = false;
    for (const message of messages) {
      if (this.#isStopped) break;
      try {
        await this.#handler(message);
        handled = message;
      } catch (error) {
        this.#trouble(error, message);
        hasFailed = true;
        break;
      }
    }
    if (handled !== null) {
      const { seq: offset, id } = handled;
      // Until it is known to be committed: a new poll would bring what was handled once more.
      await this.#untilAnswered(() => this.#queue.commit(partition, { offset, id, watermark }));
    }
    if (hasFailed) await this.#pause(this.#options.retryDelayMillis);
  }

  /** Asks again while the broker is out of reach; null once the consumer was stopped. */
  async #untilAnswered<Result>(ask: (signal: AbortSignal) => Promise<Result>): Promise<Result | null> {
    for (;;) {
      try {
        return await this.#stoppable(ask);
      } catch (error) {
        if (isLaneError(error, 'aborted')) return null;
        if (!(error instanceof LaneError) || !error.retriable) throw error;
        this.#trouble(error, null);
        if (this.#isStopped) return null;
        await this.#pause(this.#options.retryDelayMillis);
      }
    }
  }

  async #pause(millis: number): Promise<void> {
    await this.#stoppable((signal) => pause(millis, signal)).catch((error: unknown) => {
      if (!isLaneError(error, 'aborted')) throw error;
    });
  }

  async #stoppable<Result>(run: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const wait = new AbortController();
    this.#waits.add(wait);
    if (this.#isStopped) wait.abort();
    try {
      return await run(wait.signal);
    } finally {
      this.#waits.delete(wait);
    }
  }

  #trouble(error: unknown, message: MessageV1<T> | null): void {
    if (this.#options.onTrouble !== undefined) {
      this.#options.onTrouble(error, message);
      return;
    }
    this.#context.log.warn('consumer.trouble', {
      queue: this.#queue.name,
      partition: message?.partition ?? null,
      error: errorText(error),
    });
  }
}
