/**
 * An operation that is too long for one turn: it is decided slice by slice, one in each turn, and answered when the last
 * one is done. What happens between two slices is seen by the next one. Slices that were made durable stay when a later
 * one fails: such an operation must be safe to repeat.
 */
import type { NeedsLoad, Refusal } from '../core/mod.ts';
import type { Reply } from './engine.ts';
import { isNeedsLoad, isRefusal, type Operation, refusals } from './operations.ts';
import { FetchedFacts } from './store-access.ts';
import { rowsPerTurn, type TurnHost } from './turn-budget.ts';

/** A slice is not counted in rows: it is taken for half of what a turn takes on. */
const sliceRows = rowsPerTurn / 2;

/** What a slice answers when there is more to do in the next turn. */
export const unfinished = { ok: 'unfinished' } as const;
export type Unfinished = typeof unfinished;

export abstract class SlicedOperation<Outcome extends object | null> implements Operation {
  readonly facts = new FetchedFacts();
  /** Set by a slice that changes something. */
  protected changed = false;
  readonly #turns: TurnHost;
  readonly #reply: Reply<Outcome>;
  #refusal: Refusal | null = null;

  constructor(turns: TurnHost, reply: Reply<Outcome>) {
    this.#turns = turns;
    this.#reply = reply;
  }

  /** Does a bounded piece of the work. */
  protected abstract slice(): Outcome | Refusal | NeedsLoad | Unfinished;

  decide(): 'done' | 'needs-load' | 'later' {
    const { turn, turnBudget } = this.#turns;
    if (turnBudget.left(turn) <= 0) return 'later';
    turnBudget.spend(sliceRows);
    const outcome = this.slice();
    if (outcome === unfinished) return 'later';
    if (isNeedsLoad(outcome as object | null)) return 'needs-load';
    if (isRefusal(outcome as object | null)) this.#refusal = outcome as Refusal;
    else this.#reply.encode(outcome as Outcome);
    return 'done';
  }

  release(failure: Refusal | null): void {
    // The slices before may have been made durable, so "nothing was done" would not be true.
    if (failure !== null && this.changed) this.#reply.send(refusals.outcomeUnknown);
    else this.#reply.send(failure ?? this.#refusal);
  }
}
