/**
 * Reads of many rows, in slices: a queue can have a million partitions, and a walk over them must not hold up the pushes
 * that arrive meanwhile. All walks of a turn share one budget of rows; a walk that has used it up goes on in the next turn.
 *
 * What a walk saw first may have changed when it ends: its sums are those of a moment only while nothing changes. Rows that
 * were removed meanwhile are left out, because a walk finds its place again by number and not by index.
 */
import type { Refusal } from '../core/mod.ts';
import type { Reply } from './engine.ts';
import { isRefusal, type Operation } from './operations.ts';
import { FetchedFacts } from './store-access.ts';

/** Rows of one turn, over all walks: one to two milliseconds. */
export const walkRowsPerTurn = 5000;

/** Rows that a walk looks at before it reports them. */
export const walkStepRows = 500;

export class WalkBudget {
  #turn = -1;
  #left = 0;

  /** Rows left in this turn. */
  left(turn: number): number {
    if (turn !== this.#turn) {
      this.#turn = turn;
      this.#left = walkRowsPerTurn;
    }
    return this.#left;
  }

  spend(rows: number): void {
    this.#left -= rows;
  }
}

/** Yields how many rows it has looked at since the last time; returns its outcome. */
export type Walk<Outcome> = Generator<number, Outcome | Refusal, undefined>;

export class WalkOperation<Outcome extends object | null> implements Operation {
  readonly facts = new FetchedFacts();
  readonly #budget: WalkBudget;
  readonly #turn: () => number;
  readonly #begin: () => Walk<Outcome>;
  readonly #reply: Reply<Outcome>;
  #walk: Walk<Outcome> | null = null;
  #refusal: Refusal | null = null;

  /** @param turn number of the turn that is running */
  constructor(budget: WalkBudget, turn: () => number, begin: () => Walk<Outcome>, reply: Reply<Outcome>) {
    this.#budget = budget;
    this.#turn = turn;
    this.#begin = begin;
    this.#reply = reply;
  }

  decide(): 'done' | 'later' {
    this.#walk ??= this.#begin();
    while (this.#budget.left(this.#turn()) > 0) {
      const step = this.#walk.next();
      if (step.done !== true) {
        this.#budget.spend(step.value);
        continue;
      }
      // Even the shortest walk costs something: many of them must not share a turn for nothing.
      this.#budget.spend(1);
      if (isRefusal(step.value)) this.#refusal = step.value;
      else this.#reply.encode(step.value);
      return 'done';
    }
    return 'later';
  }

  release(failure: Refusal | null): void {
    this.#reply.send(failure ?? this.#refusal);
  }
}
