/** A delivered message, and what can be done about it. */
import type { ClientContext } from './context.ts';
import { errorText } from './log.ts';
import type { MessageHeaders, WireMessage } from './wire.ts';

/** What a consumer notes down about a message. */
export interface TraceNote {
  /** Under which names it is found again. */
  readonly traceName: string | readonly string[];
  /** Default `info`. */
  readonly eventType?: string;
  /** Any JSON, at most 64 KiB. */
  readonly data?: unknown;
}

/** One delivered message. `T` is the type of its payload. */
export class Message<T = unknown> {
  /** A UUID of version 7. */
  readonly id: string;
  /** Names the message in its partition. */
  readonly transactionId: string;
  /** A UUID, or null. */
  readonly traceId: string | null;
  /** What the producer pushed, as the schema of the queue gives it when there is one. */
  readonly data: T;
  /** What travels beside the payload; null when there is nothing. */
  readonly headers: MessageHeaders | null;
  /** Who pushed it, where the broker knows users; else null. */
  readonly producerSub: string | null;
  /** ISO time with microseconds; all messages of one push to one partition share it. */
  readonly createdAt: string;
  /** Names the partition in acks; a decimal number as text. */
  readonly partitionId: string;
  /** Name of the partition. */
  readonly partition: string;
  /** One lease covers all messages of one pop; empty with commit on delivery. */
  readonly leaseId: string;
  /** The group; null: queue mode. */
  readonly consumerGroup: string | null;
  /** 1 at the first delivery. */
  readonly deliveryAttempt: number;
  /** Position in the partition, from 0, without gaps. */
  readonly offset: number;
  readonly #context: ClientContext;

  /** @internal */
  constructor(context: ClientContext, wire: WireMessage, data: T) {
    this.#context = context;
    this.id = wire.id;
    this.transactionId = wire.transactionId;
    this.traceId = wire.traceId;
    this.data = data;
    this.headers = wire.headers ?? null;
    this.producerSub = wire.producerSub;
    this.createdAt = wire.createdAt;
    this.partitionId = wire.partitionId;
    this.partition = wire.partition;
    this.leaseId = wire.leaseId;
    this.consumerGroup = wire.consumerGroup;
    this.deliveryAttempt = wire.deliveryAttempt;
    this.offset = wire.offset;
  }

  /**
   * Notes something down about the message, to be found by name or by message later (`client.admin`). Never throws: what
   * goes wrong is logged, and `false` returned.
   *
   * @example
   * await message.trace({ traceName: 'order-9137', data: { step: 'charged' } });
   */
  async trace(note: TraceNote): Promise<boolean> {
    const { traceName, eventType = 'info', data } = note;
    const { transactionId, partitionId, consumerGroup } = this;
    const traceNames = typeof traceName === 'string' ? [traceName] : traceName;
    const body = { transactionId, partitionId, consumerGroup, traceNames, eventType, data };
    try {
      await this.#context.transport.send({ method: 'POST', path: '/api/v1/traces', body, repeatable: false });
      return true;
    } catch (error) {
      this.#context.log.warn('trace.failed', { transactionId, error: errorText(error) });
      return false;
    }
  }
}
