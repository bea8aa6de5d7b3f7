/**
 * Growing typed arrays. State that exists once per partition or cursor lives in columns of numbers, one array per
 * field, indexed by row: nothing for the garbage collector to walk, and memory that can be counted.
 * Memory that was never written is not resident: a capacity far beyond the need costs address space, not RAM, and
 * neither does a column in which nearly every row holds 0. So a broker starts with room for a million rows, and a fresh
 * row is not filled with zeros again.
 */
export function grownFloat64(column: Float64Array, capacity: number): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(capacity);
  grown.set(column);
  return grown;
}

export function grownInt32(column: Int32Array, capacity: number): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(capacity);
  grown.set(column);
  return grown;
}

export function grownUint32(column: Uint32Array, capacity: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(capacity);
  grown.set(column);
  return grown;
}

export function grownUint16(column: Uint16Array, capacity: number): Uint16Array<ArrayBuffer> {
  const grown = new Uint16Array(capacity);
  grown.set(column);
  return grown;
}

export function grownUint8(column: Uint8Array, capacity: number): Uint8Array<ArrayBuffer> {
  const grown = new Uint8Array(capacity);
  grown.set(column);
  return grown;
}

/** Rows that tables begin with, unless they are told otherwise. */
export const rowsAtFirst = 1024;

/** Rows that were freed and may be used again, and the first row never used. */
export class RowAllocator {
  #free = new Int32Array(16);
  #freeCount = 0;
  /** One more than the highest row ever used. */
  used = 0;

  get live(): number {
    return this.used - this.#freeCount;
  }

  /** A row; `used` grows when it was never used before, and all its columns still hold zeros. */
  take(): number {
    return this.#freeCount > 0 ? this.#free[--this.#freeCount] : this.used++;
  }

  give(row: number): void {
    if (this.#freeCount === this.#free.length) this.#free = grownInt32(this.#free, this.#free.length * 2);
    this.#free[this.#freeCount++] = row;
  }
}
