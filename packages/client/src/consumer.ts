/**
 * The consumer: pop, handle, settle, again, in as many loops as `concurrency` says.
 *
 * Guarantees, as far as a client can give them:
 * - a message is acked `completed` only after its handler ended well, and `failed` with the error's text if it threw;
 * - messages of one partition are handled one after the other; behind a failed one nothing of that partition is
 *   handled from the same batch, nor once the broker said that the lease is gone. It is asked at least every 500 ms:
 *   quick handlers run on while an ack travels, behind a slow one the next message waits for the ack;
 * - a stop lets the running handlers end, settles them, and gives back what was fetched and not handled by `retry`;
 * - however many loops there are, one of them waits at the broker; the others are woken by what it finds.
 */
import { extendLease } from './ack.ts';
import type { ClientContext } from './context.ts';
import { isLaneError, LaneError } from './errors.ts';
import { errorText } from './log.ts';
import { Message } from './message.ts';
import { type AutopilotChoice, type PopSettings, type PopTarget, popMessages, readMessage } from './pop.ts';
import type { StandardSchema } from './schema.ts';
import { Settler } from './settler.ts';
import { pause } from './transport.ts';
import type { WireMessage } from './wire.ts';

/** Passed to a handler beside what it handles. */
export interface HandlerContext {
  /** Fires when the lease was found lost while the handler runs: others may get the same messages now. */
  readonly signal: AbortSignal;
}

/** Handles what one pop brought. */
export type BatchHandler<T> = (messages: readonly Message<T>[], context: HandlerContext) => unknown;

/** Handles one message. */
export type MessageHandler<T> = (message: Message<T>, context: HandlerContext) => unknown;

/** How a consumer runs, apart from how it pops. */
export interface ConsumeSettings {
  readonly concurrency: number;
  readonly limit: number | null;
  readonly idleMillis: number | null;
  readonly each: boolean;
  readonly autoAck: boolean;
  readonly renewLease: boolean;
  readonly renewIntervalMillis: number | null;
}

/** Options of a call of `consume`. */
export interface ConsumeOptions {
  /** Ends the consumer: running handlers end and are settled, the rest goes back. */
  readonly signal?: AbortSignal;
  /**
   * Told of what does not end the consumer: a handler that threw, a refused ack or renewal, a broker out of reach. The
   * messages are those concerned. Default: the logger.
   */
  readonly onTrouble?: (error: unknown, messages: readonly WireMessage[]) => void;
}

/** What is told of each handled message, or of each batch without `each()`. */
export interface ConsumeCallbacks<T> {
  onSuccess?: (handled: Message<T> | readonly Message<T>[], result: unknown) => unknown;
  onError?: (handled: Message<T> | readonly Message<T>[], error: unknown) => unknown;
}

/** Thrown by a handler of ours: the message is neither completed nor failed, it goes back. */
export class GiveBack extends Error {}

/** Everything about one consumer. */
export interface ConsumerJob<T> {
  readonly context: ClientContext;
  readonly target: PopTarget;
  readonly pop: PopSettings;
  readonly settings: ConsumeSettings;
  readonly schema: StandardSchema | null;
  readonly handler: BatchHandler<T> | MessageHandler<T>;
  readonly callbacks: ConsumeCallbacks<T>;
  readonly options: ConsumeOptions;
}

const emptyPollPauseMillis = 100;
const emptyPollPauseMillisMax = 1000;
const unreachablePauseMillis = 1000;
/** How long a renewed lease lasts, and the one that is to be renewed when nothing else was said. */
export const renewalSeconds = 60;
/** A lease that the broker has not confirmed for so long is confirmed, by awaiting the acks, before handling goes on. */
const unconfirmedMillisMax = 500;

/** Resolves when it was stopped; rejects when the broker refuses for good (4xx, an answer out of shape). */
export async function runConsumer<T>(job: ConsumerJob<T>): Promise<void> {
  const { signal } = job.options;
  if (signal?.aborted) return;
  const consumer = new Consumer(job);
  const stop = () => consumer.stop();
  const untrack = job.context.track(stop);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    await consumer.run();
  } finally {
    signal?.removeEventListener('abort', stop);
    untrack();
  }
}

class Consumer<T> {
  readonly #job: ConsumerJob<T>;
  #isStopped = false;
  /** Polls under way, each with its own controller: one signal for all loops would have as many listeners. */
  readonly #polls = new Set<AbortController>();
  /** Loops that wait until the one at the broker finds something. */
  readonly #sleepers: (() => void)[] = [];
  #isPolling = false;
  #handling = 0;
  #left: number;
  #lastMessageAtMs = performance.now();
  #emptyPauseMillis = emptyPollPauseMillis;

  constructor(job: ConsumerJob<T>) {
    this.#job = job;
    this.#left = job.settings.limit ?? Number.POSITIVE_INFINITY;
  }

  stop(): void {
    this.#isStopped = true;
    for (const poll of this.#polls) poll.abort();
    for (const wake of this.#sleepers.splice(0)) wake();
  }

  async run(): Promise<void> {
    if (this.#left <= 0) return;
    const loops = Array.from({ length: Math.max(1, this.#job.settings.concurrency) }, () => this.#loop());
    const failed = (await Promise.allSettled(loops)).find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  /** One of the loops. If it fails for good, the others stop too. */
  async #loop(): Promise<void> {
    try {
      while (!this.#isStopped && this.#left > 0) {
        const messages = await this.#next();
        if (messages.length > 0) await this.#handle(messages);
      }
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  /**
   * The next batch. The first loop that asks waits at the broker, the others ask without waiting and sleep when there is
   * nothing. Each batch wakes two: one to wait, one to see whether there is more.
   */
  async #next(): Promise<readonly WireMessage[]> {
    const { wait } = this.#job.pop;
    if (!wait || !this.#isPolling) {
      this.#isPolling = true;
      try {
        const messages = await this.#poll(wait);
        if (messages.length > 0) this.#wake(2);
        return messages;
      } finally {
        this.#isPolling = false;
      }
    }
    const messages = await this.#poll(false);
    if (messages.length > 0) this.#wake(2);
    else if (this.#isPolling && !this.#isStopped) {
      await new Promise<void>((resolve) => this.#sleepers.push(resolve));
    }
    return messages;
  }

  #wake(count: number): void {
    for (const wake of this.#sleepers.splice(0, count)) wake();
  }

  /** Empty when there was nothing, when the broker was out of reach, or when the consumer was stopped meanwhile. */
  async #poll(wait: boolean): Promise<readonly WireMessage[]> {
    const { context, target, pop } = this.#job;
    if (this.#isStopped || this.#endsIdle()) return [];
    const poll = new AbortController();
    this.#polls.add(poll);
    const { signal } = poll;
    const timeoutMillis = this.#pollTimeoutMillis();
    const startedAtMs = performance.now();
    try {
      const { messages, autopilot } = await popMessages(context, target, { ...pop, wait, timeoutMillis }, signal);
      if (messages.length > 0) {
        this.#lastMessageAtMs = performance.now();
        this.#emptyPauseMillis = emptyPollPauseMillis;
      } else if (wait === pop.wait && performance.now() - startedAtMs < emptyPollPauseMillis) {
        await this.#pauseAfterEmptyPoll(autopilot, signal);
      }
      return messages;
    } catch (error) {
      if (isLaneError(error, 'aborted')) return [];
      if (!(error instanceof LaneError) || !error.retriable) throw error;
      this.#trouble(error, []);
      await pause(unreachablePauseMillis, signal).catch(ignoreAborted);
      return [];
    } finally {
      this.#polls.delete(poll);
    }
  }

  /** A poll that answers at once must not become a busy loop: by labels the broker never waits. */
  async #pauseAfterEmptyPoll(autopilot: AutopilotChoice | null, signal: AbortSignal): Promise<void> {
    const pauseMillis = autopilot?.waitMillis ?? this.#emptyPauseMillis;
    if (this.#job.pop.wait) {
      this.#emptyPauseMillis = Math.min(emptyPollPauseMillisMax, this.#emptyPauseMillis * 2);
    }
    await pause(pauseMillis, signal).catch(ignoreAborted);
  }

  #pollTimeoutMillis(): number {
    const { timeoutMillis } = this.#job.pop;
    const { idleMillis } = this.#job.settings;
    if (idleMillis === null) return timeoutMillis;
    const leftMillis = Math.ceil(this.#lastMessageAtMs + idleMillis - performance.now());
    // While handlers run the consumer is not idle, and this poll may end before they do.
    return Math.max(1, Math.min(timeoutMillis, this.#handling > 0 ? idleMillis : leftMillis));
  }

  #endsIdle(): boolean {
    const { idleMillis } = this.#job.settings;
    if (idleMillis === null || this.#handling > 0) return false;
    if (performance.now() - this.#lastMessageAtMs < idleMillis) return false;
    this.stop();
    return true;
  }

  async #handle(wire: readonly WireMessage[]): Promise<void> {
    const { context, target, settings } = this.#job;
    const taken = wire.slice(0, this.#left);
    this.#left -= taken.length;
    const settler = new Settler(context.transport, target.group, (error, messages) => this.#trouble(error, messages));
    const lease = new LeaseKeeper(this.#job, taken.length > 0 ? taken : wire, settler, (error) =>
      this.#trouble(error, wire),
    );
    this.#handling += 1;
    try {
      const isOpen = settings.each
        ? await this.#handleEach(taken, settler, lease)
        : await this.#handleBatch(taken, settler, lease);
      // What is behind the limit goes back, but only from where everything before it was settled well.
      settler.giveBack(
        wire.slice(taken.length).filter((message) => isOpen(message) && !settler.isLost(message.partitionId)),
      );
      await settler.idle();
    } finally {
      lease.end();
      this.#handling -= 1;
      this.#lastMessageAtMs = performance.now();
      // Others are still at work that the limit counts: the last one ends the consumer.
      if (this.#left <= 0 && this.#handling === 0) this.stop();
    }
  }

  /** Returns which partitions are still this consumer's to give back. */
  async #handleBatch(
    taken: readonly WireMessage[],
    settler: Settler,
    lease: LeaseKeeper<T>,
  ): Promise<(message: WireMessage) => boolean> {
    if (taken.length === 0) return () => true;
    if (this.#isStopped) {
      settler.giveBack(taken);
      return () => true;
    }
    const { handler, callbacks } = this.#job;
    const { valid, messages, refused } = await this.#readBatch(taken);
    const failed = new Set(refused.map(({ wire }) => wire.partitionId));
    try {
      if (messages.length > 0) {
        const run = () => (handler as BatchHandler<T>)(messages, { signal: lease.signal });
        const result = await this.#traced(valid, run);
        if (this.#acksItself()) for (const message of valid) settler.complete(message);
        else await callbacks.onSuccess?.(messages, result);
      }
    } catch (error) {
      for (const message of valid) failed.add(message.partitionId);
      await this.#failed(error, valid, messages, settler);
    }
    // Behind what was handled: the acks of one lease are told in the order of the partition.
    for (const { wire, error } of refused) await this.#failed(error, [wire], [], settler);
    return (message) => !failed.has(message.partitionId);
  }

  /** The messages whose payload the schema takes, up to the first of each partition that it does not. */
  async #readBatch(taken: readonly WireMessage[]) {
    const { context, schema } = this.#job;
    const valid: WireMessage[] = [];
    const messages: Message<T>[] = [];
    const refused: { wire: WireMessage; error: unknown }[] = [];
    for (const wire of taken) {
      if (refused.some((earlier) => earlier.wire.partitionId === wire.partitionId)) continue;
      try {
        messages.push(await readMessage<T>(context, schema, wire));
        valid.push(wire);
      } catch (error) {
        refused.push({ wire, error });
      }
    }
    return { valid, messages, refused };
  }

  async #handleEach(
    taken: readonly WireMessage[],
    settler: Settler,
    lease: LeaseKeeper<T>,
  ): Promise<(message: WireMessage) => boolean> {
    const { context, schema, handler, callbacks } = this.#job;
    const failed = new Set<string>();
    const isOpen = (message: WireMessage) => !failed.has(message.partitionId);
    const handlerContext = { signal: lease.signal };
    for (let i = 0; i < taken.length; i++) {
      const wire = taken[i];
      if (performance.now() - settler.confirmedAtMs > unconfirmedMillisMax) await settler.idle();
      if (!isOpen(wire) || settler.isLost(wire.partitionId)) {
        // It comes again: it has not been one of the messages that the limit counts.
        this.#left += 1;
        continue;
      }
      if (this.#isStopped) {
        settler.giveBack(taken.slice(i).filter((rest) => isOpen(rest) && !settler.isLost(rest.partitionId)));
        return isOpen;
      }
      const read: Message<T>[] = [];
      try {
        const message =
          schema === null ? new Message<T>(context, wire, wire.data as T) : await readMessage<T>(context, schema, wire);
        read.push(message);
        const result = await this.#traced([wire], () => (handler as MessageHandler<T>)(message, handlerContext));
        if (this.#acksItself()) settler.complete(wire);
        else await callbacks.onSuccess?.(message, result);
      } catch (error) {
        failed.add(wire.partitionId);
        await this.#failed(error, [wire], read, settler);
        if (this.#hasCallbacks()) this.#giveBackBehind(taken, i, settler);
      }
    }
    return isOpen;
  }

  /** With a program that acks itself, nothing else would release what was fetched behind a failed message. */
  #giveBackBehind(taken: readonly WireMessage[], failedAt: number, settler: Settler): void {
    const { partitionId } = taken[failedAt];
    settler.giveBack(taken.slice(failedAt + 1).filter((message) => message.partitionId === partitionId));
  }

  async #failed(
    error: unknown,
    wire: readonly WireMessage[],
    messages: readonly Message<T>[],
    settler: Settler,
  ): Promise<void> {
    if (error instanceof GiveBack) {
      settler.giveBack(wire);
      return;
    }
    const { callbacks, settings } = this.#job;
    this.#trouble(error, wire);
    // A payload that the schema refuses never became a message: there is nothing that the program could ack.
    if (this.#acksItself() || messages.length === 0) {
      for (const message of wire) settler.fail(message, errorText(error));
    } else await callbacks.onError?.(settings.each ? messages[0] : messages, error);
  }

  /** False: the program settles what was handled. */
  #acksItself(): boolean {
    return this.#job.settings.autoAck && !this.#hasCallbacks();
  }

  #hasCallbacks(): boolean {
    const { callbacks } = this.#job;
    return callbacks.onSuccess !== undefined || callbacks.onError !== undefined;
  }

  async #traced(wire: readonly WireMessage[], run: () => unknown): Promise<unknown> {
    const { context, target } = this.#job;
    if (context.tracing === null) return await run();
    const { partition } = wire[0];
    const isOnePartition = wire.every((message) => message.partition === partition);
    const subject = {
      queue: target.queue === '' ? `${target.namespace ?? '*'}.${target.task ?? '*'}` : target.queue,
      partition: isOnePartition ? partition : null,
      group: target.group,
      count: wire.length,
    };
    return await context.tracing.process(subject, wire, run);
  }

  #trouble(error: unknown, messages: readonly WireMessage[]): void {
    if (this.#job.options.onTrouble !== undefined) {
      this.#job.options.onTrouble(error, messages);
      return;
    }
    const { queue, group } = this.#job.target;
    this.#job.context.log.warn('consumer.trouble', {
      queue,
      group,
      messages: messages.length,
      error: errorText(error),
    });
  }
}

/** Renews the lease of one batch while it is handled, if that was asked for, and knows when it is lost. */
class LeaseKeeper<T> {
  readonly #lost = new AbortController();
  readonly #timer: ReturnType<typeof setInterval> | undefined;
  #isOver = false;

  constructor(
    job: ConsumerJob<T>,
    messages: readonly WireMessage[],
    settler: Settler,
    onTrouble: (error: unknown) => void,
  ) {
    const { settings, context, pop } = job;
    if (!settings.renewLease) return;
    const { leaseId } = messages[0];
    const seconds = Math.max(renewalSeconds, pop.leaseSeconds ?? 0);
    const renew = async () => {
      const result = await extendLease(context.transport, leaseId, seconds).catch((error) => onTrouble(error));
      if (result === undefined || result.success || this.#isOver) return;
      const error = new LaneError({ code: 'lease_lost', message: `the lease ${leaseId} is gone` });
      clearInterval(this.#timer);
      settler.lose(messages);
      this.#lost.abort(error);
      onTrouble(error);
    };
    const leaseMillis = (pop.leaseSeconds ?? renewalSeconds) * 1000;
    const intervalMillis = settings.renewIntervalMillis ?? leaseMillis / 3;
    this.#timer = setInterval(() => void renew(), intervalMillis);
  }

  /** Fires when the lease was found lost. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  end(): void {
    this.#isOver = true;
    clearInterval(this.#timer);
  }
}

function ignoreAborted(error: unknown): void {
  if (!isLaneError(error, 'aborted')) throw error;
}
