/** Routes about queues: configure, list, detail, delete. */

import { limits } from '@lanemq/protocol';
import type { Refusal } from '../core/mod.ts';
import type { ConfiguredQueue, PartitionPage, QueueDetail, QueueList, Reply } from '../runtime/mod.ts';
import { readConfigureBody } from './configure-body.ts';
import type { Exchange } from './exchange.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';
import { configuredJson, laneJson, queueDetailJson, summaryJson } from './queue-json.ts';
import { parseJson, SmallBodyExchange } from './small-body.ts';

/** POST /api/v1/configure */
export class ConfigureExchange extends SmallBodyExchange implements Reply<ConfiguredQueue> {
  protected readonly bodyName = 'bad configure body';
  #answer: object = {};

  protected received(body: Uint8Array): void {
    const read = readConfigureBody(parseJson(body));
    if (!read.ok) {
      this.fail('bad_request', read.message);
      return;
    }
    this.services.supervisor.handedOver(this);
    this.services.engine.configureQueue(read.request, this);
  }

  encode(outcome: ConfiguredQueue): void {
    this.#answer = configuredJson(outcome);
  }

  send(failure: Refusal | null): void {
    if (failure === null) this.answerValue(200, this.#answer);
    else this.refuse(failure);
  }
}

/**
 * A reply whose answer is made of the outcome by a function. For routes that are not asked often.
 * `answer` runs while the outcome is valid and returns status and body.
 */
export function replyWith<Outcome>(
  exchange: Exchange,
  answer: (outcome: Outcome) => { readonly status: number; readonly body: Uint8Array },
): Reply<Outcome> {
  let made: { readonly status: number; readonly body: Uint8Array } | null = null;
  return {
    encode(outcome) {
      made = answer(outcome);
    },
    send(failure) {
      if (failure !== null) exchange.refuse(failure);
      else if (made !== null) exchange.answerJson(made.status, made.body);
      else exchange.fail('internal', 'the engine gave no answer');
    },
  };
}

/** Puts a request for something large under supervision; false when there is no memory for its answer, and it was told so. */
export function beginRead(exchange: Exchange): boolean {
  const { services } = exchange;
  if (!services.supervisor.hasRoomForAnswer()) {
    exchange.failWithoutRoom();
    return false;
  }
  // What they collect is not counted before it is an answer, and a client that went away does not end it.
  if (services.readsRunning >= limits.readsAtOnceMax) {
    exchange.fail('retry', `${services.readsRunning} large reads are running, which is the limit`);
    return false;
  }
  services.readsRunning++;
  exchange.isLargeRead = true;
  services.supervisor.handedOver(exchange);
  return true;
}

/** Status and body of an answer that is a JSON value. */
export function jsonAnswer(status: number, value: object): { status: number; body: Uint8Array } {
  return { status, body: Buffer.from(JSON.stringify(value)) };
}

/** Reads the parameters of a request; null when one cannot be read, and the client was told so. */
export function readParameters<Read>(
  exchange: Exchange,
  query: string,
  read: (parameters: QueryParameters) => Read,
): Read | null {
  try {
    return read(new QueryParameters(query));
  } catch (error) {
    if (!(error instanceof BadParameter)) throw error;
    exchange.fail('bad_request', error.message);
    return null;
  }
}

/** A whole number between bounds; one outside of them is moved to the nearest. */
export function clamped(value: number | null, fallback: number, max: number, min = 1): number {
  return Math.min(Math.max(value ?? fallback, min), max);
}

/** `limit` and `offset`. */
export function readPage(
  parameters: QueryParameters,
  fallback: number,
  max: number,
): { limit: number; offset: number } {
  return {
    limit: clamped(parameters.integer('limit'), fallback, max),
    offset: clamped(parameters.integer('offset'), 0, Number.MAX_SAFE_INTEGER, 0),
  };
}

/** `partitionsLimit`, and `partitionsAfter`: the number of the last partition of the page before. */
export function readPartitionPage(parameters: QueryParameters): PartitionPage {
  return {
    limit: clamped(parameters.integer('partitionsLimit'), limits.partitionsPageDefault, limits.partitionsPageMax),
    after: clamped(parameters.integer('partitionsAfter'), 0, Number.MAX_SAFE_INTEGER, 0),
  };
}

/** GET /api/v1/resources/queues, with `stats=lanes` in its cheap form. */
export function listQueues(exchange: Exchange, query: string): void {
  const read = readParameters(exchange, query, (parameters) => ({
    isCheap: parameters.text('stats') === 'lanes',
    page: readPage(parameters, limits.queuesPageDefault, limits.queuesPageMax),
  }));
  if (read === null || !beginRead(exchange)) return;
  const { isCheap, page } = read;
  const rows: string[] = [];
  const reply = replyWith<QueueList>(exchange, ({ total, isWhole }) => {
    const end = {
      ...(isCheap ? { stats: 'lanes' } : { kvRows: 0, kvBytes: 0, timerRows: 0, timerBytes: 0 }),
      total,
      queuesTruncated: !isWhole,
    };
    // The rows are text already: a long list is not made in one piece.
    const text = `{"queues":[${rows.join(',')}],${JSON.stringify(end).slice(1)}`;
    return { status: 200, body: Buffer.from(text) };
  });
  const toJson = isCheap ? laneJson : summaryJson;
  exchange.services.engine.views.listQueues(
    { ...page, counted: !isCheap },
    { ...reply, row: (queue) => rows.push(JSON.stringify(toJson(queue))) },
  );
}

export const queueNotFound = jsonAnswer(404, { error: 'Queue not found', code: 'not_found' });

/** GET /api/v1/resources/queues/{queue} */
export function queueDetail(exchange: Exchange, queue: string, query: string): void {
  const page = readParameters(exchange, query, readPartitionPage);
  if (page === null || !beginRead(exchange)) return;
  const { engine } = exchange.services;
  engine.queueDetail(
    queue,
    replyWith<QueueDetail | null>(exchange, (detail) =>
      detail === null ? queueNotFound : jsonAnswer(200, queueDetailJson(detail)),
    ),
    page,
  );
}

/** DELETE /api/v1/resources/queues/{queue} */
export function deleteQueue(exchange: Exchange, queue: string): void {
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  engine.deleteQueue(
    queue,
    replyWith<{ existed: boolean }>(exchange, ({ existed }) =>
      jsonAnswer(
        200,
        existed
          ? { deleted: true, existed: true, queue }
          : { deleted: false, existed: false, queue, message: 'Queue not found, nothing was deleted' },
      ),
    ),
  );
}
