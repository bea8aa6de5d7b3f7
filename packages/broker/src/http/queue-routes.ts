/** Routes about queues: configure, list, detail, delete. */

import { limits } from '@lanemq/protocol';
import type { Refusal } from '../core/mod.ts';
import type { ConfiguredQueue, QueueDetail, QueueList, Reply } from '../runtime/mod.ts';
import { readConfigureBody } from './configure-body.ts';
import type { Exchange } from './exchange.ts';
import { configuredJson, laneJson, queueDetailJson, summaryJson } from './queue-json.ts';
import {
  beginRead,
  jsonAnswer,
  queueNotFound,
  readPage,
  readParameters,
  readPartitionPage,
  replyWith,
} from './read-route.ts';
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
    {
      ...reply,
      rows: (queues) => {
        for (const queue of queues) rows.push(JSON.stringify(toJson(queue)));
      },
    },
  );
}

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
