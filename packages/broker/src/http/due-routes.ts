/** Routes about messages that wait for their time: list, move, cancel. */

import { limits } from '@lanemq/protocol';
import type { BrokerIdentity } from '../core/mod.ts';
import {
  type ChangedDue,
  type DueChangeRequest,
  type DueFilter,
  type DueMessage,
  type DuePage,
  type DuePlace,
  readPartitionRef,
} from '../runtime/mod.ts';
import { Exchange } from './exchange.ts';
import { isoTime, parseIsoTime } from './iso-time.ts';
import { BadParameter, type QueryParameters } from './query-parameters.ts';
import { beginRead, clamped, jsonAnswer, readParameters, replyWith } from './read-route.ts';
import type { Call } from './routes.ts';
import { isObject, parseJson, SmallBodyExchange } from './small-body.ts';

const usPerMs = 1000;
const placeForm = /^(\d{1,16})-(\d{1,16})-(\d{1,16})$/;

function placeText(place: DuePlace): string {
  return `${place.dueUs}-${place.pid}-${place.offset}`;
}

function readPlace(text: string | null): DuePlace | null {
  if (text === null) return null;
  const parts = placeForm.exec(text);
  if (parts === null) throw new BadParameter('after must be the next of a page that came before');
  return { dueUs: Number(parts[1]), pid: Number(parts[2]), offset: Number(parts[3]) };
}

/** A time of the query: ISO-8601, or milliseconds since 1970. */
function readTime(parameters: QueryParameters, name: string, missing: number): number {
  const text = parameters.name(name);
  if (text === null) return missing;
  const us = /^\d{1,15}$/.test(text) ? Number(text) * usPerMs : parseIsoTime(text);
  if (us === undefined) throw new BadParameter(`${name} must be an ISO-8601 time or milliseconds since 1970`);
  return us;
}

function readFilter(parameters: QueryParameters): DueFilter {
  const queue = parameters.name('queue');
  const partition = parameters.name('partition');
  if (partition !== null && queue === null)
    throw new BadParameter('partition needs queue: a partition has its name within one');
  return {
    queue,
    partition,
    fromUs: readTime(parameters, 'from', 0),
    untilUs: readTime(parameters, 'until', Number.POSITIVE_INFINITY),
    limit: clamped(parameters.integer('limit'), limits.duePageDefault, limits.duePageMax),
    after: readPlace(parameters.name('after')),
  };
}

function rowJson(row: DueMessage): object {
  return {
    id: row.messageId,
    transactionId: row.transactionId,
    queue: row.queue,
    partition: row.partition,
    partitionId: String(row.pid),
    offset: row.offset,
    createdAt: isoTime(row.createdAtUs),
    dueAt: isoTime(row.dueUs),
  };
}

/** GET /api/v1/due */
export function listDue(exchange: Exchange, query: string): void {
  const filter = readParameters(exchange, query, readFilter);
  if (filter === null || !beginRead(exchange)) return;
  exchange.services.engine.due.list(
    filter,
    replyWith<DuePage>(exchange, ({ rows, next, waiting }) =>
      jsonAnswer(200, { messages: rows.map(rowJson), next: next === null ? null : placeText(next), waiting }),
    ),
  );
}

class MoveExchange extends SmallBodyExchange {
  protected readonly bodyName = 'bad due body';
  readonly #run: (exchange: MoveExchange, body: Uint8Array) => void;

  constructor(call: Call, run: (exchange: MoveExchange, body: Uint8Array) => void) {
    super(call.services, call.request, call.response);
    this.#run = run;
  }

  protected received(body: Uint8Array): void {
    this.#run(this, body);
  }
}

/** The time that a body asks for, as the engine takes it; a text is what is wrong. */
export function readDue(body: unknown): number | string {
  if (!isObject(body)) return 'the body must be a JSON object with dueAt or delayMs';
  const { dueAt, delayMs } = body as { dueAt?: unknown; delayMs?: unknown };
  if (dueAt !== undefined && delayMs !== undefined) return 'the body has both dueAt and delayMs: send one of them';
  if (delayMs !== undefined) {
    if (typeof delayMs === 'number' && Number.isInteger(delayMs) && delayMs >= 0) return -1 - delayMs * usPerMs;
    return 'delayMs must be a whole number of milliseconds from 0 on';
  }
  if (dueAt === undefined) return 'the body must have dueAt or delayMs';
  if (typeof dueAt === 'number' && Number.isInteger(dueAt) && dueAt >= 0) return dueAt * usPerMs;
  const us = typeof dueAt === 'string' ? parseIsoTime(dueAt) : undefined;
  return us === undefined ? 'dueAt must be an ISO-8601 time or milliseconds since 1970' : Math.max(us, 0);
}

/** Which message a path names, by the number of its names: its id; partition id and id; queue, partition and id. */
function named(identity: BrokerIdentity, names: readonly string[]): Omit<DueChangeRequest, 'due'> | string {
  const name = names.at(-1) ?? '';
  if (name === '') return 'the path ends with the transactionId or the message id';
  if (names.length === 1) return { partition: null, name };
  if (names.length === 3) return { partition: { queue: names[0], partition: names[1] || 'Default' }, name };
  const partition = readPartitionRef(identity, names[0]);
  return partition === null
    ? 'the partition id is neither a decimal number nor a UUID of a partition'
    : { partition, name };
}

function change(exchange: Exchange, names: readonly string[], due: number | null): void {
  const message = named(exchange.services.engine.identity, names);
  if (typeof message === 'string') {
    exchange.fail('bad_request', message);
    return;
  }
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  engine.due.change(
    { ...message, due },
    replyWith<ChangedDue>(exchange, ({ pid, offset, dueUs, changed }) =>
      jsonAnswer(200, {
        success: true,
        partitionId: String(pid),
        offset,
        cancelled: due === null,
        dueAt: due === null ? null : isoTime(dueUs),
        changed,
      }),
    ),
  );
}

/** POST /api/v1/due/… */
export function moveDue(call: Call): void {
  const run = (exchange: MoveExchange, body: Uint8Array): void => {
    const due = readDue(parseJson(body));
    if (typeof due === 'string') exchange.fail('bad_request', due);
    else change(exchange, call.names, due);
  };
  new MoveExchange(call, run).start();
}

/** DELETE /api/v1/due/… */
export function cancelDue(call: Call): void {
  change(new Exchange(call.services, call.request, call.response).ignoreBody(), call.names, null);
}
