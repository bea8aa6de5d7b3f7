/**
 * The newest part of the log in memory: the draft that is being filled, entries on their way to the disk, and durable
 * ones for readers that keep up. Everything lies in slabs that are used again and again.
 *
 *   slab:  | sealed entry | sealed entry | draft ...... |        bytes[i] has address base + i
 *                                        ^ #entryAt     ^ position
 *
 * Slabs are a queue, oldest first; the draft lies in the last one. A slab is reused when everything in it is durable and
 * nobody was promised to find it; while too much waits for the disk further slabs are made, and let go later.
 * A slab is taken for reuse only when an entry begins, never while one is filled: a decision may still hold what it read
 * through `resident` while it writes its records, so what `resident` returned holds until the draft is sealed.
 */
import { entryHeader } from '../codec/format.ts';
import type { EntryDraft, LogAddress, ResidentBytes } from '../ports/mod.ts';
import type { LogOptions } from './log-options.ts';

interface Slab {
  bytes: Uint8Array;
  view: DataView;
  /** Address of bytes[0]. */
  base: LogAddress;
  /** Sealed bytes are bytes[0, end). */
  end: number;
  /** It may be reused from this turn on. */
  pinnedBefore: number;
}

export class TailMemory implements EntryDraft {
  bytes: Uint8Array;
  view: DataView;
  position = 0;
  base: LogAddress;
  readonly #slabBytes: number;
  readonly #tailBytes: number;
  readonly #entryBytesMax: number;
  readonly #slabs: Slab[] = [];
  #current: Slab;
  /** A slab nobody finds any more, for the next move of the draft. */
  #spare: Slab | null = null;
  /** Index in `bytes` of the draft's header. */
  #entryAt = 0;
  /** Bytes of all slabs. */
  #heldBytes = 0;
  #durable: LogAddress;
  #turn = 0;
  readonly #found: ResidentBytes;

  /** `start`: address of the first byte that will be written. */
  constructor(options: Pick<LogOptions, 'slabBytes' | 'tailBytes' | 'entryBytesMax'>, start: LogAddress) {
    this.#slabBytes = options.slabBytes;
    this.#tailBytes = options.tailBytes;
    this.#entryBytesMax = options.entryBytesMax;
    this.#durable = start;
    this.#current = this.#newSlab(this.#slabBytes, start);
    this.#slabs.push(this.#current);
    this.bytes = this.#current.bytes;
    this.view = this.#current.view;
    this.base = start;
    this.#found = { bytes: this.bytes, view: this.view, at: 0 };
  }

  /** Index in `bytes` where the entry being filled begins (its header; records follow 64 bytes later). */
  get entryAt(): number {
    return this.#entryAt;
  }

  /** Address of the entry being filled. */
  get entryAddress(): LogAddress {
    return this.base + this.#entryAt;
  }

  /** Memory of all slabs, in bytes. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  require(length: number): void {
    if (this.position + length > this.bytes.length) this.#moveDraft(length);
  }

  /** Leaves room for a header at `position`; records go behind it. What lies before counts as sealed. */
  beginEntry(): void {
    this.sealBytes();
    if (this.position * 2 > this.bytes.length) this.#setAside();
    // A slab that was made for one large entry takes no others, so that it goes as soon as that one may.
    if (this.bytes.length > this.#slabBytes) this.#moveDraft(entryHeader.bytes);
    else this.require(entryHeader.bytes);
    this.position += entryHeader.bytes;
  }

  /** All bytes up to `position` are final and may be written. */
  sealBytes(): void {
    this.#entryAt = this.position;
    this.#current.end = this.position;
  }

  /** Everything below the address is on disk: memory above the budget is let go. */
  durableThrough(address: LogAddress): void {
    this.#durable = address;
    while (this.#heldBytes > this.#tailBytes && this.#oldestIsFree()) {
      this.#heldBytes -= this.#slabs[0].bytes.length;
      this.#slabs.shift();
    }
  }

  /** The turn of the loop, for promises made by `pin`. */
  turnBegan(turn: number): void {
    this.#turn = turn;
  }

  /**
   * The sealed bytes from `address` (inclusive) to `limit`, as far as they lie in one slab. `address` must be sealed and
   * not yet durable.
   */
  sealedRun(address: LogAddress, limit: LogAddress): Uint8Array {
    const slab = this.#slabOf(address, 1);
    if (slab === undefined || slab.base + slab.end <= address) {
      throw new Error(`address ${address} is not among the sealed bytes in memory`);
    }
    return slab.bytes.subarray(address - slab.base, Math.min(slab.end, limit - slab.base));
  }

  /** Bytes [address, address + length) if they lie here, draft included. The result is reused by the next call. */
  resident(address: LogAddress, length: number): ResidentBytes | undefined {
    const slab = this.#slabOf(address, length);
    if (slab === undefined) return undefined;
    const found = this.#found;
    found.bytes = slab.bytes;
    found.view = slab.view;
    found.at = address - slab.base;
    return found;
  }

  /** If the bytes lie here, keeps them until `turnBegan(untilTurn)`. */
  pin(address: LogAddress, length: number, untilTurn: number): boolean {
    const slab = this.#slabOf(address, length);
    if (slab === undefined) return false;
    slab.pinnedBefore = untilTurn;
    return true;
  }

  #slabOf(address: LogAddress, length: number): Slab | undefined {
    const slabs = this.#slabs;
    for (let i = slabs.length - 1; i >= 0; i--) {
      const slab = slabs[i];
      if (address < slab.base) continue;
      const end = slab === this.#current ? this.position : slab.end;
      return address + length <= slab.base + end ? slab : undefined;
    }
    return undefined;
  }

  /** Moves the unfinished entry to the front of another slab, where `length` more bytes fit. */
  #moveDraft(length: number): void {
    const used = this.position - this.#entryAt;
    const needed = used + length;
    if (needed > this.#entryBytesMax) {
      throw new RangeError(`an entry of ${needed} bytes is longer than entryBytesMax (${this.#entryBytesMax})`);
    }
    const old = this.#current;
    const slab = this.#slabFor(used, needed, this.base + this.#entryAt);
    slab.bytes.set(old.bytes.subarray(this.#entryAt, this.position));
    this.#slabs.push(slab);
    this.#current = slab;
    this.#entryAt = 0;
    this.position = used;
    this.bytes = slab.bytes;
    this.view = slab.view;
    this.base = slab.base;
    if (old.end === 0) this.#removeEmpty(old);
  }

  /** The draft was all there was in it. */
  #removeEmpty(slab: Slab): void {
    this.#slabs.splice(this.#slabs.indexOf(slab), 1);
    this.#heldBytes -= slab.bytes.length;
  }

  #slabFor(used: number, needed: number, base: LogAddress): Slab {
    if (needed > this.#slabBytes) {
      const doubled = Math.ceil(Math.max(needed, 2 * used) / this.#slabBytes) * this.#slabBytes;
      return this.#newSlab(Math.min(doubled, this.#entryBytesMax), base);
    }
    const spare = this.#spare;
    if (spare === null) return this.#newSlab(this.#slabBytes, base);
    this.#spare = null;
    spare.base = base;
    spare.end = 0;
    return spare;
  }

  /** Takes the oldest slab for the next move, if another one would be over the budget. */
  #setAside(): void {
    while (this.#spare === null && this.#heldBytes + this.#slabBytes > this.#tailBytes && this.#oldestIsFree()) {
      const slab = this.#slabs.shift() as Slab;
      if (slab.bytes.length === this.#slabBytes) this.#spare = slab;
      else this.#heldBytes -= slab.bytes.length;
    }
  }

  #newSlab(length: number, base: LogAddress): Slab {
    const bytes = new Uint8Array(length);
    this.#heldBytes += length;
    return { bytes, view: new DataView(bytes.buffer), base, end: 0, pinnedBefore: 0 };
  }

  /** The newest slab is never free: the draft lies in it. */
  #oldestIsFree(): boolean {
    const oldest = this.#slabs[0];
    return oldest !== this.#current && oldest.base + oldest.end <= this.#durable && oldest.pinnedBefore <= this.#turn;
  }
}
