/**
 * GET /api/v1/pop/queue/{queue}, …/partition/{partition}, and /api/v1/pop (discover).
 *
 * A client that goes away before its answer has left cancels the pop: what was claimed for it is handed back.
 */

import { errorTable } from '@lanemq/protocol';
import { recordBytes } from '../codec/mod.ts';
import type { PopOutcome, Refusal } from '../core/mod.ts';
import type { PopRequest, Reply } from '../runtime/mod.ts';
import { Exchange } from './exchange.ts';
import { Undecipherable } from './pop-answer.ts';
import { readPopRequest } from './pop-parameters.ts';
import { BadParameter } from './query-parameters.ts';

/** Refusals of a pop have a shape of their own, older than the error body. */
function refusalBody(message: string): Uint8Array {
  return Buffer.from(JSON.stringify({ success: false, error: message, messages: [] }));
}

export class PopExchange extends Exchange implements Reply<PopOutcome> {
  /** null = nothing to deliver. */
  #answer: Uint8Array | null = null;
  #cancel: (() => void) | null = null;

  /** @param target null for a discover pop */
  start(target: PopRequest['target'] | null, query: string): void {
    const { engine, options, supervisor } = this.services;
    let request: PopRequest;
    try {
      request = readPopRequest(target, query, options.defaultSubscriptionMode);
    } catch (error) {
      if (!(error instanceof BadParameter)) throw error;
      this.refusePop(error.message);
      return;
    }
    // Readers that have kept much of the memory for answers waiting for long are cut now, before they are in the way.
    supervisor.hasRoomForAnswer();
    const cancel = engine.pop(request, this);
    if (this.answered) return;
    this.#cancel = cancel;
    this.response.once('close', () => this.#closed());
  }

  /** 400 in the shape that clients of a pop expect. */
  refusePop(message: string): void {
    this.failWith(400, refusalBody(message));
  }

  encode(outcome: PopOutcome): void {
    if (this.answered) return;
    if (outcome.runs.length === 0 && !outcome.conflation && !outcome.conflationConflict) return;
    const { writer, popAnswers, supervisor, options } = this.services;
    // A small answer is made in any case: one client that does not read must not stop those that do. What is committed
    // on delivery cannot be handed back, so its answer is made too.
    if (outcome.leaseStamp > 0 && deliveredBytes(outcome) > smallAnswerBytes && !supervisor.hasRoomForAnswer()) {
      this.failWithoutRoom();
      this.#handBack();
      return;
    }
    writer.reset();
    try {
      popAnswers.write(outcome);
    } catch (error) {
      if (!(error instanceof Undecipherable)) throw error;
      // What cannot be shown must not be delivered: it stays for a broker that has the key.
      options.log({ level: 'error', text: `a pop cannot be answered: ${error.message}` });
      this.fail('internal', error.message);
      this.#handBack();
      return;
    }
    this.#answer = this.services.takeAnswer();
    supervisor.heldBytes += this.#answer.length;
  }

  send(failure: Refusal | null): void {
    this.#cancel = null;
    const answer = this.#takeAnswer();
    if (failure === null) {
      if (answer === null) this.answerEmpty();
      else this.answerJson(200, answer);
    } else if (errorTable[failure.code].status === 400) {
      this.refusePop(failure.message);
    } else {
      this.refuse(failure);
    }
  }

  #takeAnswer(): Uint8Array | null {
    const answer = this.#answer;
    this.#answer = null;
    if (answer !== null) this.services.supervisor.heldBytes -= answer.length;
    return answer;
  }

  #handBack(): void {
    const cancel = this.#cancel;
    this.#cancel = null;
    cancel?.();
  }

  #closed(): void {
    if (this.#cancel === null) return;
    this.#takeAnswer();
    this.answered = true;
    this.services.counters.popsAbandoned++;
    this.#handBack();
  }
}

/** Messages that fit a connection's own buffers: their answer hardly ever waits for the client. */
const smallAnswerBytes = 64 * 1024;

/** Stored bytes of what is delivered. */
function deliveredBytes(outcome: PopOutcome): number {
  let bytes = 0;
  for (const run of outcome.runs) for (const piece of run.pieces) bytes += recordBytes(piece);
  return bytes;
}
