/** What operators ask and change: `client.admin`. One method per route; figures are handed out as they come. */
import { objectIn, pathSegment, queryOf } from './answers.ts';
import { LaneError } from './errors.ts';
import { deleteGroup, groupPath, type SeekTarget, seekGroup, startGroupFrom } from './groups.ts';
import type { Transport } from './transport.ts';
import type {
  GroupDeletion,
  GroupRow,
  GroupStart,
  LaggingPartition,
  MessageList,
  MessageRow,
  QueueDepth,
  QueueRow,
  Redrive,
  ReplayResult,
  SeekResult,
  TraceList,
} from './wire.ts';

/** Parameters of a list, as its route has them (docs/api.md); what is undefined is not sent. */
export type ListParameters = Readonly<Record<string, string | number | boolean | undefined>>;

/** An answer whose fields are told in docs/api.md. */
export type Figures = Readonly<Record<string, unknown>>;

/** How the broker is. `status` is `healthy` when it takes writes. */
export interface Health {
  /** What becomes of it. */
  readonly status: string;
  readonly [field: string]: unknown;
}

/**
 * The routes for operators. Every call rejects with a LaneError: `not_found` when what is named does not exist,
 * `no_such_route` when the broker does not have the route.
 *
 * @example
 * const { pending } = await client.admin.getQueueDepth('orders', 'billing');
 * const lagging = await client.admin.getLaggingConsumers(300);
 */
export class Admin {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Sums over everything.
   *
   * @example
   * console.log(await client.admin.getOverview());
   */
  getOverview(): Promise<Figures> {
    return this.#get('/api/v1/resources/overview');
  }

  /**
   * Queues, partitions and messages by namespace.
   *
   * @example
   * const { namespaces } = await client.admin.getNamespaces();
   */
  getNamespaces(parameters: ListParameters = {}): Promise<{ readonly namespaces: readonly Figures[] }> {
    return this.#get('/api/v1/resources/namespaces', parameters);
  }

  /**
   * The same by task.
   *
   * @example
   * const { tasks } = await client.admin.getTasks();
   */
  getTasks(parameters: ListParameters = {}): Promise<{ readonly tasks: readonly Figures[] }> {
    return this.#get('/api/v1/resources/tasks', parameters);
  }

  /**
   * All queues, newest first.
   *
   * @example
   * const { queues } = await client.admin.listQueues({ limit: 100 });
   */
  listQueues(parameters: ListParameters = {}): Promise<{ readonly queues: readonly QueueRow[] }> {
    return this.#get('/api/v1/resources/queues', parameters);
  }

  /**
   * One queue with its options and partitions.
   *
   * @example
   * console.log(await client.admin.getQueue('orders'));
   */
  getQueue(name: string, parameters: ListParameters = {}): Promise<Figures> {
    return this.#get(`/api/v1/resources/queues/${pathSegment(name)}`, parameters);
  }

  /**
   * Partitions over queues. The broker of this release has them with their queue: `getQueue`.
   *
   * @example
   * await client.admin.getPartitions({ queue: 'orders', limit: 100 }).catch((error: LaneError) => console.log(error.code));
   */
  getPartitions(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/resources/partitions', parameters);
  }

  /**
   * What a group has before it on a queue; without a group, queue mode.
   *
   * @example
   * const { pending } = await client.admin.getQueueDepth('orders', 'billing');
   */
  getQueueDepth(name: string, group?: string, parameters: ListParameters = {}): Promise<QueueDepth> {
    return this.#get(`/api/v1/resources/queues/${pathSegment(name)}/depth`, { group, ...parameters });
  }

  /**
   * Messages of the last hour, newest first; filters as in docs/api.md. Payloads and states, nothing is taken.
   *
   * @example
   * const { messages } = await client.admin.listMessages({ queue: 'orders', limit: 20 });
   */
  listMessages(parameters: ListParameters = {}): Promise<MessageList> {
    return this.#get('/api/v1/messages', parameters);
  }

  /**
   * One message with its state.
   *
   * @example
   * console.log(await client.admin.getMessage(message.partitionId, message.transactionId));
   */
  getMessage(partitionId: string, transactionId: string): Promise<MessageRow> {
    return this.#get(messagePath(partitionId, transactionId));
  }

  /**
   * Deletes the dead letters of a message, of all groups; never a live message.
   *
   * @example
   * await client.ack(message, 'dlq');
   * await client.admin.deleteMessage(message.partitionId, message.transactionId);
   */
  deleteMessage(partitionId: string, transactionId: string): Promise<Figures> {
    return this.#send('DELETE', messagePath(partitionId, transactionId));
  }

  /**
   * Replays the newest dead letter of a message. Sent once, never repeated.
   *
   * @example
   * await client.ack(message, 'dlq');
   * await client.admin.retryMessage(message.partitionId, message.transactionId);
   */
  retryMessage(partitionId: string, transactionId: string): Promise<ReplayResult> {
    return this.#send('POST', `${messagePath(partitionId, transactionId)}/retry`, undefined, false);
  }

  /**
   * A look into a partition: its records in order, and what each is to each group. Nothing is taken.
   *
   * @example
   * console.log(await client.admin.peek('orders', 'customer-42', { limit: 10 }));
   */
  peek(queue: string, partition: string, parameters: ListParameters = {}): Promise<Figures> {
    return this.#get(
      `/api/v1/resources/queues/${pathSegment(queue)}/partitions/${pathSegment(partition)}/peek`,
      parameters,
    );
  }

  /**
   * What consumers noted down under a name, newest first.
   *
   * @example
   * console.log(await client.admin.getTracesByName('order-9137'));
   */
  getTracesByName(name: string, parameters: ListParameters = {}): Promise<TraceList> {
    return this.#get(`/api/v1/traces/by-name/${pathSegment(name)}`, parameters);
  }

  /**
   * The names of traces, with how often they occur.
   *
   * @example
   * console.log(await client.admin.getTraceNames());
   */
  getTraceNames(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/traces/names', parameters);
  }

  /**
   * What consumers noted down about a message.
   *
   * @example
   * console.log(await client.admin.getTracesForMessage(message.partitionId, message.transactionId));
   */
  getTracesForMessage(partitionId: string, transactionId: string): Promise<TraceList> {
    return this.#get(`/api/v1/traces/${pathSegment(partitionId)}/${pathSegment(transactionId)}`);
  }

  /**
   * What was pushed, delivered and acked per minute.
   *
   * @example
   * console.log(await client.admin.getStatus());
   */
  getStatus(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/status', parameters);
  }

  /**
   * Figures of all queues.
   *
   * @example
   * console.log(await client.admin.getQueueStats());
   */
  getQueueStats(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/status/queues', parameters);
  }

  /**
   * Figures of one queue.
   *
   * @example
   * console.log(await client.admin.getQueueDetail('orders'));
   */
  getQueueDetail(name: string, parameters: ListParameters = {}): Promise<Figures> {
    return this.#get(`/api/v1/status/queues/${pathSegment(name)}`, parameters);
  }

  /**
   * Figures over time.
   *
   * @example
   * console.log(await client.admin.getAnalytics());
   */
  getAnalytics(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/status/analytics', parameters);
  }

  /**
   * Figures of the processes. The broker of this release does not have the route.
   *
   * @example
   * await client.admin.getSystemMetrics().catch((error: LaneError) => console.log(error.code));
   */
  getSystemMetrics(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/analytics/system-metrics', parameters);
  }

  /**
   * Figures of the broker's workers. The broker of this release does not have the route.
   *
   * @example
   * await client.admin.getWorkerMetrics().catch((error: LaneError) => console.log(error.code));
   */
  getWorkerMetrics(parameters: ListParameters = {}): Promise<Figures> {
    return this.#get('/api/v1/analytics/worker-metrics', parameters);
  }

  /**
   * One row per group and queue.
   *
   * @example
   * const groups = await client.admin.listConsumerGroups();
   */
  listConsumerGroups(parameters: ListParameters = {}): Promise<readonly GroupRow[]> {
    return this.#get('/api/v1/consumer-groups', parameters);
  }

  /**
   * A group: an object with a member per queue that knows it.
   *
   * @example
   * console.log(await client.admin.getConsumerGroup('billing'));
   */
  getConsumerGroup(group: string, parameters: ListParameters = {}): Promise<Readonly<Record<string, Figures>>> {
    return this.#get(groupPath(group, null), parameters);
  }

  /**
   * Partitions whose next message is at least so old, in seconds. Default 60.
   *
   * @example
   * const lagging = await client.admin.getLaggingConsumers(300);
   */
  getLaggingConsumers(minLagSeconds = 60): Promise<readonly LaggingPartition[]> {
    return this.#get('/api/v1/consumer-groups/lagging', { minLagSeconds });
  }

  /**
   * Asks for fresh figures; here they always are.
   *
   * @example
   * await client.admin.refreshConsumerStats();
   */
  refreshConsumerStats(): Promise<Figures> {
    return this.#send('POST', '/api/v1/stats/refresh');
  }

  /**
   * Deletes a group from all queues; without `deleteMetadata` its positions only, and it starts again as it first did.
   *
   * @example
   * await client.admin.deleteConsumerGroup('reports');
   */
  deleteConsumerGroup(group: string, deleteMetadata = true): Promise<GroupDeletion> {
    return deleteGroup(this.#transport, group, null, deleteMetadata);
  }

  /**
   * The same on one queue.
   *
   * @example
   * await client.admin.deleteConsumerGroupForQueue('reports', 'orders');
   */
  deleteConsumerGroupForQueue(group: string, queue: string, deleteMetadata = true): Promise<GroupDeletion> {
    return deleteGroup(this.#transport, group, queue, deleteMetadata);
  }

  /**
   * Makes a registered group start from an ISO time wherever it has no position yet.
   *
   * @example
   * await client.admin.updateConsumerGroupTimestamp('billing', '2026-01-31T12:00:00Z');
   */
  updateConsumerGroupTimestamp(group: string, timestamp: string): Promise<GroupStart> {
    return startGroupFrom(this.#transport, group, timestamp);
  }

  /**
   * Moves a group in every partition of a queue. Safe to repeat.
   *
   * @example
   * await client.admin.seekConsumerGroup('billing', 'orders', { toEnd: true });
   */
  seekConsumerGroup(group: string, queue: string, target: SeekTarget): Promise<SeekResult> {
    return seekGroup(this.#transport, group, queue, null, target);
  }

  /**
   * How far a redrive of dead letters is.
   *
   * @example
   * const { id } = await client.queue('orders').dlq('billing').redrive();
   * console.log(await client.admin.getRedrive(id));
   */
  async getRedrive(id: string): Promise<Redrive> {
    return (await this.#get<{ redrive: Redrive }>(`/api/v1/dlq/redrive/${pathSegment(id)}`)).redrive;
  }

  /**
   * Ends a redrive; what it has moved stays moved.
   *
   * @example
   * const { id } = await client.queue('orders').dlq('billing').redrive();
   * await client.admin.cancelRedrive(id);
   */
  async cancelRedrive(id: string): Promise<Redrive> {
    return (await this.#send<{ redrive: Redrive }>('DELETE', `/api/v1/dlq/redrive/${pathSegment(id)}`)).redrive;
  }

  /**
   * Resolves while the broker takes writes; rejects with status 503 otherwise.
   *
   * @example
   * console.log(await client.admin.health());
   */
  health(): Promise<Health> {
    return this.#get('/health');
  }

  /**
   * The broker's figures about itself.
   *
   * @example
   * console.log(await client.admin.metrics());
   */
  metrics(): Promise<Figures> {
    return this.#get('/metrics');
  }

  /**
   * Has no route any more. @throws LaneError `removed`, before anything is sent.
   *
   * @example
   * await client.admin.clearQueue().catch((error: LaneError) => console.log(error.code));
   */
  clearQueue(): Promise<never> {
    return removed('clearQueue', 'queue(name).delete(), or seekConsumerGroup(group, queue, { toEnd: true })');
  }

  /**
   * Has no route any more. @throws LaneError `removed`, before anything is sent.
   *
   * @example
   * await client.admin.moveMessageToDLQ().catch((error: LaneError) => console.log(error.code));
   */
  moveMessageToDLQ(): Promise<never> {
    return removed('moveMessageToDLQ', "client.ack(message, 'dlq')");
  }

  #get<Shape>(path: string, parameters: ListParameters = {}): Promise<Shape> {
    return this.#send('GET', `${path}${queryOf(parameters)}`);
  }

  async #send<Shape>(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: unknown,
    repeatable = true,
  ): Promise<Shape> {
    return objectIn<Shape>(await this.#transport.send({ method, path, body, repeatable }));
  }
}

function messagePath(partitionId: string, transactionId: string): string {
  return `/api/v1/messages/${pathSegment(partitionId)}/${pathSegment(transactionId)}`;
}

async function removed(name: string, instead: string): Promise<never> {
  throw new LaneError({ code: 'removed', message: `${name} has no route any more: use ${instead}` });
}
