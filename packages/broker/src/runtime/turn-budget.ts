/**
 * How much long work one turn takes on: all that is done in slices, walks and sliced operations alike, shares it. Without
 * it, many long reads at a time would each take their slice of the same turn, and pushes would wait for all of them.
 */

/** Rows of one turn: one to two milliseconds. */
export const rowsPerTurn = 5000;

export class TurnBudget {
  #turn = -1;
  #left = 0;

  /** Rows left in this turn. */
  left(turn: number): number {
    if (turn !== this.#turn) {
      this.#turn = turn;
      this.#left = rowsPerTurn;
    }
    return this.#left;
  }

  spend(rows: number): void {
    this.#left -= rows;
  }
}

/** Who runs turns. */
export interface TurnHost {
  /** Number of the turn that is running. */
  readonly turn: number;
  readonly turnBudget: TurnBudget;
}
