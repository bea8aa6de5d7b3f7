/**
 * GET /api/v1/pop/queue/{queue}, …/partition/{partition}, and /api/v1/pop (discover).
 *
 * A client that goes away before its answer has left cancels the pop: what was claimed for it is handed back.
 */

import { errorTable } from '@lanemq/protocol';
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
    if (!supervisor.hasRoomForAnswer()) {
      this.fail('retry', 'too many answer bytes that clients have not read yet');
      return;
    }
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
    const { writer, popAnswers } = this.services;
    writer.reset();
    try {
      popAnswers.write(outcome);
    } catch (error) {
      if (!(error instanceof Undecipherable)) throw error;
      this.#giveBack(error);
      return;
    }
    this.#answer = writer.take();
  }

  /** What cannot be shown must not be delivered: the claim is handed back, for a broker that has the key. */
  #giveBack(error: Undecipherable): void {
    this.services.options.log({ level: 'error', text: `a pop cannot be answered: ${error.message}` });
    this.fail('internal', error.message);
    this.#cancel?.();
    this.#cancel = null;
  }

  send(failure: Refusal | null): void {
    this.#cancel = null;
    if (failure === null) {
      if (this.#answer === null) this.answerEmpty();
      else this.answerJson(200, this.#answer);
      this.#answer = null;
    } else if (errorTable[failure.code].status === 400) {
      this.refusePop(failure.message);
    } else {
      this.refuse(failure);
    }
  }

  #closed(): void {
    const cancel = this.#cancel;
    if (cancel === null) return;
    this.#cancel = null;
    this.answered = true;
    this.services.counters.popsAbandoned++;
    cancel();
  }
}
