/**
 * The plain HTTP client of the end-to-end tests: the contract's routes and nothing else. It keeps connections alive,
 * never retries and never interprets an answer, so that a test sees exactly what the broker said.
 *
 * The short forms (`push`, `pop`, `ack`, …) fail the test when the status is not the one of a success; a test of a
 * refusal uses `request`, which answers whatever came.
 */
import assert from 'node:assert/strict';
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';

/** One answer. `body` is the parsed JSON of an answer whose type is JSON, otherwise undefined. */
export interface Answer<Body> {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly body: Body;
}

export interface ErrorBody {
  readonly error: string;
  readonly code: string;
}

export interface PushItem {
  readonly queue: string;
  readonly partition?: string | null;
  readonly transactionId?: string | null;
  readonly payload: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PushResult {
  readonly index: number;
  readonly message_id: string;
  readonly transaction_id: string;
  readonly queueName: string;
  readonly status: 'queued' | 'duplicate' | 'error';
  readonly offset: number;
}

export interface Message<Data = unknown> {
  readonly id: string;
  readonly transactionId: string;
  readonly traceId: string | null;
  readonly data: Data;
  readonly producerSub: string | null;
  readonly createdAt: string;
  readonly partitionId: string;
  readonly partition: string;
  readonly leaseId: string;
  readonly consumerGroup: string;
  readonly deliveryAttempt: number;
  readonly offset: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PopBody<Data = unknown> {
  readonly success: boolean;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly leaseId: string;
  readonly consumerGroup: string;
  readonly messages: Message<Data>[];
  readonly partitionsClaimed: number;
  readonly conflation?: boolean;
  readonly conflationConflict?: boolean;
  readonly autopilot?: { readonly partitions: number; readonly batch: number };
}

export interface AckItem {
  readonly transactionId: string;
  readonly partitionId: string;
  readonly leaseId?: string | null;
  readonly status?: string;
  readonly error?: string | null;
}

export interface AckResult {
  readonly index: number;
  readonly transactionId: string;
  readonly success: boolean;
  readonly error: string | null;
  readonly leaseReleased: boolean;
  readonly dlq: boolean;
  readonly noop: boolean;
}

export interface ExtendBody {
  readonly leaseId: string;
  readonly success: boolean;
  readonly renewed: number;
  readonly newExpiresAt: string | null;
  readonly expiresAt: string | null;
  readonly lease_expires_at: string | null;
  readonly error?: string;
}

/** The options of a queue as every answer lists them (contract 9.1). */
export interface StoredOptions {
  readonly priority: number;
  readonly leaseTime: number;
  readonly retryLimit: number;
  readonly retryDelay: number;
  readonly maxSize: number;
  readonly maxQueueSize: number;
  readonly ttl: number;
  readonly deadLetterQueue: boolean;
  readonly dlqAfterMaxRetries: boolean;
  readonly delayedProcessing: number;
  readonly windowBuffer: number;
  readonly retentionSeconds: number;
  readonly completedRetentionSeconds: number;
  readonly retentionEnabled: boolean;
  readonly encryptionEnabled: boolean;
  readonly maxWaitTimeSeconds: number;
  readonly minPopWaitTime: number;
  readonly dedupWindowSeconds: number;
  readonly retentionSinkHold: string;
  readonly retentionSinkHoldMaxSeconds: number;
  readonly maxLeaseSeconds: number;
  readonly maxDeliveries: number;
  readonly maxLeasedPartitions: number;
  readonly maxPerSecond: number;
}

export interface ConfigureBody {
  readonly configured: boolean;
  readonly queueId: string;
  readonly partitionId: null;
  readonly queue: string;
  readonly namespace: string;
  readonly task: string;
  readonly storage: string;
  readonly options: StoredOptions;
}

export interface MessageCounts {
  readonly total: number;
  readonly pending: number;
  readonly processing: number;
  readonly completed: number;
  readonly deadLetter: number;
}

export interface QueueRow {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly namespace: string;
  readonly task: string;
  readonly storage: string;
  readonly partitions: number;
  readonly segments: { readonly segments: number; readonly messages: number };
  readonly messages: MessageCounts;
  readonly retainedBytes: number;
  readonly options: StoredOptions;
  readonly createdAt: string;
}

/** A row of the cheap listing, `?stats=lanes`. */
export interface LanesRow {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly partitions: number;
  readonly createdAt: string;
}

export interface PartitionRow {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  readonly stats: MessageCounts;
  readonly cursor: { readonly totalConsumed: number; readonly batchesConsumed: number };
}

export interface QueueDetail {
  readonly id: string;
  readonly name: string;
  readonly namespace: string;
  readonly task: string;
  readonly createdAt: string;
  readonly options: StoredOptions;
  readonly partitions: PartitionRow[];
}

export interface DeadLetter<Data = unknown> {
  readonly id: string;
  readonly queue: string;
  readonly partition: string;
  readonly partitionId: string;
  readonly createdAt: string;
  readonly consumerGroup: string;
  readonly offset: number;
  readonly messageId: string;
  readonly transactionId: string;
  readonly data: Data;
  readonly payload: Data;
  readonly errorMessage: string;
  readonly retryCount: number;
  readonly failedAt: string;
}

export interface DeadLetterPage<Data = unknown> {
  readonly messages: DeadLetter<Data>[];
  readonly total: number;
  readonly pagination: { readonly limit: number; readonly offset: number };
}

export interface RequestParts {
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is; wins over `json`. */
  readonly bytes?: Uint8Array | string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Aborting destroys the socket, as a client that hangs up does. */
  readonly signal?: AbortSignal;
  /** False: a connection of its own for this request. */
  readonly keepAlive?: boolean;
}

/** What a pop asks for. Absent fields are not sent. */
export interface PopOptions {
  readonly partition?: string;
  readonly group?: string;
  readonly mode?: string;
  readonly from?: string;
  readonly batch?: number;
  readonly partitions?: number;
  /** Milliseconds to wait; absent = do not wait. */
  readonly waitMs?: number;
  readonly leaseSeconds?: number;
  readonly autoAck?: boolean;
  readonly conflation?: boolean;
  readonly autopilot?: boolean;
  readonly signal?: AbortSignal;
  readonly keepAlive?: boolean;
}

export const queueModeGroup = '__QUEUE_MODE__';

/** The path and query of a pop of one queue. Names are percent-encoded. */
export function popPath(queue: string, options: PopOptions = {}): string {
  let path = `/api/v1/pop/queue/${encodeURIComponent(queue)}`;
  if (options.partition !== undefined) path += `/partition/${encodeURIComponent(options.partition)}`;
  const query = popQuery(options);
  return query === '' ? path : `${path}?${query}`;
}

export function popQuery(options: PopOptions): string {
  const query = new URLSearchParams();
  if (options.group !== undefined) query.set('consumerGroup', options.group);
  if (options.mode !== undefined) query.set('subscriptionMode', options.mode);
  if (options.from !== undefined) query.set('subscriptionFrom', options.from);
  if (options.batch !== undefined) query.set('batch', String(options.batch));
  if (options.partitions !== undefined) query.set('partitions', String(options.partitions));
  if (options.waitMs !== undefined) {
    query.set('wait', 'true');
    query.set('timeout', String(options.waitMs));
  }
  if (options.leaseSeconds !== undefined) query.set('leaseSeconds', String(options.leaseSeconds));
  if (options.autoAck !== undefined) query.set('autoAck', String(options.autoAck));
  if (options.conflation !== undefined) query.set('conflation', String(options.conflation));
  if (options.autopilot !== undefined) query.set('autopilot', String(options.autopilot));
  return query.toString();
}

/** The ack of a delivered message under the lease it was delivered with. */
export function ackOf(message: Message, status?: string, error?: string): AckItem {
  const item: { -readonly [K in keyof AckItem]: AckItem[K] } = {
    transactionId: message.transactionId,
    partitionId: message.partitionId,
    leaseId: message.leaseId,
  };
  if (status !== undefined) item.status = status;
  if (error !== undefined) item.error = error;
  return item;
}

/** The ack of a delivered message that names no lease. */
export function ackWithoutLease(message: Message, status?: string): AckItem {
  return { ...ackOf(message, status), leaseId: null };
}

/** An answer that does not come fails the test instead of holding it up for ever. Longer than any wait a test asks for. */
const silenceMsMax = 180_000;

export class BrokerClient {
  #port = 0;
  #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

  /** Points the client at another port; connections to the old one are dropped. */
  connectTo(port: number): void {
    this.close();
    this.#port = port;
  }

  get port(): number {
    return this.#port;
  }

  close(): void {
    this.#agent.destroy();
    this.#agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  }

  /** Sends one request and answers what came. Rejects only when no whole answer came. */
  request<Body = ErrorBody>(method: string, path: string, parts: RequestParts = {}): Promise<Answer<Body>> {
    const bytes = parts.bytes ?? (parts.json === undefined ? undefined : JSON.stringify(parts.json));
    const headers: Record<string, string> = {};
    if (bytes !== undefined) {
      headers['content-type'] = 'application/json';
      headers['content-length'] = String(Buffer.byteLength(bytes));
    }
    Object.assign(headers, parts.headers);
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(
        {
          host: '127.0.0.1',
          port: this.#port,
          method,
          path,
          headers,
          agent: parts.keepAlive === false ? false : this.#agent,
          timeout: silenceMsMax,
          ...(parts.signal === undefined ? {} : { signal: parts.signal }),
        },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
          incoming.on('error', reject);
          incoming.on('end', () => {
            const whole = Buffer.concat(chunks);
            const isJson = (incoming.headers['content-type'] ?? '').startsWith('application/json');
            try {
              const body = (isJson && whole.length > 0 ? JSON.parse(whole.toString('utf8')) : undefined) as Body;
              resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, bytes: whole, body });
            } catch (error) {
              reject(error);
            }
          });
        },
      );
      outgoing.on('error', reject);
      outgoing.on('timeout', () => {
        outgoing.destroy(new Error(`${method} ${path}: nothing was heard for ${silenceMsMax} ms`));
      });
      outgoing.end(bytes);
    });
  }

  async push(items: readonly PushItem[]): Promise<PushResult[]> {
    const answer = await this.request<PushResult[]>('POST', '/api/v1/push', { json: { items } });
    assert.equal(answer.status, 201, `push answered ${answer.status}: ${answer.bytes.toString()}`);
    assert.equal(answer.body.length, items.length);
    return answer.body;
  }

  /** Pushes one item per payload to one partition in one call. Payloads become transactionIds when they are strings. */
  pushAll(queue: string, partition: string, payloads: readonly unknown[]): Promise<PushResult[]> {
    return this.push(
      payloads.map((payload) =>
        typeof payload === 'string'
          ? { queue, partition, payload, transactionId: payload }
          : { queue, partition, payload },
      ),
    );
  }

  /** The whole answer of a pop, which must be 200 or 204. */
  async popAnswer<Data = unknown>(queue: string, options: PopOptions = {}): Promise<Answer<PopBody<Data>>> {
    return this.#popPath(popPath(queue, options), options);
  }

  /** The messages of a pop, none for 204. */
  async pop<Data = unknown>(queue: string, options: PopOptions = {}): Promise<Message<Data>[]> {
    const answer = await this.popAnswer<Data>(queue, options);
    return answer.status === 204 ? [] : answer.body.messages;
  }

  /** The messages of a discover pop. */
  async discover<Data = unknown>(
    labels: { readonly namespace?: string; readonly task?: string },
    options: PopOptions = {},
  ): Promise<Message<Data>[]> {
    const query = new URLSearchParams(popQuery(options));
    if (labels.namespace !== undefined) query.set('namespace', labels.namespace);
    if (labels.task !== undefined) query.set('task', labels.task);
    const answer = await this.#popPath<Data>(`/api/v1/pop?${query.toString()}`, options);
    return answer.status === 204 ? [] : answer.body.messages;
  }

  async #popPath<Data>(path: string, options: PopOptions): Promise<Answer<PopBody<Data>>> {
    const answer = await this.request<PopBody<Data>>('GET', path, {
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      ...(options.keepAlive === undefined ? {} : { keepAlive: options.keepAlive }),
    });
    assert.ok(
      answer.status === 200 || answer.status === 204,
      `pop answered ${answer.status}: ${answer.bytes.toString()}`,
    );
    return answer;
  }

  /** A batch ack for one group (null = queue mode). */
  async ackItems(group: string | null, acknowledgments: readonly AckItem[]): Promise<AckResult[]> {
    const answer = await this.request<AckResult[]>('POST', '/api/v1/ack/batch', {
      json: { acknowledgments, consumerGroup: group === queueModeGroup ? null : group },
    });
    assert.equal(answer.status, 200, `ack answered ${answer.status}: ${answer.bytes.toString()}`);
    assert.equal(answer.body.length, acknowledgments.length);
    return answer.body;
  }

  /** Acks messages of one group under their leases, all with one status, in one call. */
  ack(messages: readonly Message[], status?: string, error?: string): Promise<AckResult[]> {
    return this.ackItems(
      messages[0]?.consumerGroup ?? null,
      messages.map((message) => ackOf(message, status, error)),
    );
  }

  /** Acks one message over the single route. */
  async ackOne(message: Message, status?: string, error?: string): Promise<AckResult> {
    const group = message.consumerGroup === queueModeGroup ? null : message.consumerGroup;
    const answer = await this.request<AckResult[]>('POST', '/api/v1/ack', {
      json: { ...ackOf(message, status, error), consumerGroup: group },
    });
    assert.equal(answer.status, 200, `ack answered ${answer.status}: ${answer.bytes.toString()}`);
    assert.equal(answer.body.length, 1);
    return answer.body[0];
  }

  async extend(leaseId: string, seconds: number): Promise<ExtendBody> {
    const answer = await this.request<ExtendBody>('POST', `/api/v1/lease/${leaseId}/extend`, { json: { seconds } });
    assert.equal(answer.status, 200, `extend answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  async configure(
    queue: string,
    options: Readonly<Record<string, unknown>> = {},
    rest: Readonly<Record<string, unknown>> = {},
  ): Promise<ConfigureBody> {
    const answer = await this.request<ConfigureBody>('POST', '/api/v1/configure', {
      json: { queue, options, ...rest },
    });
    assert.equal(answer.status, 200, `configure answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  async queues(): Promise<QueueRow[]> {
    const answer = await this.request<{ queues: QueueRow[] }>('GET', '/api/v1/resources/queues');
    assert.equal(answer.status, 200);
    return answer.body.queues;
  }

  /** The row of one queue in the listing. */
  async queueRow(queue: string): Promise<QueueRow | undefined> {
    return (await this.queues()).find((row) => row.name === queue);
  }

  async queueDetail(queue: string): Promise<QueueDetail> {
    const answer = await this.request<QueueDetail>('GET', `/api/v1/resources/queues/${encodeURIComponent(queue)}`);
    assert.equal(answer.status, 200, `detail answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  async queueExists(queue: string): Promise<boolean> {
    const answer = await this.request('GET', `/api/v1/resources/queues/${encodeURIComponent(queue)}`);
    assert.ok(answer.status === 200 || answer.status === 404, `detail answered ${answer.status}`);
    return answer.status === 200;
  }

  async deleteQueue(queue: string): Promise<{ deleted: boolean; existed: boolean; queue: string }> {
    const answer = await this.request<{ deleted: boolean; existed: boolean; queue: string }>(
      'DELETE',
      `/api/v1/resources/queues/${encodeURIComponent(queue)}`,
    );
    assert.equal(answer.status, 200, `delete answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  async deadLetters<Data = unknown>(query: Readonly<Record<string, string>>): Promise<DeadLetterPage<Data>> {
    const answer = await this.request<DeadLetterPage<Data>>('GET', `/api/v1/dlq?${new URLSearchParams(query)}`);
    assert.equal(answer.status, 200, `dlq answered ${answer.status}: ${answer.bytes.toString()}`);
    return answer.body;
  }

  async metrics(): Promise<Readonly<Record<string, unknown>>> {
    const answer = await this.request<Record<string, unknown>>('GET', '/metrics');
    assert.equal(answer.status, 200);
    return answer.body;
  }
}

let namesGiven = 0;

/** A name no other test uses. It has no dot, so that the queue made from it has a namespace and no task. */
export function freshName(stem: string): string {
  namesGiven++;
  return `${stem}-${process.pid}-${namesGiven}`;
}
