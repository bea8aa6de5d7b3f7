/** Routes about queues: configure, list, detail, delete. */

import type { Refusal } from '../core/mod.ts';
import type { QueueDetail, QueueSummary, Reply } from '../runtime/mod.ts';
import { readConfigureBody } from './configure-body.ts';
import type { Exchange } from './exchange.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';
import { configuredJson, laneListJson, queueDetailJson, queueListJson } from './queue-json.ts';
import { parseJson, SmallBodyExchange } from './small-body.ts';

/** POST /api/v1/configure */
export class ConfigureExchange extends SmallBodyExchange implements Reply<QueueDetail> {
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

  encode(outcome: QueueDetail): void {
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
  const { supervisor } = exchange.services;
  if (!supervisor.hasRoomForAnswer()) {
    exchange.failWithoutRoom();
    return false;
  }
  supervisor.handedOver(exchange);
  return true;
}

/** Status and body of an answer that is a JSON value. */
export function jsonAnswer(status: number, value: object): { status: number; body: Uint8Array } {
  return { status, body: Buffer.from(JSON.stringify(value)) };
}

/** GET /api/v1/resources/queues, with `stats=lanes` in its cheap form. */
export function listQueues(exchange: Exchange, query: string): void {
  let stats: string | null;
  try {
    stats = new QueryParameters(query).text('stats');
  } catch (error) {
    if (!(error instanceof BadParameter)) throw error;
    exchange.fail('bad_request', error.message);
    return;
  }
  const toJson = stats === 'lanes' ? laneListJson : queueListJson;
  if (!beginRead(exchange)) return;
  const { engine } = exchange.services;
  engine.listQueues(replyWith<readonly QueueSummary[]>(exchange, (queues) => jsonAnswer(200, toJson(queues))));
}

/** GET /api/v1/resources/queues/{queue} */
export function queueDetail(exchange: Exchange, queue: string): void {
  if (!beginRead(exchange)) return;
  const { engine } = exchange.services;
  engine.queueDetail(
    queue,
    replyWith<QueueDetail | null>(exchange, (detail) =>
      detail === null
        ? jsonAnswer(404, { error: 'Queue not found', code: 'not_found' })
        : jsonAnswer(200, queueDetailJson(detail)),
    ),
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
