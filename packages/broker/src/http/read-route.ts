/** What the routes that read have in common: their parameters, the memory for their answers, the answer itself. */

import { limits } from '@lanemq/protocol';
import type { PartitionPage, Reply } from '../runtime/mod.ts';
import type { Exchange } from './exchange.ts';
import { BadParameter, QueryParameters } from './query-parameters.ts';

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

export const queueNotFound = jsonAnswer(404, { error: 'Queue not found', code: 'not_found' });

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
