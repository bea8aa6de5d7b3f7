/** A queue as the client sees it: a name, and optionally one partition and one group of it. Holds no state. */
import {
  type ConfigureSettings,
  configureQueue,
  type DeadLetterFilter,
  deleteQueue,
  listDeadLetters,
  type PopOptions,
  type PushItem,
  popMessages,
  purgeDeadLetters,
  pushItems,
  type QueueOptionChanges,
  type RedriveOptions,
  type ReplayTarget,
  redriveDeadLetters,
  replayDeadLetter,
} from './calls.ts';
import { type BatchHandler, type ConsumeOptions, type MessageHandler, runConsumer } from './consumer.ts';
import type { Transport } from './transport.ts';
import type {
  DeadLetterPage,
  Message,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  Redrive,
  ReplayResult,
} from './wire.ts';

/**
 * Made by {@link LaneClient.queue}. `T` is the type of its payloads.
 *
 * @example
 * const orders = client.queue<Order>('orders');
 * await orders.partition('customer-42').push({ orderId: 9137 });
 * await orders.group('billing').consume((order) => charge(order.data), { each: true, signal });
 */
export class LaneQueue<T = unknown> {
  readonly name: string;
  /** null: pushes go to `Default`, pops look at every partition. */
  readonly partitionName: string | null;
  /** null: the queue's default group. */
  readonly groupName: string | null;
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport, name: string, partitionName: string | null, groupName: string | null) {
    this.#transport = transport;
    this.name = name;
    this.partitionName = partitionName;
    this.groupName = groupName;
  }

  /** The same queue, narrowed to one partition. */
  partition(name: string): LaneQueue<T> {
    return new LaneQueue<T>(this.#transport, this.name, name, this.groupName);
  }

  /** The same queue, as one consumer group sees it. */
  group(name: string): LaneQueue<T> {
    return new LaneQueue<T>(this.#transport, this.name, this.partitionName, name);
  }

  /**
   * Stores messages in one partition, all of them in one step. Resolves once they are durable; an item whose
   * transactionId the partition already holds answers `duplicate` and is not stored again.
   * A value without a `payload` or `data` key is itself the payload.
   *
   * @throws LaneError `items_refused` when the broker stored only some, `storage_full`, `queue_full`, `name_too_long`, …
   */
  push(
    items: T | PushItem<T> | readonly (T | PushItem<T>)[],
    options: { signal?: AbortSignal } = {},
  ): Promise<PushResult[]> {
    const list = Array.isArray(items) ? (items as readonly (T | PushItem<T>)[]) : [items as T | PushItem<T>];
    return pushItems<T>(this.#transport, this.name, this.partitionName, list, options.signal);
  }

  /**
   * Leases messages: they are this caller's until it acks them or the lease ends. Waits up to 30 s unless told
   * otherwise; an empty array means that there was nothing.
   */
  pop(options: PopOptions = {}): Promise<Message<T>[]> {
    return popMessages<T>(this.#transport, this.#target(), options);
  }

  /**
   * Pops and handles until the signal fires. A handler that returns acks its messages, one that throws fails them with
   * the error's text; on a stop, what was fetched but not handled is given back.
   *
   * @throws LaneError when the broker refuses for good; a broker out of reach is waited for.
   */
  consume(handler: MessageHandler<T>, options: ConsumeOptions & { readonly each: true }): Promise<void>;
  consume(handler: BatchHandler<T>, options?: ConsumeOptions & { readonly each?: false }): Promise<void>;
  consume(handler: MessageHandler<T> | BatchHandler<T>, options: ConsumeOptions = {}): Promise<void> {
    return runConsumer<T>(this.#transport, this.#target(), handler, options);
  }

  /** Creates the queue or changes its options and labels. */
  configure(options: QueueOptionChanges = {}, settings: ConfigureSettings = {}): Promise<QueueConfiguration> {
    return configureQueue(this.#transport, this.name, options, settings);
  }

  /** Deletes the queue with its partitions, groups and dead letters. Deleting what is not there is no error. */
  delete(): Promise<QueueDeletion> {
    return deleteQueue(this.#transport, this.name);
  }

  /** Dead letters of the queue, and of the group when one was named; newest failure first. */
  deadLetters(page: Pick<DeadLetterFilter, 'limit' | 'offset'> = {}): Promise<DeadLetterPage<T>> {
    const group = this.groupName === null ? {} : { group: this.groupName };
    return listDeadLetters<T>(this.#transport, { queue: this.name, ...group, ...page });
  }

  /** Pushes a dead letter's payload again and removes the dead letter, in one step. */
  replayDeadLetter(id: string, target: ReplayTarget = {}): Promise<ReplayResult> {
    return replayDeadLetter(this.#transport, id, target);
  }

  /** Deletes the dead letters of the queue, or of the group when one was named; resolves with how many. */
  purgeDeadLetters(): Promise<number> {
    return purgeDeadLetters(this.#transport, this.name, this.groupName);
  }

  /** Counts the dead letters that {@link redrive} would replay. */
  async countRedrive(options: RedriveOptions = {}): Promise<number> {
    const { name, groupName } = this;
    const answer = await redriveDeadLetters<{ matched: number }>(this.#transport, name, groupName, options, true);
    return answer.matched;
  }

  /** Has the broker replay many dead letters, oldest failure first; resolves when that has begun. */
  async redrive(options: RedriveOptions = {}): Promise<Redrive> {
    const { redrive } = await redriveDeadLetters<{ redrive: Redrive }>(
      this.#transport,
      this.name,
      this.groupName,
      options,
      false,
    );
    return redrive;
  }

  #target() {
    return { queue: this.name, partition: this.partitionName, group: this.groupName };
  }
}
