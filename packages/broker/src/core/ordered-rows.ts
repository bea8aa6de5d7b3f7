/**
 * Row numbers in the order of a comparison, kept in chunks: a row is found, put in or taken out in O(log n), and the
 * rows of a range lie side by side. About 6 bytes a row.
 *
 * The comparison must order all rows strictly, and must not change for a row while it is in here.
 */
import { assert } from './assert.ts';

const chunkRows = 256;

interface Chunk {
  readonly rows: Int32Array;
  count: number;
}

/** Where a row stands; positions are valid until the next change. */
interface Position {
  chunk: number;
  at: number;
}

export class OrderedRows {
  /** None of them is empty. */
  readonly #chunks: Chunk[] = [];
  readonly #compare: (a: number, b: number) => number;
  readonly #found: Position = { chunk: 0, at: 0 };
  #size = 0;

  /** @param compare < 0 when row `a` comes before row `b`, 0 only when they are the same. */
  constructor(compare: (a: number, b: number) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#size;
  }

  /** The lowest row; −1 when there is none. */
  get first(): number {
    return this.#chunks.length === 0 ? -1 : this.#chunks[0].rows[0];
  }

  /** Puts `#found` on the first row that does not come before `row`. */
  #seek(row: number): Position {
    const chunks = this.#chunks;
    const compare = this.#compare;
    let low = 0;
    let high = chunks.length;
    // The first chunk whose last row does not come before it.
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { rows, count } = chunks[middle];
      if (compare(rows[count - 1], row) < 0) low = middle + 1;
      else high = middle;
    }
    this.#found.chunk = low;
    this.#found.at = 0;
    if (low === chunks.length) return this.#found;
    const { rows, count } = chunks[low];
    let from = 0;
    let to = count;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (compare(rows[middle], row) < 0) from = middle + 1;
      else to = middle;
    }
    this.#found.at = from;
    return this.#found;
  }

  /** The first row that does not come before `row`, which need not be in here; −1 when there is none. */
  atOrAfter(row: number): number {
    const { chunk, at } = this.#seek(row);
    return chunk === this.#chunks.length ? -1 : this.#chunks[chunk].rows[at];
  }

  add(row: number): void {
    const chunks = this.#chunks;
    if (chunks.length === 0) chunks.push({ rows: new Int32Array(chunkRows), count: 0 });
    const position = this.#seek(row);
    let { chunk: index, at } = position;
    if (index === chunks.length) {
      index--;
      at = chunks[index].count;
    }
    let chunk = chunks[index];
    if (chunk.count === chunkRows) {
      // One that is filled from below stays full; another is cut in the middle.
      const keep = index === chunks.length - 1 && at === chunkRows ? chunkRows : chunkRows >>> 1;
      const upper: Chunk = { rows: new Int32Array(chunkRows), count: chunkRows - keep };
      upper.rows.set(chunk.rows.subarray(keep));
      chunk.count = keep;
      chunks.splice(index + 1, 0, upper);
      if (at >= keep) {
        at -= keep;
        chunk = upper;
      }
    }
    chunk.rows.copyWithin(at + 1, at, chunk.count);
    chunk.rows[at] = row;
    chunk.count++;
    this.#size++;
  }

  remove(row: number): void {
    const { chunk: index, at } = this.#seek(row);
    const chunk = this.#chunks[index];
    assert(chunk !== undefined && chunk.rows[at] === row, 'only a row that is there is taken out');
    chunk.rows.copyWithin(at, at + 1, chunk.count);
    chunk.count--;
    this.#size--;
    if (chunk.count === 0) this.#chunks.splice(index, 1);
    else if (chunk.count < chunkRows >>> 2) this.#join(index);
  }

  /** Joins a small chunk with the next one when both fit into half of one. */
  #join(index: number): void {
    const chunk = this.#chunks[index];
    const next = this.#chunks[index + 1];
    if (next === undefined || chunk.count + next.count > chunkRows >>> 1) return;
    chunk.rows.set(next.rows.subarray(0, next.count), chunk.count);
    chunk.count += next.count;
    this.#chunks.splice(index + 1, 1);
  }

  /** Visits rows in order, from the first that does not come before `row`, until `visit` says stop by false. */
  forEachFrom(row: number, visit: (row: number) => boolean): void {
    const { chunk, at } = this.#seek(row);
    for (let index = chunk, i = at; index < this.#chunks.length; index++, i = 0) {
      const { rows, count } = this.#chunks[index];
      for (; i < count; i++) if (!visit(rows[i])) return;
    }
  }

  /** Visits rows in reverse, from the last that does not come behind `row`, until `visit` says stop by false. */
  forEachBackFrom(row: number, visit: (row: number) => boolean): void {
    let { chunk: index, at } = this.#seek(row);
    const chunks = this.#chunks;
    const isThere = index < chunks.length && this.#compare(chunks[index].rows[at], row) === 0;
    if (!isThere) at--;
    for (;;) {
      if (at < 0) {
        if (--index < 0) return;
        at = chunks[index].count - 1;
      }
      if (!visit(chunks[index].rows[at])) return;
      at--;
    }
  }

  *all(): Generator<number> {
    for (const { rows, count } of this.#chunks) for (let i = 0; i < count; i++) yield rows[i];
  }
}
