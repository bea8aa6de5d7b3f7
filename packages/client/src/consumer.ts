/**
 * The consumer loop: pop, handle, settle, again.
 *
 * Guarantees, as far as a client can give them:
 * - a message is acked `completed` only after its handler ended well, and `failed` with the error's text if it threw;
 * - messages of one partition are handled one after the other; behind a failed one nothing of that partition is
 *   handled from the same batch, nor once the broker said that the lease is gone. It is asked at least every 500 ms:
 *   quick handlers run on while an ack travels, behind a slow one the next message waits for the ack;
 * - a stop lets the running handlers end, settles them, and gives back what was fetched and not handled by `retry`.
 */
import { ackItem, extendLease, type PopOptions, type PopTarget, popMessages, sendAcks } from './calls.ts';
import { LaneError } from './errors.ts';
import { pause, type Transport } from './transport.ts';
import type { AckItem, Message } from './wire.ts';

/** Options of `consume`: those of a pop, and how to run. */
export interface ConsumeOptions extends Omit<PopOptions, 'commitOnDelivery'> {
  /** Loops that pop and handle side by side; each partition is in one of them at a time. Default 1. */
  readonly concurrency?: number;
  /** True: the handler gets one message; false (the default): the array of one pop. */
  readonly each?: boolean;
  /** Extends the lease by 60 s this often while a batch is being handled. Default: never. */
  readonly renewLeaseEveryMs?: number;
  /** Ends the consumer. */
  readonly signal?: AbortSignal;
  /**
   * Told of what does not end the consumer: a handler that threw, a refused ack or renewal, a broker out of reach.
   * The messages are those concerned.
   */
  readonly onError?: (error: unknown, messages: readonly Message[]) => void;
}

/** Handles what one pop brought. */
export type BatchHandler<T> = (messages: readonly Message<T>[]) => unknown;

/** Handles one message. */
export type MessageHandler<T> = (message: Message<T>) => unknown;

const emptyPollPauseMs = 100;
const unreachablePauseMs = 1000;
const renewalSeconds = 60;
/** A lease that the broker has not confirmed for so long is confirmed, by awaiting the acks, before handling goes on. */
const unconfirmedMsMax = 500;

/** Resolves when the signal has ended it; rejects when the broker refuses for good (4xx, an answer out of shape). */
export async function runConsumer<T>(
  transport: Transport,
  target: PopTarget,
  handler: BatchHandler<T> | MessageHandler<T>,
  options: ConsumeOptions,
): Promise<void> {
  const stop = new AbortController();
  const onAbort = () => stop.abort();
  if (options.signal?.aborted) return;
  options.signal?.addEventListener('abort', onAbort, { once: true });
  const loop = new ConsumerLoop(transport, target, handler, options, stop);
  try {
    const loops = Array.from({ length: Math.max(1, options.concurrency ?? 1) }, () => loop.run());
    const failed = (await Promise.allSettled(loops)).find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  } finally {
    options.signal?.removeEventListener('abort', onAbort);
  }
}

class ConsumerLoop<T> {
  readonly #transport: Transport;
  readonly #target: PopTarget;
  readonly #handler: BatchHandler<T> | MessageHandler<T>;
  readonly #options: ConsumeOptions;
  readonly #stop: AbortController;

  constructor(
    transport: Transport,
    target: PopTarget,
    handler: BatchHandler<T> | MessageHandler<T>,
    options: ConsumeOptions,
    stop: AbortController,
  ) {
    this.#transport = transport;
    this.#target = target;
    this.#handler = handler;
    this.#options = options;
    this.#stop = stop;
  }

  /** One of the loops. If it fails for good, the others stop too. */
  async run(): Promise<void> {
    try {
      while (!this.#stop.signal.aborted) {
        const messages = await this.#fetch();
        if (messages.length > 0) await this.#handle(messages);
      }
    } catch (error) {
      this.#stop.abort();
      throw error;
    }
  }

  /** Empty when there was nothing, when the broker was out of reach, or when the consumer was stopped meanwhile. */
  async #fetch(): Promise<Message<T>[]> {
    const { signal } = this.#stop;
    const startedAtMs = performance.now();
    try {
      const messages = await popMessages<T>(this.#transport, this.#target, { ...this.#options, signal });
      // A poll that answers at once must not become a busy loop.
      if (messages.length === 0 && performance.now() - startedAtMs < emptyPollPauseMs) {
        await pause(emptyPollPauseMs, signal);
      }
      return messages;
    } catch (error) {
      if (isCode(error, 'aborted')) return [];
      if (!(error instanceof LaneError) || !error.retriable) throw error;
      this.#options.onError?.(error, []);
      await pause(unreachablePauseMs, signal).catch(ignoreAborted);
      return [];
    }
  }

  async #handle(messages: Message<T>[]): Promise<void> {
    const renewal = this.#startRenewal(messages);
    const settler = new Settler(this.#transport, this.#target.group, this.#options.onError);
    try {
      if (this.#options.each === true) await this.#handleEach(messages, settler);
      else await this.#handleBatch(messages, settler);
      await settler.idle();
    } finally {
      clearInterval(renewal);
    }
  }

  async #handleBatch(messages: Message<T>[], settler: Settler): Promise<void> {
    if (this.#stop.signal.aborted) {
      settler.giveBack(messages);
      return;
    }
    try {
      await (this.#handler as BatchHandler<T>)(messages);
      for (const message of messages) settler.complete(message);
    } catch (error) {
      this.#options.onError?.(error, messages);
      for (const message of messages) settler.fail(message, errorText(error));
    }
  }

  async #handleEach(messages: Message<T>[], settler: Settler): Promise<void> {
    const failedPartitions = new Set<string>();
    for (let i = 0; i < messages.length; i++) {
      const message = messages[i];
      const { partitionId } = message;
      if (performance.now() - settler.confirmedAtMs > unconfirmedMsMax) await settler.idle();
      if (failedPartitions.has(partitionId) || settler.isLost(partitionId)) continue;
      if (this.#stop.signal.aborted) {
        const isOpen = (rest: Message) => !failedPartitions.has(rest.partitionId) && !settler.isLost(rest.partitionId);
        settler.giveBack(messages.slice(i).filter(isOpen));
        return;
      }
      try {
        await (this.#handler as MessageHandler<T>)(message);
        settler.complete(message);
      } catch (error) {
        this.#options.onError?.(error, [message]);
        settler.fail(message, errorText(error));
        failedPartitions.add(partitionId);
      }
    }
  }

  #startRenewal(messages: Message<T>[]): ReturnType<typeof setInterval> | undefined {
    const everyMs = this.#options.renewLeaseEveryMs;
    if (everyMs === undefined) return undefined;
    const { leaseId } = messages[0];
    const renew = async () => {
      try {
        const result = await extendLease(this.#transport, leaseId, renewalSeconds);
        if (!result.success) throw new LaneError({ code: 'not_found', message: `lease ${leaseId} is gone` });
      } catch (error) {
        this.#options.onError?.(error, messages);
      }
    };
    return setInterval(() => void renew(), everyMs);
  }
}

/**
 * Acks of one batch. One request travels at a time; what is settled meanwhile goes with the next, so that quick
 * handlers do not pay a round trip per message and slow ones are acked at once.
 */
class Settler {
  readonly #transport: Transport;
  readonly #group: string | null;
  readonly #onError: ConsumeOptions['onError'];
  readonly #lostPartitions = new Set<string>();
  #waiting: { message: Message; item: AckItem }[] = [];
  #sending: Promise<void> | null = null;
  #fatal: unknown = null;
  /** When the broker last said, by the pop or by an ack, that the lease was alive. */
  confirmedAtMs = performance.now();

  constructor(transport: Transport, group: string | null, onError: ConsumeOptions['onError']) {
    this.#transport = transport;
    this.#group = group;
    this.#onError = onError;
  }

  /** True: this consumer no longer holds the lease of the partition, somebody else may. */
  isLost(partitionId: string): boolean {
    return this.#lostPartitions.has(partitionId);
  }

  complete(message: Message): void {
    this.#add(message, ackItem(message, 'completed'));
  }

  fail(message: Message, error: string): void {
    this.#add(message, ackItem(message, 'failed', error));
  }

  giveBack(messages: readonly Message[]): void {
    for (const message of messages) this.#add(message, ackItem(message, 'retry'));
  }

  /** Resolves when everything was answered; rejects when the broker refused the request itself for good. */
  async idle(): Promise<void> {
    if (this.#sending !== null) await this.#sending;
    if (this.#fatal !== null) throw this.#fatal;
  }

  #add(message: Message, item: AckItem): void {
    this.#waiting.push({ message, item });
    this.#sending ??= this.#drain();
  }

  async #drain(): Promise<void> {
    // Leaves the current turn first: what the caller settles in one go then travels in one request.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#send(batch);
    }
    this.#sending = null;
  }

  async #send(batch: readonly { message: Message; item: AckItem }[]): Promise<void> {
    const messages = batch.map((entry) => entry.message);
    try {
      const items = batch.map((entry) => entry.item);
      const outcome = await sendAcks(this.#transport, this.#group, items);
      if (outcome.success) {
        this.confirmedAtMs = performance.now();
        return;
      }
      const refused = messages.filter((_, index) => !outcome.results[index].success);
      for (const message of refused) this.#lostPartitions.add(message.partitionId);
      this.#onError?.(new LaneError({ code: 'ack_refused', message: outcome.error ?? '' }), refused);
    } catch (error) {
      // Unknown what became of them: they come back when the lease ends, and others may get them then.
      for (const message of messages) this.#lostPartitions.add(message.partitionId);
      if (error instanceof LaneError && error.retriable) this.#onError?.(error, messages);
      else this.#fatal ??= error;
    }
  }
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof LaneError && error.code === code;
}

function ignoreAborted(error: unknown): void {
  if (!isCode(error, 'aborted')) throw error;
}
