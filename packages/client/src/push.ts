/** Items into requests, results into callbacks. */
import { arrayIn, badArgument } from './answers.ts';
import type { ClientContext } from './context.ts';
import { LaneError } from './errors.ts';
import { type StandardSchema, validated } from './schema.ts';
import { newTransactionId } from './transaction-id.ts';
import type { MessageHeaders, PushResult } from './wire.ts';

/** A message to push, with the key that makes repeats harmless. */
export interface PushItem<T> {
  /** What to store. `data` is another name of it; `payload` wins when both are there. */
  readonly payload?: T;
  /** The payload. */
  readonly data?: T;
  /** Remembered by the partition inside its dedup window; minted (UUID of version 7) when absent. */
  readonly transactionId?: string;
  /** Sent when it is a UUID. */
  readonly traceId?: string;
  /** Travels with the message beside its payload. */
  readonly headers?: MessageHeaders;
  /** Not delivered, nor what is behind it in its partition, for so long: whole milliseconds. Not together with `dueAt`. */
  readonly delayMs?: number;
  /** The same as a time: ISO-8601, or milliseconds since 1970. At most 366 days ahead. */
  readonly dueAt?: string | number;
}

/** An item as it was sent. */
export interface SentItem {
  /** Name of the queue. */
  readonly queue: string;
  /** Name of the partition. */
  readonly partition: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** What is stored. */
  readonly payload: unknown;
  /** A UUID, or null. */
  readonly traceId?: string;
  /** What travels beside the payload. */
  readonly headers?: MessageHeaders;
  /** Milliseconds from the push on. */
  readonly delayMs?: number;
  /** ISO time before which it is not delivered. */
  readonly dueAt?: string | number;
}

/** An item and the broker's word on it; without `result` when the request failed as a whole. */
export type PushedItem = SentItem & { readonly result?: PushResult };

/** What a push tells its program, besides its promise. */
export interface PushCallbacks {
  onSuccess?: (items: readonly PushedItem[]) => unknown;
  onDuplicate?: (items: readonly PushedItem[], error: LaneError) => unknown;
  onError?: (items: readonly PushedItem[], error: LaneError) => unknown;
}

/**
 * A push that is on its way: a promise, and callbacks to be declared on the same expression.
 *
 * @example
 * await client
 *   .queue('orders')
 *   .push({ payload: { order: 1 }, transactionId: 'order-1' })
 *   .onDuplicate((items) => console.log(`known: ${items[0].transactionId}`));
 */
export class PushOperation<Result> extends Promise<Result> {
  readonly #callbacks: PushCallbacks;

  /** @internal `run` is called a turn later, when the callbacks are known. */
  constructor(run: (callbacks: PushCallbacks) => Promise<Result>) {
    let resolve!: (result: Promise<Result>) => void;
    super((resolver) => {
      resolve = resolver;
    });
    const callbacks: PushCallbacks = {};
    this.#callbacks = callbacks;
    queueMicrotask(() => resolve(run(callbacks)));
  }

  /** What `then` makes is a plain promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /**
   * Called with what was stored, or taken into the buffer.
   *
   * @example
   * await client
   *   .queue<Order>('orders')
   *   .push({ orderId: 9137 })
   *   .onSuccess((items) => console.log(items));
   */
  onSuccess(callback: (items: readonly PushedItem[]) => unknown): this {
    this.#callbacks.onSuccess = callback;
    return this;
  }

  /**
   * Called with what the partition knew already; `result` has the id and offset of the first.
   *
   * @example
   * await client
   *   .queue<Order>('orders')
   *   .push({ payload: { orderId: 9137 }, transactionId: 'order-9137' })
   *   .onDuplicate((items) => console.log(items));
   */
  onDuplicate(callback: (items: readonly PushedItem[], error: LaneError) => unknown): this {
    this.#callbacks.onDuplicate = callback;
    return this;
  }

  /**
   * Called with what was not stored: nothing is rejected then. A push that failed as a whole resolves with null.
   *
   * @example
   * await client
   *   .queue<Order>('orders')
   *   .push({ orderId: 9137 })
   *   .onError((_items, error) => pageSomebody(error.message));
   */
  onError(callback: (items: readonly PushedItem[], error: LaneError) => unknown): PushOperation<Result | null> {
    this.#callbacks.onError = callback;
    return this as PushOperation<Result | null>;
  }
}

/** The items of a push as they travel. @throws LaneError `bad_argument`, `bad_payload`: nothing was sent. */
export async function sentItems(
  queue: string,
  partition: string,
  items: readonly unknown[],
  schema: StandardSchema | null,
): Promise<SentItem[]> {
  const list = items.map((item) => sentItem(queue, partition, item));
  if (schema !== null) for (const { payload } of list) await validated(schema, payload);
  return list;
}

/** Sends items and resolves with a result for each, whatever it says. */
export async function sendItems(
  context: ClientContext,
  items: readonly SentItem[],
  signal: AbortSignal | undefined,
): Promise<PushResult[]> {
  if (items.length === 0) return [];
  const { transport, tracing } = context;
  const { queue, partition } = items[0];
  const send = async (list: readonly SentItem[]) => {
    const answer = await transport.send({
      method: 'POST',
      path: '/api/v1/push',
      body: { items: list },
      signal,
      affinityKey: `${queue}:${partition}:__QUEUE_MODE__`,
    });
    return arrayIn<PushResult>(answer, answer.body, list.length);
  };
  if (tracing === null) return await send(items);
  return await tracing.push({ queue, partition, count: items.length }, (headers) =>
    send(items.map((item) => ({ ...item, headers: { ...headers, ...item.headers } }))),
  );
}

/** Sends a push and tells its callbacks. */
export async function runPush(
  context: ClientContext,
  items: readonly SentItem[],
  callbacks: PushCallbacks,
  signal: AbortSignal | undefined,
): Promise<PushResult[] | null> {
  let results: PushResult[];
  try {
    results = await sendItems(context, items, signal);
  } catch (error) {
    if (callbacks.onError === undefined || !(error instanceof LaneError)) throw error;
    await callbacks.onError(items, error);
    return null;
  }
  const refusal = await report(items, results, callbacks);
  if (refusal !== null && callbacks.onError === undefined) throw refusal;
  return results;
}

/** Tells the callbacks what became of each item. Returns the refusal when there was one. */
export async function report(
  items: readonly SentItem[],
  results: readonly PushResult[],
  callbacks: PushCallbacks,
): Promise<LaneError | null> {
  const refusal = refusalOf(results);
  const isPlain = callbacks.onSuccess === undefined && callbacks.onDuplicate === undefined;
  if (isPlain && (refusal === null || callbacks.onError === undefined)) return refusal;
  const pushed = items.map((item, index): PushedItem => ({ ...item, result: results[index] }));
  const duplicates = pushed.filter(({ result }) => result?.status === 'duplicate');
  const stored = pushed.filter(({ result }) => isStored(result));
  const refused = pushed.filter(({ result }) => !isStored(result) && result?.status !== 'duplicate');
  if (duplicates.length > 0 && callbacks.onDuplicate !== undefined) {
    const message = `${duplicates.length} of ${results.length} pushed items were known already`;
    await callbacks.onDuplicate(duplicates, new LaneError({ code: 'items_refused', message, results }));
  }
  if (refusal !== null) await callbacks.onError?.(refused, refusal);
  if (stored.length > 0) await callbacks.onSuccess?.(stored);
  return refusal;
}

function refusalOf(results: readonly PushResult[]): LaneError | null {
  const refused = results.filter((result) => !isStored(result) && result.status !== 'duplicate').length;
  if (refused === 0) return null;
  const message = `${refused} of ${results.length} pushed items were not stored`;
  return new LaneError({ code: 'items_refused', status: 201, message, results });
}

/** `buffered` is a word of older brokers for an accepted item. */
function isStored(result: PushResult | undefined): boolean {
  return result?.status === 'queued' || result?.status === 'buffered';
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function sentItem(queue: string, partition: string, item: unknown): SentItem {
  const envelope = envelopeOf(item);
  const payload = envelope === null ? item : 'payload' in envelope ? envelope.payload : envelope.data;
  // A payload that JSON cannot say would vanish from the body, and the broker would blame the whole push.
  if (payload === undefined) throw badArgument('a pushed item has no payload (undefined is not JSON)');
  if (envelope === null) return { queue, partition, transactionId: newTransactionId(), payload };
  const { transactionId = newTransactionId(), traceId, headers, delayMs, dueAt } = envelope;
  return {
    queue,
    partition,
    transactionId,
    payload,
    ...(traceId !== undefined && uuid.test(traceId) ? { traceId } : {}),
    ...(headers === undefined ? {} : { headers }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(dueAt === undefined ? {} : { dueAt }),
  };
}

/** An object with a `payload` or `data` key describes a message; every other value is the payload itself. */
function envelopeOf(item: unknown): PushItem<unknown> | null {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return null;
  return 'payload' in item || 'data' in item ? (item as PushItem<unknown>) : null;
}
