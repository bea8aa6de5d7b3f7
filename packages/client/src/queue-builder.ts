/** A queue as programs see it: a name, options one behind the other, and at the end a call that does something. */
import type { QueueOptions } from '@lanemq/protocol';
import { badArgument, objectIn, pathSegment } from './answers.ts';
import type { BufferOptions } from './buffer.ts';
import { atLeast } from './client-options.ts';
import {
  type BatchHandler,
  type ConsumeCallbacks,
  type ConsumeOptions,
  type ConsumerJob,
  type ConsumeSettings,
  type MessageHandler,
  renewalSeconds,
  runConsumer,
} from './consumer.ts';
import type { ClientContext } from './context.ts';
import { DeadLetterQueue } from './dead-letters.ts';
import { CONSUME_DEFAULTS, QUEUE_DEFAULTS } from './defaults.ts';
import { changeDue, type DueFilter, type DueTime, listDue } from './due.ts';
import { LaneError } from './errors.ts';
import { type SeekTarget, seekGroup, setPaused } from './groups.ts';
import type { Message } from './message.ts';
import { messageStream } from './message-stream.ts';
import { CallbackOperation, ConsumeOperation } from './operations.ts';
import { type AutopilotChoice, type PopSettings, type PopTarget, popMessages, readMessage } from './pop.ts';
import { type PushItem, PushOperation, runPush, type SentItem, sentItems } from './push.ts';
import {
  type ChangedPartitions,
  changedSince,
  type FetchedPartition,
  type FetchOptions,
  fetchOffsets,
  fetchPartitions,
} from './reads.ts';
import type { StandardSchema } from './schema.ts';
import type {
  DueChange,
  DuePage,
  FoundOffset,
  PauseResult,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  SeekResult,
} from './wire.ts';

/** The options of a queue to change; null puts one back to its default. */
export type QueueOptionChanges = { readonly [K in keyof QueueOptions]?: QueueOptions[K] | null };

/** How a configure treats what it does not name. */
export interface ConfigureSettings {
  /** `merge` keeps the options that are not named, `replace` resets them. Default `merge`. */
  readonly mode?: 'merge' | 'replace';
}

/** Options of a single call. */
export interface CallOptions {
  /** Ends the call. */
  readonly signal?: AbortSignal;
}

/** What a pop brought, and what the broker chose where it was left to it. */
export interface PopResult<T> {
  /** The rows of the page. */
  readonly messages: Message<T>[];
  /** null: the broker does not say. */
  readonly autopilot: AutopilotChoice | null;
}

/** What a buffered push resolves with. */
export interface BufferedPush {
  /** They wait in the buffer. */
  readonly buffered: true;
  /** How many. */
  readonly count: number;
}

/** Options that change what a call at the end takes or gives. */
type Mode = 'each' | 'buffered' | 'commitOnDelivery';

/** The handler of `consume`: of single messages with `each()`; none at all with `commitOnDelivery()`. */
type HandlerOf<T, Modes extends Mode> = 'commitOnDelivery' extends Modes
  ? never
  : 'each' extends Modes
    ? MessageHandler<T>
    : BatchHandler<T>;

/** What the callbacks of `consume` get. */
type HandledOf<T, Modes extends Mode> = 'each' extends Modes ? Message<T> : readonly Message<T>[];

type PushedOf<Modes extends Mode> = 'buffered' extends Modes ? BufferedPush : PushResult[];

interface Settings extends PopSettings, ConsumeSettings {
  readonly partition: string | null;
  readonly group: string | null;
  readonly namespace: string | null;
  readonly task: string | null;
  readonly options: QueueOptionChanges;
  readonly buffer: BufferOptions | null;
}

function initialSettings(autopilot: boolean): Settings {
  return {
    ...CONSUME_DEFAULTS,
    partition: null,
    group: null,
    namespace: null,
    task: null,
    options: {},
    buffer: null,
    batch: 0,
    partitions: null,
    autopilot,
    leaseSeconds: null,
    commitOnDelivery: false,
    each: false,
    renewIntervalMillis: null,
  };
}

/**
 * Made by `client.queue(name)`. `In` is what is pushed, `Out` what handlers get; the same unless a schema changes it. A
 * builder never changes: each method returns another, so one may be kept and used again.
 *
 * @example
 * const orders = client.queue<Order>('orders');
 * await orders.partition('customer-42').push({ orderId: 9137 });
 * await orders
 *   .group('billing')
 *   .subscriptionMode('all')
 *   .each()
 *   .consume((order) => charge(order.data), { signal });
 */
export class QueueBuilder<In = unknown, Out = In, Modes extends Mode = never> {
  /** The queue's name. Empty: pops go by `namespace` and `task`. */
  readonly name: string;
  readonly #context: ClientContext;
  readonly #schema: StandardSchema | null;
  readonly #settings: Settings;

  /** @internal */
  constructor(context: ClientContext, name: string, schema: StandardSchema | null, settings?: Settings) {
    this.#context = context;
    this.name = name;
    this.#schema = schema;
    this.#settings = settings ?? initialSettings(context.autopilotDefault);
  }

  /**
   * A label of the queue: given to `create`, or what a pop without a queue name looks for.
   *
   * @example
   * const [message] = await client.queue('').namespace('shop').batch(1).pop();
   */
  namespace(label: string): this {
    return this.#with({ namespace: label });
  }

  /**
   * The second label of the queue.
   *
   * @example
   * const [message] = await client.queue('').task('billing').batch(1).pop();
   */
  task(label: string): this {
    return this.#with({ task: label });
  }

  /**
   * Options for `create`; several calls add up. Options without an ending in their name are seconds.
   *
   * @example
   * await client.queue('orders').config({ leaseTime: 30 }).create();
   */
  config(options: QueueOptionChanges): this {
    return this.#with({ options: { ...this.#settings.options, ...options } });
  }

  /**
   * One partition. Default: pushes go to `Default`, pops and consumers look at every partition.
   *
   * @example
   * await client.queue<Order>('orders').partition('customer-42').push({ orderId: 9137 });
   */
  partition(name: string): this {
    return this.#with({ partition: name || 'Default' });
  }

  /**
   * A consumer group. Default: queue mode, the group that is there when none is named.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').pop();
   */
  group(name: string): this {
    return this.#with({ group: name });
  }

  /**
   * Collect pushes here and send many with one request; see {@link BufferOptions}. Default off.
   *
   * @example
   * const orders = client.queue<Order>('orders').buffer({ messageCount: 100, timeMillis: 50 });
   * await orders.push({ orderId: 9137 });
   * await orders.flushBuffer();
   */
  buffer(options: BufferOptions = {}): QueueBuilder<In, Out, Modes | 'buffered'> {
    return this.#with({ buffer: options });
  }

  /**
   * Where a group starts that the queue has never seen: with what is there, or with what comes. Default: the broker's.
   *
   * @example
   * const messages = await client.queue('orders').group('audit').subscriptionMode('all').pop();
   */
  subscriptionMode(mode: 'all' | 'new' | (string & {})): this {
    return this.#with({ subscriptionMode: mode });
  }

  /**
   * `now`, or an ISO time to start from; for a group that the queue has never seen.
   *
   * @example
   * const messages = await client.queue('orders').group('live').subscriptionFrom('now').wait(false).pop();
   */
  subscriptionFrom(time: 'now' | (string & {})): this {
    return this.#with({ subscriptionFrom: time });
  }

  /**
   * Deliver the newest message of each partition only: a property of the group, fixed by its first pop. Default off.
   *
   * @example
   * const latest = await client.queue('orders').group('screen').conflation().wait(false).pop();
   */
  conflation(on = true): this {
    return this.#with({ conflation: on });
  }

  /**
   * Most messages of a pop, over all partitions. 0 and the default: the broker chooses; 1 when autopilot is off.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').batch(100).pop();
   */
  batch(count: number): this {
    return this.#with({ batch: count });
  }

  /**
   * Most partitions of a pop, 1 to 64. Default: the broker chooses; 1 when autopilot is off.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').partitions(10).batch(100).pop();
   */
  partitions(count: number): this {
    return this.#with({ partitions: atLeast('partitions', count, 1) });
  }

  /**
   * Let the broker choose what is unset of `batch` and `partitions`. Default on.
   *
   * @example
   * await client.queue('orders').group('billing').autopilot().consume((messages) => charge(messages), { signal });
   */
  autopilot(on = true): this {
    return this.#with({ autopilot: on });
  }

  /**
   * Wait at the broker while there is nothing. Default true.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').wait(false).pop();
   */
  wait(on: boolean): this {
    return this.#with({ wait: on });
  }

  /**
   * How long a poll waits, in milliseconds, at most 60,000. Default 30,000.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').timeoutMillis(200).pop();
   */
  timeoutMillis(millis: number): this {
    return this.#with({ timeoutMillis: atLeast('timeoutMillis', millis, 0) });
  }

  /**
   * Length of the lease in seconds. Default: the queue's `leaseTime`.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').leaseSeconds(120).pop();
   */
  leaseSeconds(seconds: number): this {
    return this.#with({ leaseSeconds: atLeast('leaseSeconds', seconds, 1) });
  }

  /**
   * Handlers of a consumer that run side by side; each partition is with one of them at a time. Default 1.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .concurrency(10)
   *   .consume((messages) => charge(messages), { signal });
   */
  concurrency(count: number): this {
    return this.#with({ concurrency: atLeast('concurrency', count, 1) });
  }

  /**
   * A consumer ends after so many messages. Default: never.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .limit(1)
   *   .consume((messages) => charge(messages), { signal });
   */
  limit(count: number): this {
    return this.#with({ limit: atLeast('limit', count, 0) });
  }

  /**
   * A consumer ends after so many milliseconds without a message. Default: never.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .idleMillis(200)
   *   .consume((messages) => charge(messages), { signal });
   */
  idleMillis(millis: number): this {
    return this.#with({ idleMillis: atLeast('idleMillis', millis, 0) });
  }

  /**
   * The handler of a consumer gets one message instead of the array of one pop.
   *
   * @example
   * await client
   *   .queue<Order>('orders')
   *   .group('billing')
   *   .each()
   *   .consume((order) => charge(order.data.orderId), { signal });
   */
  each(): QueueBuilder<In, Out, Modes | 'each'> {
    return this.#with({ each: true });
  }

  /**
   * A consumer settles what its handler did: acks when it returned, fails when it threw. Default true.
   *
   * @example
   * await client
   *   .queue<Order>('orders')
   *   .group('billing')
   *   .autoAck(false)
   *   .each()
   *   .consume(async (order) => {
   *     await charge(order.data.orderId);
   *     await client.ack(order);
   *   }, { signal });
   */
  autoAck(on: boolean): this {
    return this.#with({ autoAck: on });
  }

  /**
   * Keep the lease while the handler runs, by extending it by 60 s (or `leaseSeconds`) every so many milliseconds; default a
   * third of that. Without an interval a pop asks for a lease of 60 s when nothing else was said, so that the first
   * renewal cannot come too late.
   *
   * @example
   * await client
   *   .queue('orders')
   *   .group('billing')
   *   .renewLease()
   *   .consume((messages) => charge(messages), { signal });
   */
  renewLease(on = true, intervalMillis?: number): this {
    const interval = intervalMillis === undefined ? null : atLeast('intervalMillis', intervalMillis, 1);
    return this.#with({ renewLease: on, renewIntervalMillis: interval });
  }

  /**
   * Settle at delivery instead of leasing, with `pop`: at most once, a lost answer loses its messages.
   *
   * @example
   * const messages = await client.queue('orders').group('metrics').commitOnDelivery().wait(false).pop();
   */
  commitOnDelivery(on = true): QueueBuilder<In, Out, Modes | 'commitOnDelivery'> {
    return this.#with({ commitOnDelivery: on });
  }

  /**
   * Creates the queue, or sets its options: the defaults of a new queue, and what `config` says.
   *
   * @throws LaneError `bad_request` when an option is out of its bounds.
   *
   * @example
   * await client.queue('orders').config({ leaseTime: 30, retryLimit: 5 }).create();
   */
  create(): CallbackOperation<QueueConfiguration> {
    const { options, namespace, task } = this.#settings;
    return new CallbackOperation(() => this.#configure({ ...QUEUE_DEFAULTS, ...options }, { namespace, task }));
  }

  /**
   * Changes options of the queue and nothing else; creates it when it does not exist.
   *
   * @throws LaneError `bad_request` when an option is out of its bounds.
   *
   * @example
   * await client.queue('orders').configure({ leaseTime: 60 });
   */
  configure(options: QueueOptionChanges = {}, settings: ConfigureSettings = {}): Promise<QueueConfiguration> {
    const { options: configured, namespace, task } = this.#settings;
    return this.#configure({ ...configured, ...options }, { namespace, task, ...settings });
  }

  /**
   * Deletes the queue with its partitions, groups and dead letters. Deleting what is not there is no error.
   *
   * @example
   * await client.queue('scratch').create();
   * await client.queue('scratch').delete();
   */
  delete(): CallbackOperation<QueueDeletion> {
    const path = () => `/api/v1/resources/queues/${pathSegment(this.name)}`;
    return new CallbackOperation(async () =>
      objectIn(await this.#context.transport.send({ method: 'DELETE', path: path() })),
    );
  }

  /**
   * Stores messages in one partition, all of them in one step. Resolves once they are durable, with the broker's result for
   * each; a transactionId that the partition knows already answers `duplicate` and is not stored again. A value without a
   * `payload` or `data` key is itself the payload. With `buffer()` it resolves once the messages are in the buffer.
   *
   * Sent again after a broken connection or a 5xx, with the same transactionIds: nothing is stored twice.
   *
   * @throws LaneError `items_refused` when the broker stored only some, `bad_payload` when the schema does not take a
   * payload, `bad_argument`, `queue_full`, `storage_full`, `name_too_long`, …; with `onError` declared nothing is thrown.
   *
   * @example
   * const [{ status, offset }] = await client
   *   .queue('orders')
   *   .partition('customer-42')
   *   .push({ payload: { orderId: 9137 }, transactionId: 'order-9137' });
   */
  push(
    items: In | PushItem<In> | readonly (In | PushItem<In>)[],
    { signal }: CallOptions = {},
  ): PushOperation<PushedOf<Modes>> {
    const list: readonly unknown[] = Array.isArray(items) ? items : [items];
    const { buffer } = this.#settings;
    const { buffers } = this.#context;
    const came = buffer === null ? () => {} : buffers.expect();
    return new PushOperation<PushedOf<Modes>>(async (callbacks) => {
      let sent: readonly SentItem[];
      let added: Promise<void>;
      try {
        sent = await sentItems(this.name, this.#settings.partition ?? 'Default', list, this.#schema);
        if (buffer === null) return (await runPush(this.#context, sent, callbacks, signal)) as PushedOf<Modes>;
        added = buffers.add(sent, buffer, callbacks, signal);
      } finally {
        came();
      }
      try {
        await added;
      } catch (error) {
        if (callbacks.onError === undefined || !(error instanceof LaneError)) throw error;
        await callbacks.onError(sent, error);
        return null as unknown as PushedOf<Modes>;
      }
      await callbacks.onSuccess?.(sent);
      return { buffered: true, count: sent.length } as PushedOf<Modes>;
    });
  }

  /**
   * Resolves when what is in the buffer of this queue and partition was sent.
   *
   * @example
   * await client.queue('orders').partition('customer-42').flushBuffer();
   */
  flushBuffer(): Promise<void> {
    return this.#context.buffers.flush(this.name, this.#settings.partition ?? 'Default');
  }

  /**
   * Leases messages: they are this caller's until it acks them or the lease ends. Waits unless told otherwise; an empty
   * array means that there was nothing, or that the broker did not answer: {@link popResult} tells them apart.
   *
   * @throws LaneError with status 400, `bad_argument`, `bad_payload`, `conflation_unsupported`, `closed`.
   *
   * @example
   * const messages = await client.queue('orders').group('billing').batch(10).pop();
   * await client.ack(messages);
   */
  async pop(options: CallOptions = {}): Promise<Message<Out>[]> {
    try {
      return (await this.popResult(options)).messages;
    } catch (error) {
      if (!(error instanceof LaneError) || error.status === 400) throw error;
      if (['bad_argument', 'bad_payload', 'conflation_unsupported', 'closed'].includes(error.code)) throw error;
      this.#context.log.warn('pop.failed', { queue: this.name, code: error.code, error: error.message });
      return [];
    }
  }

  /**
   * As {@link pop}, with what the broker chose, and rejecting when it did not answer.
   *
   * @throws LaneError `bad_payload` when the schema does not take a payload: the messages come again when their lease ends.
   *
   * @example
   * const { messages } = await client.queue('orders').group('billing').popResult({ signal });
   */
  async popResult({ signal }: CallOptions = {}): Promise<PopResult<Out>> {
    const { messages: wire, autopilot } = await popMessages(this.#context, this.#target(), this.#settings, signal);
    const messages: Message<Out>[] = [];
    for (const each of wire) messages.push(await readMessage<Out>(this.#context, this.#schema, each));
    return { messages, autopilot };
  }

  /**
   * Pops and handles until its signal fires, its limit is reached, it was idle for `idleMillis`, or the client is closed.
   * A handler that returns acks its messages, one that throws fails them with the error's text; when it is stopped, what
   * was fetched but not handled is given back. Declaring `onSuccess` or `onError` on the result hands acking to the
   * program.
   *
   * @throws LaneError when the broker refuses for good; a broker out of reach is waited for.
   *
   * @example
   * const stop = new AbortController();
   * await client
   *   .queue<Order>('orders')
   *   .group('billing')
   *   .concurrency(10)
   *   .each()
   *   .consume(async (order) => charge(order.partition, order.data), { signal: stop.signal });
   */
  consume(handler: HandlerOf<Out, Modes>, options: ConsumeOptions = {}): ConsumeOperation<HandledOf<Out, Modes>> {
    return new ConsumeOperation(async (callbacks) => {
      if (this.#settings.commitOnDelivery) {
        throw badArgument('commitOnDelivery() is a pop() option; consume() always leases its messages');
      }
      await runConsumer(this.#job(handler, options, callbacks as ConsumeCallbacks<Out>));
    });
  }

  /**
   * The messages as an async iterable: asking for the next one acks the one before. A loop that is left by `break` or an
   * error gives the current message back; ended by its signal, or by `limit` or `idleMillis`, it acks the last one.
   *
   * @throws LaneError as `consume`.
   *
   * @example
   * for await (const order of client.queue<Order>('orders').group('billing').limit(100).messages()) {
   *   await charge(order.partition, order.data);
   * }
   */
  messages(options: ConsumeOptions = {}): AsyncIterableIterator<Message<Out>> {
    const one = this.#with<QueueBuilder<In, Out, 'each'>>({ each: true, concurrency: 1, commitOnDelivery: false });
    return messageStream<Out>((handler, signal) => one.#job(handler, { ...options, signal }, {}), options.signal);
  }

  /**
   * Reads partitions by offset, up to where each ended when it was first read. No lease, no position, no group. A partition
   * that nobody wrote has no records; one whose start retention removed is read from its oldest record.
   *
   * @throws LaneError `bad_argument`, `bad_answer`.
   *
   * @example
   * const read = await client.queue<Order>('orders').fetch('customer-42');
   * for (const { offset, payload } of read.get('customer-42')?.records ?? []) console.log(offset, payload);
   */
  fetch(
    partitions: string | readonly string[],
    options: FetchOptions = {},
  ): Promise<Map<string, FetchedPartition<In>>> {
    return fetchPartitions<In>(this.#context.transport, this.name, partitions, options);
  }

  /**
   * The first record of each partition at or after a time: epoch milliseconds or ISO.
   *
   * @example
   * const places = await client.queue('orders').fetchOffsets([{ partition: 'customer-42', timestamp: Date.now() - 60_000 }]);
   */
  fetchOffsets(
    entries: readonly { readonly partition?: string; readonly timestamp: number | string }[],
  ): Promise<FoundOffset[]> {
    return fetchOffsets(this.#context.transport, this.name, entries);
  }

  /**
   * Partitions written since a time, all of them without one. Give `safeTime` as the next `since`: no write is missed
   * between the two. A queue that does not exist has none.
   *
   * @throws LaneError `bad_request` when the broker cannot read the time.
   *
   * @example
   * const { partitions } = await client.queue('orders').changedSince(Date.now() - 60_000);
   */
  changedSince(since?: Date | number | string): Promise<ChangedPartitions> {
    return changedSince(this.#context.transport, this.name, since);
  }

  /**
   * The dead letters of the queue, or of a group; default: the group that was named.
   *
   * @example
   * const { total } = await client.queue('orders').dlq('billing').get();
   */
  dlq(group?: string): DeadLetterQueue<Out> {
    const { partition, group: named } = this.#settings;
    return new DeadLetterQueue<Out>(
      this.#context,
      { queue: this.name, partition, group: group ?? named },
      this.#schema,
    );
  }

  /**
   * Moves the group, in one partition when one was named, else in all. Safe to repeat.
   *
   * @throws LaneError `bad_argument` when no group was named, `not_found`.
   *
   * @example
   * await client.queue('orders').group('billing').seek({ toEnd: true });
   */
  async seek(target: SeekTarget): Promise<SeekResult> {
    const { group, partition } = this.#settings;
    if (group === null) throw badArgument('a seek needs a group: call group(name) first');
    return await seekGroup(this.#context.transport, group, this.name, partition, target);
  }

  /**
   * Stops deliveries: to the group when one was named, of the partition when one was named, else of the queue. Pushes go
   * on, leases stay, and it survives restarts.
   *
   * @throws LaneError `not_found`, `too_many_paused`.
   *
   * @example
   * const orders = client.queue('orders').partition('customer-42');
   * await orders.pause();
   * await orders.resume();
   */
  pause(): Promise<PauseResult> {
    return setPaused(this.#context.transport, this.#target(), true);
  }

  /**
   * Ends the same pause.
   *
   * @example
   * await client.queue('orders').partition('customer-42').resume();
   */
  resume(): Promise<PauseResult> {
    return setPaused(this.#context.transport, this.#target(), false);
  }

  /**
   * Messages that wait for their time, in the partition when one was named, else in the queue; the earliest first.
   *
   * @example
   * const { messages } = await client.queue('orders').due();
   */
  due(filter: DueFilter = {}): Promise<DuePage> {
    return listDue(this.#context.transport, this.name, this.#settings.partition, filter);
  }

  /**
   * Gives a message that waits another time. `id` is its message id; when a partition was named, its transactionId will
   * do as well.
   *
   * @throws LaneError `not_waiting` when its time has come or it was cancelled, `not_found`.
   *
   * @example
   * const orders = client.queue<Order>('orders').partition('customer-43');
   * const [{ message_id: id }] = await orders.push({ payload: { orderId: 9137 }, delayMs: 60_000 });
   * await orders.moveDue(id, { delayMs: 1000 });
   */
  moveDue(id: string, time: DueTime): Promise<DueChange> {
    return changeDue(this.#context.transport, this.name, this.#settings.partition, id, time);
  }

  /**
   * Cancels a message that waits: it is never delivered. Names and errors as with `moveDue`; safe to repeat.
   *
   * @example
   * const orders = client.queue<Order>('orders').partition('customer-43');
   * const [{ message_id: id }] = await orders.push({ payload: { orderId: 9137 }, delayMs: 60_000 });
   * await orders.cancelDue(id);
   */
  cancelDue(id: string): Promise<DueChange> {
    return changeDue(this.#context.transport, this.name, this.#settings.partition, id, null);
  }

  async #configure(
    options: QueueOptionChanges,
    settings: ConfigureSettings & { readonly namespace: string | null; readonly task: string | null },
  ): Promise<QueueConfiguration> {
    const body = { queue: this.name, options, ...settings };
    return objectIn(await this.#context.transport.send({ method: 'POST', path: '/api/v1/configure', body }));
  }

  #job(
    handler: BatchHandler<Out> | MessageHandler<Out>,
    options: ConsumeOptions,
    callbacks: ConsumeCallbacks<Out>,
  ): ConsumerJob<Out> {
    const settings = this.#settings;
    const needsLease = settings.renewLease && settings.renewIntervalMillis === null && settings.leaseSeconds === null;
    const pop = needsLease ? { ...settings, leaseSeconds: renewalSeconds } : settings;
    const context = this.#context;
    return { context, target: this.#target(), pop, settings, schema: this.#schema, handler, callbacks, options };
  }

  #target(): PopTarget {
    const { partition, group, namespace, task } = this.#settings;
    return { queue: this.name, partition, group, namespace, task };
  }

  /** Another builder with other settings. The caller knows what they make of its type. */
  #with<Builder = this>(changes: Partial<Settings>): Builder {
    const settings = { ...this.#settings, ...changes };
    return new QueueBuilder(this.#context, this.name, this.#schema, settings) as Builder;
  }
}
