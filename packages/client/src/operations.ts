/** Promises with callbacks to be declared on the same expression: the work begins a turn later, when they are known. */
import type { ConsumeCallbacks } from './consumer.ts';

/** A call on its way: a promise, and callbacks that are told of its end. */
export class CallbackOperation<Result> extends Promise<Result> {
  #onSuccess: ((result: Result) => unknown) | undefined;
  #onError: ((error: unknown) => unknown) | undefined;

  /** @internal */
  constructor(run: () => Promise<Result>) {
    let resolve!: (result: Promise<Result>) => void;
    super((resolver) => {
      resolve = resolver;
    });
    queueMicrotask(() => resolve(this.#told(run)));
  }

  /** What `then` makes is a plain promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Called with the result.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .create()
   *   .onSuccess((made) => console.log(made));
   */
  onSuccess(callback: (result: Result) => unknown): this {
    this.#onSuccess = callback;
    return this;
  }

  /**
   * Called with the error; nothing is rejected then, and the promise resolves with null.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .create()
   *   .onError((error) => pageSomebody(String(error)));
   */
  onError(callback: (error: unknown) => unknown): CallbackOperation<Result | null> {
    this.#onError = callback;
    return this as CallbackOperation<Result | null>;
  }

  async #told(run: () => Promise<Result>): Promise<Result> {
    let result: Result;
    try {
      result = await run();
    } catch (error) {
      if (this.#onError === undefined) throw error;
      await this.#onError(error);
      return null as Result;
    }
    await this.#onSuccess?.(result);
    return result;
  }
}

/** A running consumer: a promise of its end. With a callback declared, the program acks what was handled. */
export class ConsumeOperation<Handled> extends Promise<void> {
  readonly #callbacks: ConsumeCallbacks<never>;

  /** @internal */
  constructor(run: (callbacks: ConsumeCallbacks<never>) => Promise<void>) {
    let resolve!: (result: Promise<void>) => void;
    super((resolver) => {
      resolve = resolver;
    });
    const callbacks: ConsumeCallbacks<never> = {};
    this.#callbacks = callbacks;
    queueMicrotask(() => resolve(run(callbacks)));
  }

  /** What `then` makes is a plain promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Called after the handler, with what it handled and what it returned.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .consume((messages) => charge(messages), { signal })
   *   .onSuccess((messages) => console.log(messages));
   */
  onSuccess(callback: (handled: Handled, result: unknown) => unknown): this {
    this.#callbacks.onSuccess = callback as (handled: unknown, result: unknown) => unknown;
    return this;
  }

  /**
   * Called with what the handler threw at, and the error. What is behind it in its partition goes back.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .consume((messages) => charge(messages), { signal })
   *   .onError((messages, error) => console.log(messages, error));
   */
  onError(callback: (handled: Handled, error: unknown) => unknown): this {
    this.#callbacks.onError = callback as (handled: unknown, error: unknown) => unknown;
    return this;
  }
}
