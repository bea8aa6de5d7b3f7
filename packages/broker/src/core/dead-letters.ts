/** Dead letters: rows that refer to a record by (pid, offset). Kept in the order of filing. */
import type { DeadLetterRecord } from './records.ts';

export class DeadLetters {
  /** In filing order; a removed queue's rows are gone. */
  readonly #rows: DeadLetterRecord[] = [];

  get count(): number {
    return this.#rows.length;
  }

  add(row: DeadLetterRecord): void {
    this.#rows.push(row);
  }

  removeQueue(queueNumber: number): void {
    let kept = 0;
    for (const row of this.#rows) if (row.queueNumber !== queueNumber) this.#rows[kept++] = row;
    this.#rows.length = kept;
  }

  all(): readonly DeadLetterRecord[] {
    return this.#rows;
  }

  /** Rows that match, newest first: a page of them and how many there are. */
  page(
    matches: (row: DeadLetterRecord) => boolean,
    offset: number,
    limit: number,
  ): { rows: DeadLetterRecord[]; total: number } {
    const rows: DeadLetterRecord[] = [];
    let total = 0;
    for (let i = this.#rows.length - 1; i >= 0; i--) {
      const row = this.#rows[i] as DeadLetterRecord;
      if (!matches(row)) continue;
      if (total >= offset && rows.length < limit) rows.push(row);
      total++;
    }
    return { rows, total };
  }
}
