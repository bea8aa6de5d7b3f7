/**
 * Messages as an async iterable: the loop of the program is the handler. Asking for the next message settles the one
 * before; leaving the loop in any other way than by its signal or limit gives the current one back.
 */
import { type ConsumerJob, GiveBack, type MessageHandler, runConsumer } from './consumer.ts';
import type { Message } from './message.ts';

interface Handover<T> {
  readonly message: Message<T>;
  readonly done: () => void;
  readonly giveBack: () => void;
}

export function messageStream<T>(
  job: (handler: MessageHandler<T>, signal: AbortSignal) => ConsumerJob<T>,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<Message<T>> {
  return new MessageStream<T>(job, signal);
}

class MessageStream<T> implements AsyncIterableIterator<Message<T>> {
  readonly #job: (handler: MessageHandler<T>, signal: AbortSignal) => ConsumerJob<T>;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #running: Promise<void> | null = null;
  #isOver = false;
  #fault: { readonly error: unknown } | null = null;
  /** The message that the loop has now. */
  #current: Handover<T> | null = null;
  /** The message that waits for the loop, and the loop that waits for a message. */
  #waiting: Handover<T> | null = null;
  #wake: (() => void) | null = null;

  constructor(
    job: (handler: MessageHandler<T>, signal: AbortSignal) => ConsumerJob<T>,
    signal: AbortSignal | undefined,
  ) {
    this.#job = job;
    this.#signal = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Message<T>, undefined>> {
    this.#running ??= this.#run();
    this.#current?.done();
    this.#current = null;
    while (this.#waiting === null && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#fault !== null) throw this.#fault.error;
    if (this.#waiting === null) return { done: true, value: undefined };
    this.#current = this.#waiting;
    this.#waiting = null;
    return { done: false, value: this.#current.message };
  }

  /** Called when the loop is left by `break`, `return` or an error. */
  async return(): Promise<IteratorResult<Message<T>, undefined>> {
    this.#stop.abort();
    this.#current?.giveBack();
    this.#waiting?.giveBack();
    this.#current = null;
    this.#waiting = null;
    await this.#running;
    return { done: true, value: undefined };
  }

  async #run(): Promise<void> {
    try {
      await runConsumer(this.#job((message) => this.#handOver(message), this.#signal));
    } catch (error) {
      this.#fault = { error };
    }
    this.#isOver = true;
    this.#wake?.();
  }

  #handOver(message: Message<T>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting = { message, done: resolve, giveBack: () => reject(new GiveBack()) };
      this.#wake?.();
    });
  }
}
