/** A queue as the client sees it: a name, and optionally one partition and one group of it. Holds no state. */
import {
  type ConfigureSettings,
  changeDue,
  changedPartitions,
  configureQueue,
  type DeadLetterFilter,
  type DueFilter,
  type DueTime,
  deleteQueue,
  type FetchEntry,
  type FetchOptions,
  fetchOffsets,
  fetchRecords,
  listDeadLetters,
  listDue,
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
  type SeekTarget,
  seekGroup,
  setPaused,
} from './calls.ts';
import { type BatchHandler, type ConsumeOptions, type MessageHandler, runConsumer } from './consumer.ts';
import { LaneError } from './errors.ts';
import type { Transport } from './transport.ts';
import type {
  ChangedPartition,
  DeadLetterPage,
  DueChange,
  DuePage,
  FetchedPartition,
  FoundOffset,
  Message,
  PauseResult,
  PushResult,
  QueueConfiguration,
  QueueDeletion,
  Redrive,
  ReplayResult,
  SeekResult,
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

  /**
   * Reads partitions from offsets on, one call. Takes no lease and moves no position. Read on from the last offset + 1
   * until the high watermark; an entry that cannot be answered carries `error`.
   */
  fetch(entries: readonly FetchEntry[], options: FetchOptions = {}): Promise<FetchedPartition<T>[]> {
    return fetchRecords<T>(this.#transport, this.name, entries, options);
  }

  /** The first record of each partition at or after a time: epoch milliseconds or ISO. */
  fetchOffsets(
    entries: readonly { readonly partition?: string; readonly timestamp: number | string }[],
  ): Promise<FoundOffset[]> {
    return fetchOffsets(this.#transport, this.name, entries);
  }

  /**
   * Partitions written since a time, all of them when there is none. Give `safeTime` as the next `since`: no write is
   * missed between the two.
   *
   * @throws LaneError `not_found` when there is no such queue.
   */
  changedPartitions(since: string | null = null): Promise<{ partitions: ChangedPartition[]; safeTime: string }> {
    return changedPartitions(this.#transport, this.name, since);
  }

  /**
   * Moves the group, in one partition when one was named, else in all. Safe to repeat.
   *
   * @throws LaneError `bad_argument` when no group was named.
   */
  seek(target: SeekTarget): Promise<SeekResult> {
    if (this.groupName !== null) {
      return seekGroup(this.#transport, this.groupName, this.name, this.partitionName, target);
    }
    return Promise.reject(
      new LaneError({ code: 'bad_argument', message: 'name the group to seek: queue.group(name)' }),
    );
  }

  /** Stops delivering: of the partition or to the group that was named, else of the whole queue. Pushes go on. */
  pause(): Promise<PauseResult> {
    return setPaused(this.#transport, this.#target(), true);
  }

  /** Ends a pause of the same thing. */
  resume(): Promise<PauseResult> {
    return setPaused(this.#transport, this.#target(), false);
  }

  /** Creates the queue or changes its options and labels. */
  configure(options: QueueOptionChanges = {}, settings: ConfigureSettings = {}): Promise<QueueConfiguration> {
    return configureQueue(this.#transport, this.name, options, settings);
  }

  /** Deletes the queue with its partitions, groups and dead letters. Deleting what is not there is no error. */
  delete(): Promise<QueueDeletion> {
    return deleteQueue(this.#transport, this.name);
  }

  /** Messages that wait for their time, in the partition when one was named, else in the queue; the earliest first. */
  due(filter: DueFilter = {}): Promise<DuePage> {
    return listDue(this.#transport, this.name, this.partitionName, filter);
  }

  /**
   * Gives a message that waits another time. `id` is its message id; when a partition was named, its transactionId will
   * do as well.
   *
   * @throws LaneError `not_waiting` when its time has come or it was cancelled, `not_found`.
   */
  moveDue(id: string, time: DueTime): Promise<DueChange> {
    return changeDue(this.#transport, this.name, this.partitionName, id, time);
  }

  /** Cancels a message that waits: it is never delivered. Names and errors as with `moveDue`; safe to repeat. */
  cancelDue(id: string): Promise<DueChange> {
    return changeDue(this.#transport, this.name, this.partitionName, id, null);
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
