/**
 * What the edges (HTTP, tests, tools) may ask of a running broker. One object implements it: the shard.
 *
 * Every call answers through a `Reply`, in two steps. `encode` runs synchronously while the outcome's bytes are valid:
 * make the answer's bytes there and keep them. `send` runs later, once everything the outcome saw is durable; only
 * then may the answer leave. With a failure, `send` gets a refusal (also after `encode`, whose bytes are then dropped).
 */

import type { QueueOptions } from '@lanemq/protocol';
import type {
  AckItems,
  AckOutcome,
  BrokerIdentity,
  ExtendOutcome,
  PopOutcome,
  PushItems,
  PushOutcome,
  Refusal,
} from '../core/mod.ts';
import type { Views } from './browse-views.ts';
import type { DeadLetterChanges } from './dead-letter-changes.ts';
import type { DueEngine } from './due-engine.ts';
import type { EdgeQueues } from './edge-queues.ts';
import type { EdgeTables } from './edge-tables.ts';
import type { GroupEngine } from './group-engine.ts';
import type { OffsetReader } from './read-requests.ts';
import type { ConfiguredQueue, DeadLetterPage, PartitionPage, QueueDetail } from './views.ts';

export interface Reply<Outcome> {
  encode(outcome: Outcome): void;
  /** Exactly once. */
  send(failure: Refusal | null): void;
}

export interface PopRequest {
  readonly target:
    | { readonly kind: 'queue'; readonly queue: string }
    | { readonly kind: 'partition'; readonly queue: string; readonly partition: string }
    | { readonly kind: 'discover'; readonly namespace: string | null; readonly task: string | null };
  /** `__QUEUE_MODE__` when the request named none. */
  readonly group: string;
  /** null = not sent. */
  readonly batch: number | null;
  readonly partitions: number | null;
  readonly wait: boolean;
  readonly timeoutMs: number;
  readonly leaseSeconds: number | null;
  readonly subscriptionMode: 'new' | 'all';
  /** Microseconds; null = none was sent or it could not be read. 'now' = the moment of registration. */
  readonly subscriptionFrom: number | 'now' | null;
  readonly commitOnDelivery: boolean;
  readonly conflation: boolean;
  readonly autopilot: boolean;
}

export interface ConfigureRequest {
  readonly queue: string;
  readonly namespace: string | null;
  readonly task: string | null;
  readonly mode: 'merge' | 'replace';
  /** null = back to its default; a missing key keeps (merge) or resets (replace). */
  readonly options: { readonly [K in keyof QueueOptions]?: QueueOptions[K] | null };
}

export interface DeleteQueueOutcome {
  readonly existed: boolean;
}

export interface HealthReport {
  readonly state: 'settling' | 'healthy' | 'failed' | 'stopping';
  readonly detail: string;
  readonly epoch: number;
  readonly sequence: number;
  readonly durableSequence: number;
  readonly storageReady: boolean;
}

export interface Engine {
  readonly identity: BrokerIdentity;
  push(items: PushItems, reply: Reply<PushOutcome>): void;
  /** The result cancels the pop: a parked one ends unanswered, a claim not yet sent is handed back. */
  pop(request: PopRequest, reply: Reply<PopOutcome>): () => void;
  ack(group: string, items: AckItems, reply: Reply<AckOutcome>): void;
  /** `leaseStamp` as `parseId` gives it for the id; −1 when the text is no id of this broker. */
  extendLease(leaseStamp: number, seconds: number, reply: Reply<ExtendOutcome>): void;
  configureQueue(request: ConfigureRequest, reply: Reply<ConfiguredQueue>): void;
  deleteQueue(queue: string, reply: Reply<DeleteQueueOutcome>): void;
  queueDetail(queue: string, reply: Reply<QueueDetail | null>, page?: PartitionPage): void;
  /** What consoles and operators look at, and traces. */
  readonly views: Views;
  /** Newest failure first. */
  deadLetters(
    filter: { queue: string | null; group: string | null; limit: number; offset: number },
    reply: Reply<DeadLetterPage>,
  ): void;
  /** queue/v1. */
  readonly edgeQueues: EdgeQueues;
  /** Databases and edge tables. */
  readonly edgeTables: EdgeTables;
  readonly groups: GroupEngine;
  /** Messages that wait for their time. */
  readonly due: DueEngine;
  /** Reads by offset. */
  readonly reads: OffsetReader;
  /** Replay, delete, purge and redrive of dead letters. */
  readonly deadLetterChanges: DeadLetterChanges;
  health(): HealthReport;
  metrics(): Readonly<Record<string, number>>;
}
