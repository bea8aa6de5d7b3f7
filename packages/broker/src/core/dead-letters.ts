/** Dead letters: rows that refer to a record by (pid, offset). Kept in the order of filing. */
import type { DeadLetterRecord } from './records.ts';

export class DeadLetters {
  /** In filing order; a removed queue's rows are gone. */
  readonly #rows: DeadLetterRecord[] = [];
  /** Offsets that rows refer to, by pid; in the order of filing, one for each row. */
  readonly #offsets = new Map<number, number[]>();

  get count(): number {
    return this.#rows.length;
  }

  add(row: DeadLetterRecord): void {
    this.#rows.push(row);
    const offsets = this.#offsets.get(row.pid);
    if (offsets === undefined) this.#offsets.set(row.pid, [row.offset]);
    else offsets.push(row.offset);
  }

  /** True when a row refers to a record of the partition in [from, to). */
  refersTo(pid: number, from: number, to: number): boolean {
    const offsets = this.#offsets.get(pid);
    return offsets?.some((offset) => offset >= from && offset < to) ?? false;
  }

  /** True when a row refers to any record of the partition. */
  refersToPartition(pid: number): boolean {
    return this.#offsets.has(pid);
  }

  removeQueue(queueNumber: number): void {
    let kept = 0;
    for (const row of this.#rows) {
      if (row.queueNumber !== queueNumber) this.#rows[kept++] = row;
      else this.#offsets.delete(row.pid);
    }
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
