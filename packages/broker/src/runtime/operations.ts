/**
 * What waits in a shard's queue. An operation is decided (perhaps several times, when something must be fetched or it
 * waits for work), then its reply is held until what it saw is durable.
 */
import type { NeedsLoad, Refusal } from '../core/mod.ts';
import { FetchedFacts } from './store-access.ts';

export interface Operation {
  /** Facts fetched for it. */
  readonly facts: FetchedFacts;
  /** Makes the decision. 'done' = the reply was encoded (or refused) and can go once durable. */
  decide(): 'done' | 'needs-load' | 'later' | 'parked';
  /** The answer may leave, or must be a failure. Called at most once. */
  release(failure: Refusal | null): void;
}

interface AnyReply<Outcome> {
  encode(outcome: Outcome): void;
  send(failure: Refusal | null): void;
}

/** An operation that is one function of the state. */
export class SimpleOperation<Outcome extends object | null> implements Operation {
  readonly facts = new FetchedFacts();
  readonly #decide: () => Outcome | Refusal | NeedsLoad;
  readonly #reply: AnyReply<Outcome>;
  #refusal: Refusal | null = null;

  constructor(decide: () => Outcome | Refusal | NeedsLoad, reply: AnyReply<Outcome>) {
    this.#decide = decide;
    this.#reply = reply;
  }

  decide(): 'done' | 'needs-load' {
    const outcome = this.#decide();
    if (isNeedsLoad(outcome)) return 'needs-load';
    if (isRefusal(outcome)) this.#refusal = outcome;
    else this.#reply.encode(outcome);
    return 'done';
  }

  release(failure: Refusal | null): void {
    this.#reply.send(failure ?? this.#refusal);
  }
}

export function isRefusal(outcome: object | null): outcome is Refusal {
  return outcome !== null && 'ok' in outcome && outcome.ok === false;
}

export function isNeedsLoad(outcome: object | null): outcome is NeedsLoad {
  return outcome !== null && 'ok' in outcome && outcome.ok === 'needs-load';
}

/** Why nothing was done, for operations that a failure or a stop caught before their decision. */
export const refusals = {
  retry: { ok: false, code: 'retry', message: 'the broker is reloading its log: try again', retryAfterSeconds: 1 },
  stopping: { ok: false, code: 'stopping', message: 'the broker is shutting down', retryAfterSeconds: 1 },
  outcomeUnknown: {
    ok: false,
    code: 'outcome_unknown',
    message:
      'the log failed while this was being made durable: it may or may not have been done; repeating it is safe with a transactionId or a leaseId',
    retryAfterSeconds: 1,
  },
} as const satisfies Record<string, Refusal>;
