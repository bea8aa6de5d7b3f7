/**
 * Reads the entries of one segment file after another, in big reads, one read ahead of the checks.
 *
 * An entry is shown only when its place, length, checksum, sequence and epoch are right; the first one that is not ends
 * the scan. What that means (a torn tail, or damage) is for the caller to judge.
 */
import { entryHeader } from '../codec/format.ts';
import type { DiskFile, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage } from './log-damage.ts';
import {
  type EntryFacts,
  emptyEntryFacts,
  entryChecksumHolds,
  readEntryHeader,
  type StoredEntry,
  unknownEntryVersion,
} from './log-entry.ts';
import type { LogOptions } from './log-options.ts';

/**
 * Gets one entry. `entry`, `bytes` and `view` are used again for the next one: read now, keep nothing. The records lie
 * in bytes[recordsStart, recordsEnd), and bytes[recordsStart] has the address `entry.address + entryHeader.bytes`.
 */
export type EntryVisitor = (
  entry: StoredEntry,
  bytes: Uint8Array,
  view: DataView,
  recordsStart: number,
  recordsEnd: number,
) => void;

export interface ScanRange {
  readonly base: LogAddress;
  /** Name of the file, for errors. */
  readonly path: string;
  /** Address where the first entry begins. */
  readonly from: LogAddress;
  /** Nothing at or behind this address is read. */
  readonly end: LogAddress;
  /** The scan ends behind the entry with this sequence. */
  readonly throughSequence: number;
}

export interface ScanEnd {
  /** Address behind the last entry that was good. */
  readonly address: LogAddress;
  /** Why it ended there; null when `end` was reached exactly, or `throughSequence`. */
  readonly reason: string | null;
}

export class EntryScanner {
  /** Sequence of the last good entry; −1 = the next one may have any. May be set between scans. */
  sequence = -1;
  /** Epoch of the last good entry: epochs never fall. May be set between scans. */
  epoch = 0;
  readonly #checksum: Checksum;
  /** The next scanBytes of the file, being read while the entries before them are checked. */
  readonly #ahead: Uint8Array;
  #reading: Promise<number | Error> | null = null;
  /** Position in the file of the next read. */
  #readAt = 0;
  /** Good bytes are #bytes[#at, #end). */
  #bytes: Uint8Array;
  #view: DataView;
  #at = 0;
  #end = 0;
  #last: EntryFacts = emptyEntryFacts();
  #next: EntryFacts = emptyEntryFacts();

  constructor(checksum: Checksum, options: Pick<LogOptions, 'scanBytes'>) {
    this.#checksum = checksum;
    this.#ahead = new Uint8Array(options.scanBytes);
    this.#bytes = new Uint8Array(2 * options.scanBytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Facts of the last good entry. The object is used again. */
  get last(): StoredEntry {
    return this.#last;
  }

  /**
   * Shows the good entries from `range.from` on. Throws what `visit` throws, what the disk reports, and LogDamage for an
   * entry that is whole but of a format version that this broker does not know.
   */
  async scan(file: DiskFile, range: ScanRange, visit: EntryVisitor): Promise<ScanEnd> {
    this.#at = 0;
    this.#end = 0;
    this.#readAt = range.from - range.base;
    const fileEnd = range.end - range.base;
    let address = range.from;
    try {
      for (;;) {
        const left = range.end - address;
        if (left === 0 || this.sequence >= range.throughSequence) return { address, reason: null };
        if (left < entryHeader.bytes || !(this.#has(entryHeader.bytes) || (await this.#fill(file, 64, fileEnd)))) {
          return { address, reason: 'the file ends inside an entry header' };
        }
        const problem = readEntryHeader(this.#view, this.#at, address, this.#next);
        if (problem !== null) return { address, reason: problem };
        const length = this.#next.length;
        if (length > left || !(this.#has(length) || (await this.#fill(file, length, fileEnd)))) {
          return { address, reason: `the file ends inside an entry of ${length} bytes` };
        }
        const at = this.#at;
        const mismatch = this.#check(range, address);
        if (mismatch !== null) return { address, reason: mismatch };
        this.#at = at + length;
        address += length;
        visit(this.#last, this.#bytes, this.#view, at + entryHeader.bytes, at + length);
      }
    } finally {
      // The caller may close the file as soon as this returns.
      if (this.#reading !== null) await this.#reading;
      this.#reading = null;
    }
  }

  /** Judges the whole entry at #at whose header is in #next, and makes it #last. Returns what is wrong, or null. */
  #check(range: ScanRange, address: LogAddress): string | null {
    const entry = this.#next;
    if (!entryChecksumHolds(this.#bytes, this.#view, this.#at, entry.length, this.#checksum)) {
      return 'the entry fails its checksum';
    }
    const unknown = unknownEntryVersion(this.#view, this.#at);
    if (unknown !== null) throw new LogDamage(range.path, address, unknown);
    if (this.sequence >= 0 && entry.sequence !== this.sequence + 1) {
      return `sequence ${entry.sequence} follows ${this.sequence}`;
    }
    if (entry.epoch < this.epoch) return `epoch ${entry.epoch} follows ${this.epoch}`;
    this.sequence = entry.sequence;
    this.epoch = entry.epoch;
    this.#next = this.#last;
    this.#last = entry;
    return null;
  }

  #has(length: number): boolean {
    return this.#end - this.#at >= length;
  }

  /** Makes `length` bytes available at #at. False when the file ends before. */
  async #fill(file: DiskFile, length: number, fileEnd: number): Promise<boolean> {
    this.#makeRoom(length);
    while (!this.#has(length)) {
      if (this.#reading === null) this.#readAhead(file, fileEnd);
      const count = await this.#reading;
      this.#reading = null;
      if (count === null || count === 0) return false;
      if (typeof count !== 'number') throw count;
      this.#bytes.set(this.#ahead.subarray(0, count), this.#end);
      this.#end += count;
      this.#readAt += count;
      this.#readAhead(file, fileEnd);
    }
    return true;
  }

  #readAhead(file: DiskFile, fileEnd: number): void {
    const wanted = Math.min(this.#ahead.length, fileEnd - this.#readAt);
    if (wanted <= 0) return;
    // A failure is kept as a value: the scan may end before it looks at this read, and must then not leave a rejection.
    this.#reading = file.read(this.#ahead.subarray(0, wanted), this.#readAt).catch((error: Error) => error);
  }

  /** Moves what is left to the front; grows so that `length` bytes and one more read fit. */
  #makeRoom(length: number): void {
    const left = this.#end - this.#at;
    const needed = length + this.#ahead.length;
    if (this.#bytes.length < needed) {
      const larger = new Uint8Array(needed);
      larger.set(this.#bytes.subarray(this.#at, this.#end));
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    } else {
      this.#bytes.copyWithin(0, this.#at, this.#end);
    }
    this.#at = 0;
    this.#end = left;
  }
}
