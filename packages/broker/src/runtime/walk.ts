/**
 * Reads of many rows, in slices: a queue can have a million partitions, and a walk over them must not hold up the pushes
 * that arrive meanwhile. A walk that finds the budget of its turn used up goes on in the next one.
 *
 * What a walk saw first may have changed when it ends: its sums are those of a moment only while nothing changes. Rows that
 * were removed meanwhile are left out, because a walk finds its place again by number and not by index.
 */
import type { Refusal } from '../core/mod.ts';
import type { Reply } from './engine.ts';
import { isRefusal, type Operation } from './operations.ts';
import { FetchedFacts } from './store-access.ts';
import type { TurnHost } from './turn-budget.ts';

/** Rows that a walk looks at before it reports them. */
export const walkStepRows = 500;

/** Yields how many rows it has looked at since the last time; returns its outcome. */
export type Walk<Outcome> = Generator<number, Outcome | Refusal, undefined>;

export class WalkOperation<Outcome extends object | null> implements Operation {
  readonly facts = new FetchedFacts();
  readonly #host: TurnHost;
  readonly #begin: () => Walk<Outcome>;
  readonly #reply: Reply<Outcome>;
  #walk: Walk<Outcome> | null = null;
  #refusal: Refusal | null = null;

  constructor(host: TurnHost, begin: () => Walk<Outcome>, reply: Reply<Outcome>) {
    this.#host = host;
    this.#begin = begin;
    this.#reply = reply;
  }

  decide(): 'done' | 'later' {
    const { turn, turnBudget } = this.#host;
    this.#walk ??= this.#begin();
    while (turnBudget.left(turn) > 0) {
      const step = this.#walk.next();
      if (step.done !== true) {
        turnBudget.spend(step.value);
        continue;
      }
      // Even the shortest walk costs something: many of them must not share a turn for nothing.
      turnBudget.spend(1);
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
