/**
 * Routes that change dead letters:
 *
 *   POST   /api/v1/dlq/{id}/replay                         replay one
 *   POST   /api/v1/messages/{partitionId}/{transactionId}/retry   the same, by the message's address
 *   DELETE /api/v1/messages/{partitionId}/{transactionId}  delete those of an address
 *   DELETE /api/v1/dlq?queue=[&consumerGroup=]             delete those of a queue or group
 *   POST   /api/v1/dlq/redrive                             replay many: a job; with `dryRun` only count them
 *   GET    /api/v1/dlq/redrive, /api/v1/dlq/redrive/{id}   the jobs
 *   DELETE /api/v1/dlq/redrive/{id}                        cancel one
 */
import { errorTable } from '@lanemq/protocol';
import type { BrokerIdentity, Refusal } from '../core/mod.ts';
import {
  type DeadLetterAddress,
  type RedriveRequest,
  type RedriveView,
  type ReplayOutcome,
  type ReplayTarget,
  type Reply,
  readPartitionRef,
} from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { isoTime, parseIsoTime } from './iso-time.ts';
import { jsonAnswer, readParameters, replyWith } from './read-route.ts';
import { isObject, type JsonObject, parseJson, SmallBodyExchange } from './small-body.ts';

/** Message id of a replay that stored nothing. */
const noMessageId = '00000000-0000-0000-0000-000000000000';
const notFoundText = 'Message not found';

/** The body is not of the shape of its route. */
class BadBody extends Error {}

/** A body that may be left out; every other must be a JSON object. */
function objectOf(body: Uint8Array): JsonObject {
  if (body.length === 0) return {};
  const value = parseJson(body);
  if (value === undefined || !isObject(value)) throw new BadBody('the body must be a JSON object, or be left out');
  return value;
}

/** A name without the space around it; null when it is not there. */
function optionalName(source: JsonObject, name: string): string | null {
  const value = source[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string') throw new BadBody(`${name} must be a string`);
  const trimmed = value.trim();
  if (trimmed === '') throw new BadBody(`${name} must not be empty: leave it out to keep the message's own`);
  return trimmed;
}

function targetOf(source: JsonObject): ReplayTarget {
  return { queue: optionalName(source, 'queue'), partition: optionalName(source, 'partition') };
}

/** The address of a path: the partition by its number or its UUID. */
export function addressOf(
  identity: BrokerIdentity,
  [partitionId, transactionId]: readonly string[],
): DeadLetterAddress {
  return { partition: readPartitionRef(identity, partitionId), transactionId };
}

function replayAnswer(outcome: ReplayOutcome): { status: number; body: Uint8Array } {
  switch (outcome.result) {
    case 'gone':
      return jsonAnswer(404, { success: false, result: 'gone', error: notFoundText, code: 'not_found' });
    case 'refused': {
      const { code, message } = outcome.refusal;
      return jsonAnswer(409, { success: false, error: message, code, reason: code, dlqRowRemoved: false });
    }
    default: {
      const isMoved = outcome.result === 'moved';
      return jsonAnswer(200, {
        success: true,
        result: outcome.result,
        queue: outcome.queue,
        partition: outcome.partition,
        consumerGroup: outcome.group,
        dlqId: outcome.id,
        originalTransactionId: outcome.originalTransactionId,
        replayedAs: {
          index: 0,
          message_id: isMoved ? outcome.messageId : noMessageId,
          transaction_id: `dlq:${outcome.id}`,
          queueName: outcome.queue,
          status: isMoved ? 'queued' : 'duplicate',
          offset: outcome.offset,
        },
        dlqRowRemoved: isMoved,
      });
    }
  }
}

/** What a replay or delete is called by: a row id, or an address. */
export type ReplayOf = { readonly id: string } | { readonly address: DeadLetterAddress };

abstract class ChangeExchange<Outcome> extends SmallBodyExchange implements Reply<Outcome> {
  #answer: { status: number; body: Uint8Array } | null = null;

  protected abstract answerOf(outcome: Outcome): { status: number; body: Uint8Array };

  /** Runs what reads the body; what is wrong with it becomes a 400. */
  protected reading(read: () => void): void {
    try {
      read();
    } catch (error) {
      if (!(error instanceof BadBody)) throw error;
      this.refuseBody(error.message);
    }
  }

  protected refuseBody(message: string): void {
    const body = { success: false, error: message, code: 'bad_request' };
    this.failWith(errorTable.bad_request.status, Buffer.from(JSON.stringify(body)));
  }

  protected override badBody(reason: string): void {
    this.refuseBody(`${this.bodyName}: ${reason}`);
  }

  encode(outcome: Outcome): void {
    this.#answer = this.answerOf(outcome);
  }

  send(failure: Refusal | null): void {
    if (failure !== null) this.refuse(failure);
    else if (this.#answer !== null) this.answerJson(this.#answer.status, this.#answer.body);
    else this.fail('internal', 'the engine gave no answer');
  }
}

export class ReplayExchange extends ChangeExchange<ReplayOutcome> {
  protected readonly bodyName = 'bad replay body';
  #of: ReplayOf = { id: '' };

  startFor(of: ReplayOf): void {
    this.#of = of;
    this.start();
  }

  protected received(body: Uint8Array): void {
    this.reading(() => {
      const target = targetOf(objectOf(body));
      const { engine, supervisor } = this.services;
      supervisor.handedOver(this);
      if ('id' in this.#of) engine.deadLetterChanges.replay(this.#of.id, target, this);
      else engine.deadLetterChanges.replayAt(this.#of.address, target, this);
    });
  }

  protected answerOf(outcome: ReplayOutcome): { status: number; body: Uint8Array } {
    return replayAnswer(outcome);
  }
}

export function deleteAddress(exchange: Exchange, names: readonly string[]): void {
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  const [partitionId, transactionId] = names;
  const facts = { partitionId, transactionId };
  engine.deadLetterChanges.deleteAt(
    addressOf(engine.identity, names),
    replyWith<{ deleted: number }>(exchange, ({ deleted }) =>
      deleted > 0
        ? jsonAnswer(200, { success: true, ...facts, deleted })
        : jsonAnswer(404, {
            success: false,
            ...facts,
            error: notFoundText,
            code: 'not_found',
            message: 'there is no dead letter with this partitionId and transactionId',
          }),
    ),
  );
}

export function purgeDeadLetters(exchange: Exchange, query: string): void {
  const filter = readParameters(exchange, query, (parameters) => ({
    queue: parameters.name('queue'),
    group: parameters.name('consumerGroup'),
  }));
  if (filter === null) return;
  const { queue, group } = filter;
  if (queue === null) {
    const message = 'name the queue whose dead letters are to be deleted: ?queue=…';
    exchange.answerValue(400, { success: false, error: 'queue is required', message, code: 'bad_request' });
    return;
  }
  const { engine, supervisor } = exchange.services;
  supervisor.handedOver(exchange);
  const facts = { queue, consumerGroup: group };
  engine.deadLetterChanges.purge(
    queue,
    group,
    replyWith<{ deleted: number }>(exchange, ({ deleted }) => jsonAnswer(200, { success: true, ...facts, deleted })),
  );
}

function optionalText(source: JsonObject, name: string): string | null {
  const value = source[name];
  if (value === undefined || value === null || value === '') return null;
  if (typeof value !== 'string') throw new BadBody(`${name} must be a string`);
  return value;
}

function optionalTime(source: JsonObject, name: string): number | null {
  const text = optionalText(source, name);
  if (text === null) return null;
  const us = parseIsoTime(text);
  if (us === undefined) throw new BadBody(`${name} must be a time such as 2026-01-31T12:00:00Z`);
  return us;
}

function optionalCount(source: JsonObject, name: string): number | null {
  const value = source[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
    throw new BadBody(`${name} must be a whole number of at least 1`);
  }
  return value;
}

interface DestinationBody {
  readonly destination?: unknown;
  readonly dryRun?: unknown;
}

const redriveFields: ReadonlySet<string> = new Set([
  'queue',
  'consumerGroup',
  'error',
  'from',
  'to',
  'max',
  'perSecond',
  'destination',
  'dryRun',
]);

function redriveRequestOf(source: JsonObject): RedriveRequest & { dryRun: boolean } {
  // A misspelt filter would move what nobody meant.
  const unknown = Object.keys(source).find((name) => !redriveFields.has(name));
  if (unknown !== undefined) throw new BadBody(`${unknown} is not a field of a redrive`);
  const { destination = null, dryRun = false }: DestinationBody = source;
  if (typeof dryRun !== 'boolean') throw new BadBody('dryRun must be true or false');
  if (destination !== null && !isObject(destination)) throw new BadBody('destination must be an object');
  const queue = optionalText(source, 'queue');
  if (queue === null) throw new BadBody('queue is required');
  return {
    queue,
    group: optionalText(source, 'consumerGroup'),
    error: optionalText(source, 'error'),
    fromUs: optionalTime(source, 'from'),
    toUs: optionalTime(source, 'to'),
    max: optionalCount(source, 'max'),
    perSecond: optionalCount(source, 'perSecond'),
    target: targetOf(destination ?? {}),
    dryRun,
  };
}

function redriveJson(view: RedriveView): object {
  const { request } = view;
  const timeOrNull = (us: number | null): string | null => (us === null ? null : isoTime(us));
  return {
    id: view.id,
    state: view.state,
    queue: request.queue,
    consumerGroup: request.group,
    error: request.error,
    from: timeOrNull(request.fromUs),
    to: timeOrNull(request.toUs),
    max: request.max,
    perSecond: request.perSecond,
    destination: request.target,
    moved: view.moved,
    duplicates: view.duplicates,
    failed: view.failed,
    startedAt: isoTime(view.startedAtUs),
    endedAt: timeOrNull(view.endedAtUs || null),
    lastError: view.lastError === '' ? null : view.lastError,
  };
}

export class RedriveExchange extends ChangeExchange<RedriveView | { matched: number }> {
  protected readonly bodyName = 'bad redrive body';

  protected received(body: Uint8Array): void {
    this.reading(() => {
      const { dryRun, ...request } = redriveRequestOf(objectOf(body));
      const { engine, supervisor } = this.services;
      supervisor.handedOver(this);
      if (dryRun) engine.deadLetterChanges.countRedrive(request, this);
      else engine.deadLetterChanges.startRedrive(request, this);
    });
  }

  protected answerOf(outcome: RedriveView | { matched: number }): { status: number; body: Uint8Array } {
    return 'matched' in outcome
      ? jsonAnswer(200, { success: true, dryRun: true, matched: outcome.matched })
      : jsonAnswer(202, { success: true, redrive: redriveJson(outcome) });
  }
}

export function listRedrives(exchange: Exchange): void {
  const { engine } = exchange.services;
  exchange.answerValue(200, { redrives: engine.deadLetterChanges.redrives().map(redriveJson) });
}

function answerRedrive(exchange: Exchange, view: RedriveView | null): void {
  if (view !== null) exchange.answerValue(200, { success: true, redrive: redriveJson(view) });
  else exchange.fail('not_found', 'no redrive with this id since the broker was started');
}

export function showRedrive(exchange: Exchange, id: string): void {
  answerRedrive(exchange, exchange.services.engine.deadLetterChanges.redrive(id));
}

export function cancelRedrive(exchange: Exchange, id: string): void {
  answerRedrive(exchange, exchange.services.engine.deadLetterChanges.cancelRedrive(id));
}
