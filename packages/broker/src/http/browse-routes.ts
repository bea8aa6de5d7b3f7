/** Routes that look at messages without taking them: the message list, one message, a partition from an offset on. */

import { limits } from '@lanemq/protocol';
import { asciiBytes, type ByteWriter } from '../codec/mod.ts';
import {
  type ConsumptionMode,
  type DueFacts,
  type MessageDetail,
  type MessageFilter,
  type MessagePage,
  type MessageStatus,
  type MessageView,
  type PeekRequest,
  type PeekView,
  readPartitionRef,
} from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { isoTime } from './iso-time.ts';
import { BadParameter, type QueryParameters } from './query-parameters.ts';
import { optionsJson, timeOrNull } from './queue-json.ts';
import { beginRead, clamped, jsonAnswer, readPage, readParameters, replyWith } from './read-route.ts';
import { timeOf } from './resource-routes.ts';

const dataIs = asciiBytes(',"data":');
const payloadIs = asciiBytes(',"payload":');
const nullText = asciiBytes('null');
const comma = 44;
const closeBrace = 125;

const usPerMinute = 60_000_000;
const usPerHour = 60 * usPerMinute;

const statuses: readonly string[] = ['pending', 'processing', 'completed', 'dead_letter'] satisfies MessageStatus[];

/** Milliseconds, as this page has them. */
function isoMs(us: number): string {
  return `${isoTime(us).slice(0, 23)}Z`;
}

function readFilter(parameters: QueryParameters): MessageFilter {
  const status = parameters.name('status');
  if (status !== null && !statuses.includes(status)) {
    throw new BadParameter(`status must be one of ${statuses.join(', ')}`);
  }
  const page = readPage(parameters, limits.messagesPageDefault, limits.messagesPageMax);
  if (page.offset > limits.messagesOffsetMax) {
    throw new BadParameter(
      `offset must not exceed ${limits.messagesOffsetMax}: choose an earlier time with to instead`,
    );
  }
  const to = timeOf(parameters, 'to');
  return {
    queue: parameters.name('queue'),
    partition: parameters.name('partition'),
    namespace: parameters.name('namespace') ?? parameters.name('ns'),
    task: parameters.name('task'),
    status: status as MessageStatus | null,
    fromUs: timeOf(parameters, 'from') ?? Date.now() * 1000 - usPerHour,
    // A `to` names a minute, and all of it is meant.
    toUs: to === null ? null : (Math.floor(to / usPerMinute) + 1) * usPerMinute,
    ...page,
  };
}

function modeJson({ hasQueueMode, busGroupsCount }: ConsumptionMode): object {
  const both = hasQueueMode && busGroupsCount > 0;
  const type = both ? 'hybrid' : hasQueueMode ? 'queue' : busGroupsCount > 0 ? 'bus' : 'none';
  return { hasQueueMode, busGroupsCount, type };
}

/** An object with the payload in it as the client's own JSON text. */
function writeWithPayload(writer: ByteWriter, facts: object, payload: Uint8Array | null): void {
  writer.raw(Buffer.from(JSON.stringify(facts).slice(0, -1)));
  for (const name of [dataIs, payloadIs]) {
    writer.raw(name);
    writer.raw(payload ?? nullText);
  }
  writer.byte(closeBrace);
}

/** Of a message that waits for a time of its own, or was cancelled before it; all others have none. */
function dueJson({ dueUs, isCancelled }: DueFacts): object {
  return { ...(dueUs > 0 ? { dueAt: isoTime(dueUs) } : {}), ...(isCancelled ? { cancelled: true } : {}) };
}

function messageJson(message: MessageView): object {
  return {
    id: message.id,
    transactionId: message.transactionId,
    txnHash: message.fingerprint,
    traceId: message.traceId,
    producerSub: message.producerSub,
    createdAt: isoMs(message.createdAtUs),
    offset: message.offset,
    queue: message.queue,
    partition: message.partition,
    partitionId: message.partitionId,
    status: message.status,
    queueStatus: message.queueStatus,
    busStatus: { consumedBy: message.consumedBy, totalGroups: message.totalGroups },
    queuePath: `${message.queue}/${message.partition}`,
    namespace: message.namespace,
    task: message.task,
    queuePriority: message.priority,
    payloadAvailable: message.payload !== null,
    leaseExpiresAt: timeOrNull(message.leaseExpiresAtUs),
    segment: { seq: message.appendOffset, frameIdx: message.appendIndex },
    isEncrypted: message.isEncrypted,
    ...dueJson(message),
  };
}

/** GET /api/v1/messages */
export function listMessages(exchange: Exchange, query: string): void {
  const filter = readParameters(exchange, query, readFilter);
  if (filter === null || !beginRead(exchange)) return;
  const { engine, writer } = exchange.services;
  const { limit, offset } = filter;
  const reply = replyWith<MessagePage>(exchange, (page) => {
    writer.reset();
    writer.raw(Buffer.from('{"messages":['));
    for (const [place, row] of page.rows.entries()) {
      if (place > 0) writer.byte(comma);
      writeWithPayload(writer, messageJson(row), row.payload);
    }
    const end = {
      total: page.total,
      totalIsExact: page.totalIsExact,
      pagination: { limit, offset },
      mode: modeJson(page.mode),
    };
    writer.raw(Buffer.from(`],${JSON.stringify(end).slice(1)}`));
    return { status: 200, body: writer.take() };
  });
  engine.views.messages(filter, reply);
}

const messageNotFound = jsonAnswer(404, { error: 'Message not found', code: 'not_found' });

function detailJson(message: MessageDetail): object {
  return {
    ...messageJson(message),
    errorMessage: message.errorMessage,
    retryCount: message.retryCount,
    queueConfig: optionsJson(message.options),
    mode: modeJson(message.mode),
    consumerGroups: message.groups.map(({ name, committed, consumed, leaseExpiresAtUs }) => ({
      name,
      committed,
      consumed,
      leaseExpiresAt: timeOrNull(leaseExpiresAtUs),
    })),
  };
}

/** GET /api/v1/messages/{partition}/{transactionId}: the partition by its number or its UUID. */
export function showMessage(exchange: Exchange, partition: string, transactionId: string): void {
  const { engine, writer } = exchange.services;
  const ref = readPartitionRef(engine.identity, partition);
  if (ref === null) {
    exchange.failWith(messageNotFound.status, messageNotFound.body);
    return;
  }
  if (!beginRead(exchange)) return;
  const reply = replyWith<MessageDetail | null>(exchange, (message) => {
    if (message === null) return messageNotFound;
    writer.reset();
    writeWithPayload(writer, detailJson(message), message.payload);
    return { status: 200, body: writer.take() };
  });
  engine.views.message(ref, transactionId, reply);
}

function peekEndJson(view: PeekView, limit: number): object {
  return {
    queue: view.queue,
    partition: view.partition,
    partitionId: String(view.pid),
    id: view.partitionId,
    logStart: view.logStart,
    nextOffset: view.nextOffset,
    limit,
    next: view.next,
    groups: view.groups.map(({ group, lease, ...facts }) => ({
      group,
      committed: facts.committed,
      lease:
        lease === null
          ? null
          : {
              leaseId: lease.id,
              since: isoTime(lease.sinceUs),
              from: lease.from,
              to: lease.to,
              expiresAt: isoTime(lease.expiresAtUs),
            },
      retryCount: facts.retryCount,
      deliveryAttempts: facts.attemptCount,
      heldUntil: timeOrNull(facts.heldUntilUs),
      delayedUntil: timeOrNull(facts.delayedUntilUs),
      blockedBy: facts.blockedBy,
    })),
  };
}

/** GET /api/v1/resources/queues/{queue}/partitions/{partition}/peek: looks, and leases nothing. */
export function peekPartition(exchange: Exchange, queue: string, partition: string, query: string): void {
  const request = readParameters(exchange, query, (parameters): PeekRequest => {
    const offset = parameters.integer('offset');
    return {
      queue,
      partition,
      offset: offset === null ? null : clamped(offset, 0, Number.MAX_SAFE_INTEGER, 0),
      limit: clamped(parameters.integer('limit'), limits.peekPageDefault, limits.peekPageMax),
      group: parameters.name('group'),
    };
  });
  if (request === null || !beginRead(exchange)) return;
  const { engine, writer } = exchange.services;
  const reply = replyWith<PeekView | null>(exchange, (view) => {
    if (view === null) return jsonAnswer(404, { error: 'Partition not found', code: 'not_found' });
    writer.reset();
    writer.raw(Buffer.from(`${JSON.stringify(peekEndJson(view, request.limit)).slice(0, -1)},"records":[`));
    for (const [place, record] of view.records.entries()) {
      if (place > 0) writer.byte(comma);
      const facts = {
        offset: record.offset,
        id: record.id,
        transactionId: record.transactionId,
        traceId: record.traceId,
        producerSub: record.producerSub,
        createdAt: isoTime(record.createdAtUs),
        isEncrypted: record.isEncrypted,
        payloadAvailable: record.payload !== null,
        deadLetter: record.isDeadLetter,
        ...dueJson(record),
        states: record.states.map(({ state, untilUs }, group) => ({
          group: view.groups[group].group,
          state,
          until: timeOrNull(untilUs),
        })),
      };
      writeWithPayload(writer, facts, record.payload);
    }
    writer.raw(Buffer.from(']}'));
    return { status: 200, body: writer.take() };
  });
  engine.views.peek(request, reply);
}
