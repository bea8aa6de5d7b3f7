/** Traces: what consumers note down about messages, and the reads of it. */

import { limits } from '@lanemq/protocol';
import type { Refusal, TraceCommand, TraceOutcome } from '../core/mod.ts';
import {
  type PageOf,
  type Reply,
  readPartitionRef,
  type TraceNamePage,
  type TracePage,
  type TraceView,
  traceIdText,
} from '../runtime/mod.ts';
import { type Exchange, errorBody } from './exchange.ts';
import { isoTime } from './iso-time.ts';
import { beginRead, jsonAnswer, readPage, readParameters, replyWith } from './read-route.ts';
import { isObject, type JsonObject, parseJson, SmallBodyExchange } from './small-body.ts';

class Refused extends Error {
  readonly code: 'bad_request' | 'name_too_long';

  constructor(message: string, code: 'bad_request' | 'name_too_long' = 'bad_request') {
    super(message);
    this.code = code;
  }
}

const partitionNotFound = { success: false, error: 'Partition not found', code: 'not_found' };

/** A text of the body; null when it is missing, null or empty. */
function textOf(body: JsonObject, name: string): string | null {
  const value = body[name];
  if (value === undefined || value === null || value === '') return null;
  if (typeof value !== 'string') throw new Refused(`${name} must be a string`);
  return withinBytes(name, value);
}

function withinBytes(name: string, text: string): string {
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.traceTextBytesMax) {
    throw new Refused(`${name} has ${bytes} bytes, at most ${limits.traceTextBytesMax} are allowed`, 'name_too_long');
  }
  return text;
}

function namesOf(body: JsonObject): string[] {
  const value = body['traceNames'] ?? body['names'] ?? [];
  const names: unknown[] = Array.isArray(value) ? value : [value];
  if (names.length > limits.traceNamesMax) {
    throw new Refused(`traceNames has ${names.length} names, at most ${limits.traceNamesMax} are allowed`);
  }
  const read = names.map((name) => {
    if (typeof name !== 'string' || name === '') throw new Refused('traceNames must be a list of non-empty strings');
    return withinBytes('a trace name', name);
  });
  return [...new Set(read)];
}

function dataOf(body: JsonObject): string {
  const data = JSON.stringify(body['data'] ?? null);
  const bytes = Buffer.byteLength(data);
  if (bytes <= limits.traceDataBytesMax) return data;
  throw new Refused(`data has ${bytes} bytes as JSON, at most ${limits.traceDataBytesMax} are allowed`);
}

/** POST /api/v1/traces */
export class TraceExchange extends SmallBodyExchange implements Reply<TraceOutcome> {
  protected readonly bodyName = 'bad trace body';
  #traceId: string | null = null;
  #stampUs = 0;

  protected received(body: Uint8Array): void {
    let command: TraceCommand | null;
    try {
      command = this.#read(parseJson(body));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // 400 here, whatever status the code has elsewhere.
      this.failWith(400, errorBody(error.code, error.message));
      return;
    }
    if (command === null) {
      this.#refusePartition();
      return;
    }
    this.#traceId = command.traceId;
    this.services.supervisor.handedOver(this);
    this.services.engine.views.recordTrace(command, this);
  }

  /** Null when the partition is not one that this broker could have. */
  #read(body: unknown): TraceCommand | null {
    if (!isObject(body)) throw new Refused('the body must be a JSON object');
    const transactionId = textOf(body, 'transactionId');
    if (transactionId === null) throw new Refused('transactionId is required');
    const partition = textOf(body, 'partitionId');
    const ref =
      partition === null ? { pid: 0, createdAtUs: 0 } : readPartitionRef(this.services.engine.identity, partition);
    const facts = {
      transactionId,
      group: textOf(body, 'consumerGroup'),
      eventType: textOf(body, 'eventType') ?? textOf(body, 'type') ?? 'event',
      names: namesOf(body),
      data: dataOf(body),
      worker: textOf(body, 'worker'),
      traceId: textOf(body, 'traceId'),
      messageId: textOf(body, 'messageId'),
    };
    return ref === null ? null : { pid: ref.pid, partitionCreatedAtUs: ref.createdAtUs, ...facts };
  }

  encode(outcome: TraceOutcome): void {
    this.#stampUs = outcome.stampUs;
  }

  send(failure: Refusal | null): void {
    if (failure !== null) this.refuse(failure);
    else if (this.#stampUs === 0) this.#refusePartition();
    else {
      const traceId = this.#traceId ?? traceIdText(this.services.engine.identity, this.#stampUs);
      this.answerValue(201, { success: true, traceId });
    }
  }

  #refusePartition(): void {
    const { status, body } = jsonAnswer(404, partitionNotFound);
    this.failWith(status, body);
  }
}

/** Every field in both spellings that clients read. */
function traceJson(trace: TraceView): object {
  const createdAt = isoTime(trace.createdAtUs);
  const partitionId = trace.pid === 0 ? null : String(trace.pid);
  const data: unknown = JSON.parse(trace.data);
  return {
    id: trace.id,
    traceId: trace.traceId,
    trace_id: trace.traceId,
    transactionId: trace.transactionId,
    transaction_id: trace.transactionId,
    partitionId,
    partition_id: partitionId,
    eventType: trace.eventType,
    event_type: trace.eventType,
    data,
    consumerGroup: trace.group,
    consumer_group: trace.group,
    worker: trace.worker,
    workerId: trace.worker,
    worker_id: trace.worker,
    messageId: trace.messageId,
    message_id: trace.messageId,
    createdAt,
    created_at: createdAt,
    queue: trace.queue,
    queueName: trace.queue,
    queue_name: trace.queue,
    partition: trace.partition,
    partitionName: trace.partition,
    partition_name: trace.partition,
    traceNames: trace.names,
    trace_names: trace.names,
  };
}

function readTracePage(exchange: Exchange, query: string, fallback: number): PageOf | null {
  return readParameters(exchange, query, (parameters) => readPage(parameters, fallback, limits.tracesPageMax));
}

function tracePageReply(exchange: Exchange, page: PageOf): Reply<TracePage> {
  return replyWith<TracePage>(exchange, ({ rows, total }) => {
    const traces = JSON.stringify(rows.map(traceJson));
    const end = JSON.stringify({ total, pagination: page }).slice(1);
    return { status: 200, body: Buffer.from(`{"traces":${traces},"events":${traces},${end}`) };
  });
}

/** GET /api/v1/traces/{partition}/{transactionId} */
export function tracesOfMessage(exchange: Exchange, partition: string, transactionId: string, query: string): void {
  const page = readTracePage(exchange, query, limits.tracesPageDefault);
  if (page === null || !beginRead(exchange)) return;
  const { engine } = exchange.services;
  engine.views.tracesOf(
    readPartitionRef(engine.identity, partition),
    transactionId,
    page,
    tracePageReply(exchange, page),
  );
}

/** GET /api/v1/traces/by-name/{name} */
export function tracesByName(exchange: Exchange, name: string, query: string): void {
  const page = readTracePage(exchange, query, limits.tracesPageDefault);
  if (page === null || !beginRead(exchange)) return;
  exchange.services.engine.views.tracesNamed(name, page, tracePageReply(exchange, page));
}

/** GET /api/v1/traces/names */
export function traceNames(exchange: Exchange, query: string): void {
  const page = readTracePage(exchange, query, limits.traceNamesPageDefault);
  if (page === null || !beginRead(exchange)) return;
  const reply = replyWith<TraceNamePage>(exchange, ({ rows, total }) => {
    const names = rows.map((row) => ({
      trace_name: row.name,
      traceName: row.name,
      trace_count: row.traces,
      traceCount: row.traces,
      message_count: row.messages,
      messageCount: row.messages,
      last_seen: isoTime(row.lastSeenUs),
      lastSeen: isoTime(row.lastSeenUs),
    }));
    return jsonAnswer(200, { trace_names: names, names, total, pagination: page });
  });
  exchange.services.engine.views.traceNames(page, reply);
}
