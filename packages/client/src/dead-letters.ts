/** What groups gave up on: read it, push it again, delete it. */
import { arrayIn, objectIn, pathSegment, queryOf } from './answers.ts';
import type { ClientContext } from './context.ts';
import { type StandardSchema, validated } from './schema.ts';
import type { DeadLetter, DeadLetterPage, Redrive, ReplayResult } from './wire.ts';

/** Another destination of a replay; what is left out stays the message's own. */
export interface ReplayTarget {
  /** Name of the queue. */
  readonly queue?: string;
  /** Name of the partition. */
  readonly partition?: string;
}

/** Which dead letters a redrive takes, and how. */
export interface RedriveOptions {
  /** Part of the error text. */
  readonly error?: string;
  /** Bounds of the time of failure, inclusive, ISO-8601. */
  readonly from?: string;
  /** Failed at this time or earlier. */
  readonly to?: string;
  /** Most messages to move, from 1. */
  readonly max?: number;
  /** Messages per second, from 1. Default: as fast as it goes. */
  readonly perSecond?: number;
  /** Default: where they came from. */
  readonly destination?: ReplayTarget;
}

interface PageSettings {
  readonly limit: number;
  readonly offset: number;
  readonly from: string | null;
  readonly to: string | null;
}

const firstPage: PageSettings = { limit: 100, offset: 0, from: null, to: null };

/**
 * The dead letters of a queue, or of one group on it. Made by `queue(name).dlq(group?)`.
 *
 * @example
 * const { messages, total } = await client.queue('orders').dlq('billing').limit(10).get();
 * for (const { data, errorMessage } of messages) console.log(total, data, errorMessage);
 */
export class DeadLetterQueue<T = unknown> {
  readonly #context: ClientContext;
  readonly #queue: string;
  readonly #partition: string | null;
  readonly #group: string | null;
  readonly #schema: StandardSchema | null;
  readonly #page: PageSettings;

  /** @internal */
  constructor(
    context: ClientContext,
    place: { readonly queue: string; readonly partition: string | null; readonly group: string | null },
    schema: StandardSchema | null,
    page: PageSettings = firstPage,
  ) {
    this.#context = context;
    this.#queue = place.queue;
    this.#partition = place.partition;
    this.#group = place.group;
    this.#schema = schema;
    this.#page = page;
  }

  /**
   * Size of the page, 1 to 1,000. Default 100.
   *
   * @example
   * const { messages } = await client.queue('orders').dlq('billing').limit(50).get();
   */
  limit(count: number): DeadLetterQueue<T> {
    return this.#with({ limit: count });
  }

  /**
   * Rows to skip. Default 0.
   *
   * @example
   * const { messages } = await client.queue('orders').dlq('billing').offset(50).get();
   */
  offset(count: number): DeadLetterQueue<T> {
    return this.#with({ offset: count });
  }

  /**
   * Failed at this time or later, ISO-8601. Sent; the broker of this release does not look at it.
   *
   * @example
   * const { messages } = await client.queue('orders').dlq('billing').from('2026-01-31T12:00:00Z').get();
   */
  from(time: string): DeadLetterQueue<T> {
    return this.#with({ from: time });
  }

  /**
   * Failed at this time or earlier, ISO-8601. Sent; the broker of this release does not look at it.
   *
   * @example
   * const { messages } = await client.queue('orders').dlq('billing').to('2026-01-31T12:00:00Z').get();
   */
  to(time: string): DeadLetterQueue<T> {
    return this.#with({ to: time });
  }

  /**
   * A page, newest failure first; `total` counts all that match.
   *
   * @throws LaneError `bad_payload` when the queue has a schema and a payload does not pass it.
   *
   * @example
   * const { messages, total } = await client.queue<Order>('orders').dlq('billing').get();
   */
  async get(): Promise<DeadLetterPage<T>> {
    const query = queryOf({
      queue: this.#queue,
      consumerGroup: this.#group,
      partition: this.#partition,
      ...this.#page,
    });
    const answer = await this.#context.transport.send({ method: 'GET', path: `/api/v1/dlq${query}` });
    const page = objectIn<DeadLetterPage<T>>(answer);
    const messages: DeadLetter<T>[] = [];
    for (const row of arrayIn<DeadLetter<T>>(answer, page.messages)) {
      const data = this.#schema === null ? row.data : ((await validated(this.#schema, row.data)) as T);
      messages.push({ ...row, data });
    }
    return { messages, total: page.total };
  }

  /**
   * Pushes a dead letter's payload again and removes the dead letter, in one step. Sent once: when its outcome is unknown,
   * look whether the dead letter is still there. `id` is that of a row of `get()`.
   *
   * @throws LaneError with status 404 when there is none, 409 when the push was refused.
   *
   * @example
   * await client.ack(message, 'dlq');
   * const letters = client.queue('orders').dlq('examples');
   * const { messages } = await letters.get();
   * await letters.replay(messages[0].id);
   */
  async replay(id: string, target: ReplayTarget = {}): Promise<ReplayResult> {
    const path = `/api/v1/dlq/${pathSegment(id)}/replay`;
    return objectIn(await this.#context.transport.send({ method: 'POST', path, body: target, repeatable: false }));
  }

  /**
   * Deletes all of them; resolves with how many.
   *
   * @example
   * const purged = await client.queue('orders').dlq('billing').purge();
   */
  async purge(): Promise<number> {
    const query = queryOf({ queue: this.#queue, consumerGroup: this.#group });
    const answer = await this.#context.transport.send({ method: 'DELETE', path: `/api/v1/dlq${query}` });
    return objectIn<{ deleted: number }>(answer).deleted;
  }

  /**
   * Counts those that {@link redrive} would replay; nothing is changed.
   *
   * @example
   * const count = await client.queue('orders').dlq('billing').countRedrive();
   */
  async countRedrive(options: RedriveOptions = {}): Promise<number> {
    return (await this.#redrive<{ matched: number }>(options, true)).matched;
  }

  /**
   * Has the broker replay many, oldest failure first; resolves when that has begun. `client.admin.getRedrive` tells how far
   * it is. Sent once.
   *
   * @throws LaneError `retry` when too many run already.
   *
   * @example
   * const { id } = await client.queue('orders').dlq('billing').redrive({ max: 100 });
   */
  async redrive(options: RedriveOptions = {}): Promise<Redrive> {
    return (await this.#redrive<{ redrive: Redrive }>(options, false)).redrive;
  }

  async #redrive<Answer>(options: RedriveOptions, dryRun: boolean): Promise<Answer> {
    const body = { ...options, queue: this.#queue, consumerGroup: this.#group, dryRun };
    const call = { method: 'POST', path: '/api/v1/dlq/redrive', body, repeatable: dryRun } as const;
    return objectIn<Answer>(await this.#context.transport.send(call));
  }

  #with(changes: Partial<PageSettings>): DeadLetterQueue<T> {
    const place = { queue: this.#queue, partition: this.#partition, group: this.#group };
    return new DeadLetterQueue<T>(this.#context, place, this.#schema, { ...this.#page, ...changes });
  }
}
