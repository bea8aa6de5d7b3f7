/** The door of the client: one broker address, its queues, and what concerns messages whatever their queue. */
import {
  type AckContext,
  type AckOutcome,
  ackMessages,
  type ConfigureSettings,
  configureQueue,
  type DeadLetterFilter,
  deleteGroup,
  deleteQueue,
  extendLease,
  listDeadLetters,
  listQueues,
  type QueueOptionChanges,
  type SeekTarget,
  seekGroup,
  startGroupFrom,
} from './calls.ts';
import { LaneQueue } from './queue.ts';
import { type LaneClientOptions, Transport } from './transport.ts';
import type {
  AckStatus,
  DeadLetterPage,
  ExtendResult,
  GroupDeletion,
  GroupStart,
  Message,
  QueueConfiguration,
  QueueDeletion,
  QueueRow,
  SeekResult,
} from './wire.ts';

/**
 * A client of one broker. It holds no connection of its own (the host's fetch does) and needs no closing.
 *
 * @example
 * const client = new LaneClient({ url: 'http://127.0.0.1:6632' });
 * await client.queue('orders').partition('customer-42').push({ orderId: 9137 });
 */
export class LaneClient {
  readonly #transport: Transport;

  /** @throws LaneError `bad_argument` when an option is out of its bounds. */
  constructor(options: LaneClientOptions | string) {
    this.#transport = new Transport(typeof options === 'string' ? { url: options } : options);
  }

  /** A queue by name; nothing is sent. `T` is the type of its payloads. */
  queue<T = unknown>(name: string): LaneQueue<T> {
    return new LaneQueue<T>(this.#transport, name, null, null);
  }

  /**
   * Settles messages. `completed` (or true) settles a message and everything before it in its partition; `failed`
   * (or false) returns it and charges a retry; `retry` returns it free of charge; `dlq` files it as a dead letter.
   * A refusal of single messages is in the outcome, not thrown.
   *
   * @throws LaneError `bad_argument` when the messages are of two groups.
   */
  ack(
    messages: Message | readonly Message[],
    status: AckStatus | boolean = 'completed',
    context: AckContext = {},
  ): Promise<AckOutcome> {
    const list = Array.isArray(messages) ? (messages as readonly Message[]) : [messages as Message];
    return ackMessages(this.#transport, list, status, context);
  }

  /** Makes a lease end `seconds` from now at the earliest, in all partitions it covers. Never shortens it. */
  extend(lease: Message | string, seconds = 60): Promise<ExtendResult> {
    return extendLease(this.#transport, typeof lease === 'string' ? lease : lease.leaseId, seconds);
  }

  /** As {@link LaneQueue.configure}. */
  configure(
    queue: string,
    options: QueueOptionChanges = {},
    settings: ConfigureSettings = {},
  ): Promise<QueueConfiguration> {
    return configureQueue(this.#transport, queue, options, settings);
  }

  /** As {@link LaneQueue.delete}. */
  deleteQueue(queue: string): Promise<QueueDeletion> {
    return deleteQueue(this.#transport, queue);
  }

  /** Deletes a group from all queues; without `deleteMetadata` its positions only, and it starts again as it first did. */
  deleteConsumerGroup(group: string, deleteMetadata = true): Promise<GroupDeletion> {
    return deleteGroup(this.#transport, group, null, deleteMetadata);
  }

  /** The same on one queue. */
  deleteConsumerGroupForQueue(group: string, queue: string, deleteMetadata = true): Promise<GroupDeletion> {
    return deleteGroup(this.#transport, group, queue, deleteMetadata);
  }

  /** Makes a registered group start from an ISO time wherever it has no position yet. */
  updateConsumerGroupTimestamp(group: string, timestamp: string): Promise<GroupStart> {
    return startGroupFrom(this.#transport, group, timestamp);
  }

  /** Moves a group in every partition of a queue. Safe to repeat. */
  seekConsumerGroup(group: string, queue: string, target: SeekTarget): Promise<SeekResult> {
    return seekGroup(this.#transport, group, queue, null, target);
  }

  /** All queues, newest first. */
  listQueues(): Promise<QueueRow[]> {
    return listQueues(this.#transport);
  }

  /** Dead letters of all queues, or of those the filter names; newest failure first. */
  deadLetters<T = unknown>(filter: DeadLetterFilter = {}): Promise<DeadLetterPage<T>> {
    return listDeadLetters<T>(this.#transport, filter);
  }
}
