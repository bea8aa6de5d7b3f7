/**
 * Pushes collected on the client's side, one buffer per queue and partition.
 *
 * Guarantees:
 * - one request of a buffer travels at a time, so its messages are stored in the order in which they were added;
 * - a batch that failed stays in front and is sent again after a pause, with the same transactionIds; only what the
 *   broker refuses for good is given up, and that is reported;
 * - at `maxSize` messages an add waits until there is room: memory is bounded, also while the broker is away.
 */
import { BUFFER_DEFAULTS } from './defaults.ts';
import { LaneError } from './errors.ts';
import type { Log } from './log.ts';
import { type PushCallbacks, report, type SentItem } from './push.ts';
import { abortedError, closedError, pause } from './transport.ts';
import type { PushResult } from './wire.ts';

/** How a buffer collects. Numbers that are 0 or less count as not given. */
export interface BufferOptions {
  /** Messages of a request: so many are sent at once. Default 100. */
  readonly messageCount?: number;
  /** Milliseconds after which fewer are sent, too. Default 1,000. */
  readonly timeMillis?: number;
  /** Messages that may wait; further adds wait for room. Default 4 × `messageCount`, at least `messageCount`. */
  readonly maxSize?: number;
  /** Pause in milliseconds after a request that failed. Default 250. */
  readonly retryDelayMillis?: number;
}

/** The buffers of a client. */
export interface BufferStats {
  /** Buffers that hold messages. */
  readonly activeBuffers: number;
  /** Messages that wait, in all buffers. */
  readonly totalBufferedMessages: number;
  /** Milliseconds that the oldest message has waited; 0 when none does. */
  readonly oldestBufferAge: number;
  /** Requests that were answered. */
  readonly flushesPerformed: number;
}

/** Sends items and resolves with a result for each. */
type Send = (items: readonly SentItem[], signal: AbortSignal) => Promise<PushResult[]>;

interface Entry {
  readonly item: SentItem;
  readonly callbacks: PushCallbacks;
  readonly addedAtMs: number;
}

type Limits = Required<BufferOptions>;

export class BufferManager {
  readonly #buffers = new Map<string, MessageBuffer>();
  readonly #send: Send;
  readonly #log: Log;
  readonly #onAdd: () => void;
  /** Pushes that were called and have not come to their buffer yet. */
  readonly #coming = new Set<Promise<void>>();
  #isClosed = false;

  /** `onAdd` is called whenever there is something to lose. */
  constructor(send: Send, log: Log, onAdd: () => void) {
    this.#send = send;
    this.#log = log;
    this.#onAdd = onAdd;
  }

  /** A push was called: flushes and the close wait for it. Returns what it calls once it has added, or will not. */
  expect(): () => void {
    let came!: () => void;
    const coming = new Promise<void>((resolve) => {
      came = resolve;
    });
    this.#coming.add(coming);
    return () => {
      this.#coming.delete(coming);
      came();
    };
  }

  /** Resolves when all items have room in their buffer. The first add to a buffer fixes its options. */
  async add(
    items: readonly SentItem[],
    options: BufferOptions,
    callbacks: PushCallbacks,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (this.#isClosed) throw closedError();
    if (items.length === 0) return;
    this.#onAdd();
    const { queue, partition } = items[0];
    const name = JSON.stringify([queue, partition]);
    let buffer = this.#buffers.get(name);
    if (buffer === undefined) {
      buffer = new MessageBuffer(this.#send, this.#log, limitsOf(options));
      this.#buffers.set(name, buffer);
    }
    await buffer.add(items, callbacks, signal);
  }

  /** Resolves when what a buffer holds now is stored or reported. */
  async flush(queue: string, partition: string): Promise<void> {
    await Promise.all(this.#coming);
    await this.#buffers.get(JSON.stringify([queue, partition]))?.flush();
  }

  async flushAll(): Promise<void> {
    await Promise.all(this.#coming);
    await Promise.all([...this.#buffers.values()].map((buffer) => buffer.flush()));
  }

  /** Takes nothing more, and sends what is there within the time given. Resolves with the number of messages left. */
  async close(deadlineMillis: number): Promise<number> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMillis);
    });
    await Promise.race([Promise.all(this.#coming), deadline]);
    clearTimeout(timer);
    this.#isClosed = true;
    const left = await Promise.all([...this.#buffers.values()].map((buffer) => buffer.close(deadlineMillis)));
    return left.reduce((sum, count) => sum + count, 0);
  }

  stats(): BufferStats {
    const buffers = [...this.#buffers.values()];
    const nowMs = performance.now();
    const oldestAtMs = Math.min(nowMs, ...buffers.map((buffer) => buffer.oldestAtMs ?? nowMs));
    return {
      activeBuffers: buffers.filter((buffer) => buffer.size > 0).length,
      totalBufferedMessages: buffers.reduce((sum, buffer) => sum + buffer.size, 0),
      oldestBufferAge: nowMs - oldestAtMs,
      flushesPerformed: buffers.reduce((sum, buffer) => sum + buffer.flushes, 0),
    };
  }
}

class MessageBuffer {
  readonly #send: Send;
  readonly #log: Log;
  readonly #limits: Limits;
  readonly #entries: Entry[] = [];
  readonly #end = new AbortController();
  /** Entries that were added, sent, and are to be sent even when they do not fill a request. */
  #added = 0;
  #sent = 0;
  #flushTo = 0;
  /** The add that was called last: adds take their room in the order of their calls. */
  #lastAdd: Promise<unknown> = Promise.resolve();
  #roomWaiter: (() => void) | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #draining: Promise<void> | null = null;
  flushes = 0;

  constructor(send: Send, log: Log, limits: Limits) {
    this.#send = send;
    this.#log = log;
    this.#limits = limits;
  }

  get size(): number {
    return this.#entries.length;
  }

  get oldestAtMs(): number | undefined {
    return this.#entries[0]?.addedAtMs;
  }

  async add(items: readonly SentItem[], callbacks: PushCallbacks, signal: AbortSignal | undefined): Promise<void> {
    const before = this.#lastAdd;
    const added = before.then(() => this.#addInTurn(items, callbacks, signal));
    this.#lastAdd = added.catch(() => {});
    await added;
  }

  async #addInTurn(
    items: readonly SentItem[],
    callbacks: PushCallbacks,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    for (const item of items) {
      if (this.#entries.length >= this.#limits.maxSize) await this.#room(signal);
      if (this.#end.signal.aborted) throw closedError();
      if (signal?.aborted) throw abortedError();
      this.#entries.push({ item, callbacks, addedAtMs: performance.now() });
      this.#added += 1;
      this.#wake();
    }
  }

  async flush(): Promise<void> {
    // Adds that were called before this and not awaited take their room first.
    await this.#lastAdd;
    this.#flushTo = this.#added;
    this.#wake();
    while (this.#draining !== null && this.#sent < this.#flushTo) await this.#draining;
  }

  async close(deadlineMillis: number): Promise<number> {
    const timer = setTimeout(() => {
      this.#end.abort();
      this.#roomWaiter?.();
    }, deadlineMillis);
    await this.flush();
    clearTimeout(timer);
    clearTimeout(this.#timer);
    this.#end.abort();
    this.#roomWaiter?.();
    const left = this.#entries.splice(0);
    await this.#giveUp(left, closedError());
    return left.length;
  }

  async #room(signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        signal?.removeEventListener('abort', wake);
        this.#roomWaiter = null;
        resolve();
      };
      this.#roomWaiter = wake;
      signal?.addEventListener('abort', wake, { once: true });
    });
  }

  /** Sends when a request is full or a flush was asked for; else makes sure that time will. */
  #wake(): void {
    if (this.#draining !== null) return;
    if (this.#isDue()) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#draining = this.#drain();
    } else if (this.#entries.length > 0) {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.#flushTo = this.#added;
        this.#wake();
      }, this.#limits.timeMillis);
    }
  }

  #isDue(): boolean {
    return (
      this.#entries.length >= this.#limits.messageCount || (this.#entries.length > 0 && this.#sent < this.#flushTo)
    );
  }

  async #drain(): Promise<void> {
    while (this.#isDue() && !this.#end.signal.aborted) await this.#sendBatch();
    this.#draining = null;
    if (!this.#end.signal.aborted) this.#wake();
  }

  async #sendBatch(): Promise<void> {
    const batch = this.#entries.slice(0, this.#limits.messageCount);
    try {
      const results = await this.#send(
        batch.map((entry) => entry.item),
        this.#end.signal,
      );
      this.flushes += 1;
      this.#remove(batch.length);
      await this.#report(batch, results);
    } catch (error) {
      if (error instanceof LaneError && error.retriable) {
        this.#log.warn('buffer.failed', { messages: batch.length, error: error.message });
        await pause(this.#limits.retryDelayMillis, this.#end.signal).catch(() => {});
      } else if (!this.#end.signal.aborted) {
        this.#remove(batch.length);
        await this.#giveUp(batch, error);
      }
    }
  }

  #remove(count: number): void {
    this.#entries.splice(0, count);
    this.#sent += count;
    this.#roomWaiter?.();
  }

  async #report(batch: readonly Entry[], results: readonly PushResult[]): Promise<void> {
    for (const [callbacks, indexes] of byCallbacks(batch)) {
      const items = indexes.map((index) => batch[index].item);
      const own = indexes.map((index) => results[index]);
      await this.#told(async () => {
        // An add told of its success when it was taken in.
        const refusal = await report(items, own, { ...callbacks, onSuccess: () => {} });
        if (refusal !== null && callbacks.onError === undefined) throw refusal;
      });
    }
  }

  async #giveUp(batch: readonly Entry[], error: unknown): Promise<void> {
    if (batch.length === 0) return;
    const fault = error instanceof LaneError ? error : new LaneError({ code: 'network', message: String(error) });
    for (const [callbacks, indexes] of byCallbacks(batch)) {
      await this.#told(async () => {
        if (callbacks.onError === undefined) throw fault;
        await callbacks.onError(
          indexes.map((index) => batch[index].item),
          fault,
        );
      });
    }
  }

  /** Nobody awaits a buffered push any more: what its callbacks throw, or what there is no callback for, is logged. */
  async #told(tell: () => Promise<void>): Promise<void> {
    try {
      await tell();
    } catch (error) {
      this.#log.error('buffer.refused', { error: error instanceof Error ? error.message : String(error) });
    }
  }
}

function byCallbacks(batch: readonly Entry[]): Map<PushCallbacks, number[]> {
  const groups = new Map<PushCallbacks, number[]>();
  for (let i = 0; i < batch.length; i++) {
    const group = groups.get(batch[i].callbacks);
    if (group === undefined) groups.set(batch[i].callbacks, [i]);
    else group.push(i);
  }
  return groups;
}

function limitsOf(options: BufferOptions): Limits {
  const given = (value: number | undefined, otherwise: number) =>
    value !== undefined && value > 0 ? value : otherwise;
  const messageCount = given(options.messageCount, BUFFER_DEFAULTS.messageCount);
  return {
    messageCount,
    timeMillis: given(options.timeMillis, BUFFER_DEFAULTS.timeMillis),
    maxSize: Math.max(messageCount, given(options.maxSize, 4 * messageCount)),
    retryDelayMillis: given(options.retryDelayMillis, BUFFER_DEFAULTS.retryDelayMillis),
  };
}
