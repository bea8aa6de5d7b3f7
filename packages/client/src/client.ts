/** The door of the client: a broker's addresses, its queues, and what concerns messages whatever their queue. */
import {
  type Ackable,
  type AckContext,
  type AckOutcome,
  ackMessages,
  type RenewOutcome,
  renewLease,
  type SingleAckOutcome,
} from './ack.ts';
import { Admin } from './admin.ts';
import { BufferManager, type BufferStats } from './buffer.ts';
import { type LaneClientConfig, readClientConfig } from './client-options.ts';
import type { ClientContext } from './context.ts';
import { LaneError } from './errors.ts';
import { environmentVariable, signalHandlers } from './host.ts';
import { Log } from './log.ts';
import { sendItems } from './push.ts';
import { QueueBuilder } from './queue-builder.ts';
import { NamespaceV1 } from './queue-v1.ts';
import type { StandardSchema } from './schema.ts';
import { Tracing } from './tracing.ts';
import { Transport } from './transport.ts';
import type { AckStatus, GroupDeletion, GroupStart } from './wire.ts';

const closeDeadlineMillis = 30_000;

/**
 * A client of one broker, at one address or several.
 *
 * @example
 * const client = new LaneClient('http://127.0.0.1:6632');
 * await client.queue('orders').partition('customer-42').push({ orderId: 9137 });
 * await client.close();
 */
export class LaneClient {
  /** The routes for operators. */
  readonly admin: Admin;
  readonly #context: ClientContext;
  /** What close waits for, with what asks it to end. */
  readonly #running = new Map<Promise<void>, () => void>();
  readonly #closeOnSignal = () => this.close();
  #handlesSignals: boolean;
  #closing: Promise<void> | null = null;

  /**
   * @param config the broker's address, several, or all options.
   * @throws LaneError `bad_argument` when an option is out of its bounds.
   */
  constructor(config: LaneClientConfig) {
    const settings = readClientConfig(config);
    const log = new Log(settings.logger, settings.structuredLogs);
    const transport = new Transport(settings, log);
    const context: ClientContext = {
      transport,
      log,
      tracing: settings.tracing === null ? null : new Tracing(settings.tracing),
      buffers: new BufferManager(
        (items, signal) => sendItems(context, items, signal),
        log,
        () => this.#watchSignals(),
      ),
      autopilotDefault: !['off', 'false', '0'].includes(environmentVariable('QUEEN_SDK_POP_AUTOPILOT') ?? ''),
      warnedConflicts: new Set(),
      track: (stop) => this.#track(stop),
    };
    this.#context = context;
    this.admin = new Admin(transport);
    this.#handlesSignals = settings.handleSignals;
  }

  /**
   * A queue by name; nothing is sent. `T` is the type of its payloads. With a `schema` (Standard Schema: Zod, Valibot,
   * ArkType, …) pushed payloads are checked before they are sent, and handlers get what the schema makes of them.
   *
   * @example
   * const orders = client.queue('orders', { schema: orderSchema });
   */
  queue<T = unknown>(name: string): QueueBuilder<T>;
  queue<In, Out>(name: string, options: { readonly schema: StandardSchema<In, Out> }): QueueBuilder<In, Out>;
  queue(name: string, options: { readonly schema?: StandardSchema } = {}): QueueBuilder {
    return new QueueBuilder(this.#context, name, options.schema ?? null);
  }

  /**
   * A namespace of queue/v1, the second contract: queues with a fixed number of partitions, sorted by a number of the
   * producer's, with commits in place of leases. Nothing is sent.
   *
   * @example
   * const reminders = client.v1('shop').queue<Order>('reminders');
   */
  v1(namespace: string): NamespaceV1 {
    return new NamespaceV1(this.#context, namespace);
  }

  /**
   * Settles messages. `completed` (or true) settles a message and everything before it in its partition; `failed`
   * (or false) returns it and charges a retry; `retry` returns it free of charge; `dlq` files it as a dead letter.
   * A refusal of single messages is in the outcome, not thrown. Safe to repeat, and repeated like a push.
   *
   * @throws LaneError `bad_argument` when a message has no partitionId or transactionId, or the messages are of two groups.
   *
   * @example
   * const [message] = await client.queue('orders').group('billing').pop();
   * const { success, error } = await client.ack(message, 'failed', { error: 'card declined' });
   */
  ack(message: Ackable, status?: AckStatus | boolean, context?: AckContext): Promise<SingleAckOutcome>;
  ack(messages: readonly Ackable[], status?: AckStatus | boolean, context?: AckContext): Promise<AckOutcome>;
  async ack(
    messages: Ackable | readonly Ackable[],
    status: AckStatus | boolean = 'completed',
    context: AckContext = {},
  ): Promise<SingleAckOutcome | AckOutcome> {
    const isList = Array.isArray(messages);
    const list = isList ? (messages as readonly Ackable[]) : [messages as Ackable];
    const outcome = await ackMessages(this.#context.transport, list, status, context);
    if (isList) return outcome;
    const { error, ...fields } = outcome.results[0];
    return error === null ? fields : { ...fields, error };
  }

  /**
   * Makes leases end `seconds` from now at the earliest, in all partitions they cover; never shortens one. One request per
   * lease. Never throws: what went wrong is in the outcome.
   *
   * @example
   * const { success, newExpiresAt } = await client.renew(message, 120);
   */
  renew(lease: Ackable | string, seconds?: number): Promise<RenewOutcome>;
  renew(leases: readonly (Ackable | string)[], seconds?: number): Promise<RenewOutcome[]>;
  async renew(
    leases: Ackable | string | readonly (Ackable | string)[],
    seconds = 60,
  ): Promise<RenewOutcome | RenewOutcome[]> {
    const list = (Array.isArray(leases) ? leases : [leases]) as readonly (Ackable | string)[];
    const ids = new Set(list.map((lease) => (typeof lease === 'string' ? lease : (lease.leaseId ?? ''))));
    const outcomes = await Promise.all([...ids].map((id) => renewLease(this.#context.transport, id, seconds)));
    return Array.isArray(leases) ? outcomes : outcomes[0];
  }

  /**
   * Resolves when what is in all buffers was sent.
   *
   * @example
   * await client.flushAllBuffers();
   */
  flushAllBuffers(): Promise<void> {
    return this.#context.buffers.flushAll();
  }

  /**
   * What is in the buffers.
   *
   * @example
   * const { totalBufferedMessages } = client.getBufferStats();
   */
  getBufferStats(): BufferStats {
    return this.#context.buffers.stats();
  }

  /**
   * Deletes a group from all queues; without `deleteMetadata` its positions only, and it starts again as it first did.
   *
   * @example
   * await client.deleteConsumerGroup('reports');
   */
  deleteConsumerGroup(group: string, deleteMetadata = true): Promise<GroupDeletion> {
    return this.admin.deleteConsumerGroup(group, deleteMetadata);
  }

  /**
   * Makes a registered group start from an ISO time wherever it has no position yet.
   *
   * @example
   * await client.updateConsumerGroupTimestamp('billing', '2026-01-31T12:00:00Z');
   */
  updateConsumerGroupTimestamp(group: string, timestamp: string): Promise<GroupStart> {
    return this.admin.updateConsumerGroupTimestamp(group, timestamp);
  }

  /**
   * On SIGINT and SIGTERM close this client first. On by default.
   *
   * @example
   * client.enableGracefulShutdown();
   * client.disableGracefulShutdown();
   */
  enableGracefulShutdown(): void {
    this.#handlesSignals = true;
    this.#watchSignals();
  }

  /**
   * Leave signals alone.
   *
   * @example
   * client.disableGracefulShutdown();
   */
  disableGracefulShutdown(): void {
    this.#handlesSignals = false;
    signalHandlers.remove(this.#closeOnSignal);
  }

  /**
   * Ends everything well: consumers let their handlers end, settle them and give back the rest; buffers are sent. Waits at
   * most 30 s for each. Later calls are refused with `closed`.
   *
   * @throws LaneError `closed` when messages were left in buffers that could not be sent in time.
   *
   * @example
   * const client = new LaneClient('http://127.0.0.1:6632');
   * await client.close();
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    for (const stop of this.#running.values()) stop();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, closeDeadlineMillis);
    });
    await Promise.race([Promise.all(this.#running.keys()), deadline]);
    clearTimeout(timer);
    const left = await this.#context.buffers.close(closeDeadlineMillis);
    this.#context.transport.close();
    signalHandlers.remove(this.#closeOnSignal);
    if (left === 0) return;
    throw new LaneError({ code: 'closed', message: `${left} buffered messages could not be sent in time` });
  }

  /** From the first consumer or buffered push on: before that there is nothing that a signal could lose. */
  #watchSignals(): void {
    if (this.#handlesSignals && this.#closing === null) signalHandlers.add(this.#closeOnSignal);
  }

  #track(stop: () => void): () => void {
    this.#watchSignals();
    if (this.#closing !== null) stop();
    let end!: () => void;
    const work = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#running.set(work, stop);
    return () => {
      this.#running.delete(work);
      end();
    };
  }
}
