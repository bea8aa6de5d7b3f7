/** queue/v1 as programs see it: namespaces and their queues. Numbers of 64 bits are bigints. */
import { arrayIn, objectIn, pathSegment, queryOf } from './answers.ts';
import type { ClientContext } from './context.ts';
import { isLaneError, LaneError } from './errors.ts';
import { longIn, longText } from './longs.ts';
import type { CallOptions } from './queue-builder.ts';
import { type ConsumeV1Options, type MessageV1, type MessageV1Handler, runConsumerV1 } from './queue-v1-consumer.ts';
import { type EnqueueItem, type EnqueueResult, Enqueuer } from './queue-v1-enqueue.ts';
import type { Answer, Call } from './transport.ts';

/** What a queue is made with. */
export interface QueueV1Settings {
  /** 1 to 10,000, for ever. 30 is shared evenly by 1, 2, 3, 5, 6, 10, 15 or 30 workers. Default 30. */
  readonly partitions?: number;
  /** How long a dedupId is remembered, in milliseconds, at most 86,400,000. Default 300,000. */
  readonly dedupWindowMillis?: number;
  /** Kept with the queue; it means nothing to LaneMQ. Default `datastore://lanemq/` and the name of the queue. */
  readonly storage?: string;
}

/** A queue as it was made. */
export interface QueueV1Description {
  /** Its namespace. */
  readonly namespace: string;
  /** Name of the queue. */
  readonly queue: string;
  /** How many partitions it has. */
  readonly partitions: number;
  /** As it was given. */
  readonly storage: string;
}

/** A queue of a list. */
export interface QueueV1Row extends QueueV1Description {
  /** False: it was disabled, and keeps what it holds. */
  readonly active: boolean;
  /** Messages that it holds. */
  readonly depth: number;
  /** Milliseconds since the message that is first in its partition was enqueued; the greatest of all partitions. */
  readonly lagMs: number;
}

/** What a partition holds. */
export interface PartitionDepthV1 {
  /** The partition, from 0 on. */
  readonly partition: number;
  /** Messages that it holds. */
  readonly depth: number;
  /** Milliseconds since its first message was enqueued. */
  readonly lagMs: number;
  /** Least seq. */
  readonly firstSeq: bigint;
  /** Greatest seq. */
  readonly lastSeq: bigint;
}

/** What a queue holds. */
export interface QueueV1Depth extends QueueV1Description {
  /** Messages that it holds. */
  readonly depth: number;
  /** The greatest lag of its partitions, in milliseconds. */
  readonly lagMs: number;
  /** Of partitions that hold messages. */
  readonly byPartition: readonly PartitionDepthV1[];
}

/** Which messages a poll shows. */
export interface PollOptions {
  /** Those with a greater seq. Default: from the beginning. */
  readonly offset?: bigint | number;
  /** Those behind one message, in place of `offset`: then a page may end between messages of one seq. */
  readonly after?: { readonly seq: bigint | number; readonly id: string };
  /** Those with a seq up to this; `now` is the broker's time in milliseconds. Default: all. */
  readonly until?: bigint | number | 'now';
  /** At most so many, 1 to 1,000; more when there are more of one seq and `after` is not given. Default 100. */
  readonly limit?: number;
  /** Milliseconds to wait while there is nothing, at most 30,000. Default 0. */
  readonly waitMillis?: number;
  /** Ends the poll. */
  readonly signal?: AbortSignal;
}

/** What a poll showed. Nothing is taken or leased: it comes again until it is committed. */
export interface PageV1<T> {
  /** By seq, and by arrival where it is equal. */
  readonly messages: readonly MessageV1<T>[];
  /** Greatest seq of the page; of an empty one the offset that was asked for, null when there was none. */
  readonly offset: bigint | null;
  /** The range holds more. */
  readonly hasNext: boolean;
  /** To be given to the commit of this page, so that it spares what came later. */
  readonly watermark: string;
}

/** What a commit takes. */
export interface CommitPosition {
  /** Messages with a seq up to this. */
  readonly offset: bigint | number;
  /** Of the page that was handled: only what had come by then. Null: whatever has come, seen or not. */
  readonly watermark: string | null;
  /** Of the messages whose seq is `offset`, those up to this id. Default: all of them. */
  readonly id?: string;
}

const pollGraceMillis = 5000;

/**
 * Made by `client.v1(name)`.
 *
 * @example
 * const shop = client.v1('shop');
 * await shop.queue('reminders').ensure({ partitions: 6 });
 * for (const { queue, depth, lagMs } of await shop.list()) console.log(queue, depth, lagMs);
 */
export class NamespaceV1 {
  /** The namespace's name. */
  readonly name: string;
  readonly #context: ClientContext;

  /** @internal */
  constructor(context: ClientContext, name: string) {
    this.#context = context;
    this.name = name;
  }

  /**
   * A queue by name; nothing is sent. `T` is the type of its values.
   *
   * @example
   * const reminders = client.v1('shop').queue<Order>('reminders');
   */
  queue<T = unknown>(name: string): QueueV1<T> {
    return new QueueV1<T>(this.#context, this.name, name);
  }

  /**
   * Creates the namespace where it does not exist, with a comment for people. Safe to repeat.
   *
   * @throws LaneError `bad_request` when the name is not `[a-zA-Z][a-zA-Z0-9_-]*` of at most 64 characters.
   *
   * @example
   * await client.v1('shop').ensure('reminders and invoices of the shop');
   */
  async ensure(comment = ''): Promise<void> {
    const body = { database: this.name, comment };
    try {
      await this.#context.transport.send({ method: 'POST', path: '/graph/v3/databases', body });
    } catch (error) {
      if (!isLaneError(error, 'conflict')) throw error;
    }
  }

  /**
   * Its queues with what they hold. @throws LaneError `not_found` when there is no such namespace.
   *
   * @example
   * for (const { queue, depth } of await client.v1('shop').list()) console.log(queue, depth);
   */
  async list({ signal }: CallOptions = {}): Promise<readonly QueueV1Row[]> {
    const path = `/queue/v1/namespaces/${pathSegment(this.name)}/queues`;
    const answer = await this.#context.transport.send({ method: 'GET', path, signal });
    return arrayIn<QueueV1Row>(answer, objectIn<{ queues?: unknown }>(answer).queues);
  }
}

/**
 * A queue of queue/v1, made by `client.v1(namespace).queue(name)`. Messages of one partition are in the order of their
 * seq. They are read as often as one likes, and are gone when they are committed.
 *
 * Every call rejects with a LaneError: `not_found` when there is no such queue, `conflict` while it is disabled,
 * `bad_request` when a value is out of its bounds.
 *
 * @example
 * const reminders = client.v1('shop').queue<Order>('reminders');
 * await reminders.ensure({ partitions: 6 });
 * await reminders.enqueue({ key: 'customer-42', seq: Date.now(), value: { orderId: 9137 } });
 * await reminders.consume(({ seq, value }) => charge(value.orderId, seq), { until: 'now', signal });
 */
export class QueueV1<T = unknown> {
  /** Its namespace. */
  readonly namespace: string;
  /** The queue's name. */
  readonly name: string;
  readonly #context: ClientContext;
  #enqueuer: Enqueuer | null = null;

  /** @internal */
  constructor(context: ClientContext, namespace: string, name: string) {
    this.#context = context;
    this.namespace = namespace;
    this.name = name;
  }

  /**
   * Creates the queue. Sent once.
   *
   * @throws LaneError `conflict` when there is a queue or table of that name, `bad_request` when there is no such namespace.
   *
   * @example
   * await client.v1('shop').ensure();
   * await client.v1('shop').queue(`reminders-${Date.now()}`).create({ partitions: 6 });
   */
  async create(settings: QueueV1Settings = {}): Promise<QueueV1Description> {
    return objectIn(await this.#create(settings, false));
  }

  /**
   * Creates the queue and its namespace where they do not exist; a queue that does stays as it is. Safe to repeat.
   *
   * @throws LaneError `conflict` when the queue has another number of partitions than is asked for.
   *
   * @example
   * const { partitions } = await client.v1('shop').queue('invoices').ensure({ partitions: 12 });
   */
  async ensure(settings: QueueV1Settings = {}): Promise<QueueV1Description> {
    await new NamespaceV1(this.#context, this.namespace).ensure();
    try {
      return objectIn(await this.#create(settings, true));
    } catch (error) {
      if (!isLaneError(error, 'conflict')) throw error;
    }
    const { partitions } = settings;
    const found = await this.describe();
    if (partitions === undefined || partitions === found.partitions) return found;
    const message = `the queue ${this.name} has ${found.partitions} partitions, not ${partitions}, and keeps them`;
    throw new LaneError({ code: 'conflict', message });
  }

  /**
   * The queue as it was made.
   *
   * @example
   * await client.v1('shop').queue('parcels').ensure();
   * console.log(await client.v1('shop').queue('parcels').describe());
   */
  async describe(options: CallOptions = {}): Promise<QueueV1Description> {
    return objectIn(await this.#call('GET', '', options));
  }

  /**
   * How many partitions it has.
   *
   * @example
   * await client.v1('shop').queue('parcels').ensure();
   * const count = await client.v1('shop').queue('parcels').partitions();
   */
  async partitions(options: CallOptions = {}): Promise<number> {
    return objectIn<QueueV1Description>(await this.#call('GET', '/partitions', options)).partitions;
  }

  /**
   * Takes messages again after `disable`. Safe to repeat.
   *
   * @example
   * await client.v1('shop').queue('parcels').ensure();
   * await client.v1('shop').queue('parcels').enable();
   */
  async enable(): Promise<QueueV1Description> {
    return objectIn(await this.#call('PUT', '/enable'));
  }

  /**
   * Refuses enqueue, poll, commit and purge with `conflict` from now on, and keeps what it holds. Safe to repeat.
   *
   * @example
   * const drafts = client.v1('shop').queue('drafts');
   * await drafts.ensure();
   * await drafts.disable();
   * await drafts.enable();
   */
  async disable(): Promise<QueueV1Description> {
    return objectIn(await this.#call('PUT', '/disable'));
  }

  /**
   * Deletes the queue with its messages. Sent once. @throws LaneError `conflict` while it is enabled.
   *
   * @example
   * const scratch = client.v1('shop').queue('scratch');
   * await scratch.ensure();
   * await scratch.disable();
   * await scratch.delete();
   */
  async delete(): Promise<void> {
    await this.#call('DELETE', '', { repeatable: false });
  }

  /**
   * Removes all messages and resolves with how many there were. Sent once.
   *
   * @example
   * await client.v1('shop').queue('parcels').ensure();
   * const purged = await client.v1('shop').queue('parcels').purge();
   */
  async purge(): Promise<number> {
    return objectIn<{ purged: number }>(await this.#call('DELETE', '/messages', { repeatable: false })).purged;
  }

  /**
   * What it holds, by partition.
   *
   * @example
   * await client.v1('shop').queue('parcels').ensure();
   * console.log(await client.v1('shop').queue('parcels').depth());
   */
  async depth(options: CallOptions = {}): Promise<QueueV1Depth> {
    const answer = await this.#call('GET', '/depth?longs=string', options);
    const body = objectIn<QueueV1Depth>(answer);
    const byPartition = arrayIn<PartitionDepthV1>(answer, body.byPartition).map((row) => ({
      ...row,
      firstSeq: longIn(answer, row.firstSeq),
      lastSeq: longIn(answer, row.lastSeq),
    }));
    return { ...body, byPartition };
  }

  /**
   * Stores messages, up to 1,000, all of them or none. Resolves once they are durable, with the broker's result for each, in
   * their order. Calls that are made on this object while a request is under way travel together in the next one, and are
   * stored in the order in which they were made; each is refused for its own messages only.
   *
   * Sent again after a broken connection or a 5xx only when every message has a dedupId, or nothing can have been stored:
   * `error.outcomeUnknown` says whether it may have been.
   *
   * @throws LaneError `bad_argument` when a seq is not exact or a value is not JSON, `body_too_large` above 256 KiB of a value
   * or 4 MiB in all, `conflict` while the queue is disabled, `storage_full`, …
   *
   * @example
   * const reminders = client.v1('shop').queue<Order>('reminders');
   * await reminders.ensure({ partitions: 6 });
   * const [{ partition, id, status }] = await reminders.enqueue({
   *   key: 'customer-42',
   *   seq: 9007199254740993n,
   *   value: { orderId: 9137 },
   *   dedupId: 'order-9137',
   * });
   */
  enqueue(items: EnqueueItem<T> | readonly EnqueueItem<T>[]): Promise<EnqueueResult[]> {
    this.#enqueuer ??= new Enqueuer(this.#context, this.#path());
    const list = Array.isArray(items) ? (items as readonly EnqueueItem<T>[]) : [items as EnqueueItem<T>];
    return this.#enqueuer.add(list);
  }

  /**
   * A page of a partition. Without `after` it never ends between messages of one seq.
   *
   * @throws LaneError `conflict` when more than 10,000 messages or 16 MiB have one seq: page with `after` then.
   *
   * @example
   * const reminders = client.v1('shop').queue<Order>('reminders');
   * await reminders.ensure({ partitions: 6 });
   * const { messages, offset, watermark } = await reminders.poll(0, { limit: 10 });
   * for (const { value } of messages) await charge(value.orderId);
   * if (offset !== null) await reminders.commit(0, { offset, watermark });
   */
  async poll(partition: number, options: PollOptions = {}): Promise<PageV1<T>> {
    const { offset, after, until, limit, waitMillis = 0, signal } = options;
    const query = queryOf({
      limit,
      offset: offset === undefined ? undefined : longText('offset', offset),
      after: after === undefined ? undefined : `${longText('after.seq', after.seq)},${after.id}`,
      until: until === undefined || until === 'now' ? until : longText('until', until),
      waitMs: waitMillis > 0 ? waitMillis : undefined,
      longs: 'string',
    });
    const answer = await this.#call('GET', `/partitions/${partition}/poll${query}`, {
      signal,
      ...(waitMillis > 0 ? { waiting: true, timeoutMillis: waitMillis + pollGraceMillis } : {}),
    });
    const body = objectIn<PageV1<T>>(answer);
    return {
      messages: arrayIn<MessageV1<T>>(answer, body.messages).map((row) => ({ ...row, seq: longIn(answer, row.seq) })),
      offset: body.offset === null ? null : longIn(answer, body.offset),
      hasNext: body.hasNext,
      watermark: body.watermark,
    };
  }

  /**
   * Removes messages of a partition in one step, and resolves with how many there were. Safe to repeat, and repeated: after a
   * lost answer the number may be 0.
   *
   * @example
   * const parcels = client.v1('shop').queue<Order>('parcels');
   * await parcels.ensure();
   * const page = await parcels.poll(0, { limit: 100 });
   * if (page.offset !== null) await parcels.commit(0, { offset: page.offset, watermark: page.watermark });
   */
  async commit(partition: number, { offset, watermark, id }: CommitPosition): Promise<number> {
    const query = queryOf({ offset: longText('offset', offset), watermark, id });
    const answer = await this.#call('DELETE', `/partitions/${partition}/messages${query}`);
    return objectIn<{ committed: number }>(answer).committed;
  }

  /**
   * Handles messages until it is stopped: of each partition one after the other, of several side by side. What was handled of
   * a page is committed before the next page is read, nothing else is. A message whose handler throws comes again after
   * `retryDelayMillis`, and its partition waits for it. After a crash, what was handled and not committed comes again too.
   * Each partition has a request that waits at the broker.
   *
   * Resolves when it was stopped, by its signal or by `close`: handlers that run end, and what was handled is committed.
   *
   * @throws LaneError `not_found` when the queue does not exist or was deleted, `conflict` when it was disabled,
   * `bad_argument` when `share` leaves it no partition.
   *
   * @example
   * const invoices = client.v1('shop').queue<Order>('invoices');
   * await invoices.ensure({ partitions: 12 });
   * await invoices.consume(({ value }) => charge(value.orderId), { share: { worker: 1, of: 3 }, signal });
   */
  consume(handler: MessageV1Handler<T>, options: ConsumeV1Options = {}): Promise<void> {
    return runConsumerV1(this.#context, this, handler, options);
  }

  #create({ partitions, dedupWindowMillis, storage }: QueueV1Settings, repeatable: boolean): Promise<Answer> {
    return this.#context.transport.send({
      method: 'POST',
      path: `/queue/v1/namespaces/${pathSegment(this.namespace)}/queues`,
      body: {
        queue: this.name,
        storage: storage ?? `datastore://lanemq/${this.name}`,
        partitions,
        dedupWindowMs: dedupWindowMillis,
      },
      repeatable,
    });
  }

  #path(): string {
    return `/queue/v1/namespaces/${pathSegment(this.namespace)}/queues/${pathSegment(this.name)}`;
  }

  #call(method: Call['method'], path: string, more: Partial<Call> = {}): Promise<Answer> {
    const queue = this.#path();
    return this.#context.transport.send({ method, path: queue + path, affinityKey: queue, ...more });
  }
}
