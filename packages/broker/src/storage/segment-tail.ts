/**
 * The judgement on bytes behind the last good entry of the last segment: what a crash may leave, or damage.
 *
 * A crash may leave any mixture of old and new bytes behind the last sync. It cannot change bytes that were synced. Each
 * entry says up to where the log was synced when it was sealed, so a good entry further on whose mark lies behind the
 * bad place proves that the bad place had been synced, and that answered writes are missing. Then nothing may be cut.
 */
import { entryHeader } from '../codec/format.ts';
import type { DiskFile, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { emptyEntryFacts, entryChecksumHolds, readEntryHeader, type StoredEntry } from './log-entry.ts';
import type { LogOptions } from './log-options.ts';

export interface TailJudgement {
  /** The first good entry that proves that `from` had been synced; null when there is none. */
  readonly proof: StoredEntry | null;
  /** Bytes from `from` up to the last one that is not zero. */
  readonly strayBytes: number;
}

export interface TailRange {
  readonly base: LogAddress;
  /** Address of the first byte that is not a good entry. */
  readonly from: LogAddress;
  readonly fileBytes: number;
}

/** `last`: sequence and epoch of the last good entry. What does not continue them is left over from another history. */
export async function judgeTail(
  file: DiskFile,
  range: TailRange,
  last: { readonly sequence: number; readonly epoch: number },
  checksum: Checksum,
  options: Pick<LogOptions, 'scanBytes'>,
): Promise<TailJudgement> {
  const from = range.from - range.base;
  let proof: StoredEntry | null = null;
  let strayEnd = from;
  await eachChunk(file, from, range.fileBytes, options.scanBytes, async (bytes, position) => {
    const strayAt = lastNonZero(bytes);
    if (strayAt >= 0) strayEnd = position + strayAt + 1;
    if (proof === null && strayAt >= 0) {
      const found = await findEntry(file, bytes, position, range, checksum, (entry) => {
        return entry.syncedThrough > range.from && entry.sequence > last.sequence && entry.epoch >= last.epoch;
      });
      if (found !== null) proof = found;
    }
  });
  return { proof, strayBytes: strayEnd - from };
}

/** The first good entry behind `from`, wherever it begins; null when there is none. For reports on damaged logs. */
export async function findNextEntry(
  file: DiskFile,
  range: TailRange,
  checksum: Checksum,
  options: Pick<LogOptions, 'scanBytes'>,
): Promise<StoredEntry | null> {
  const from = range.from - range.base + 1;
  let next: StoredEntry | null = null;
  await eachChunk(file, from, range.fileBytes, options.scanBytes, async (bytes, position) => {
    next ??= await findEntry(file, bytes, position, range, checksum, () => true);
  });
  return next;
}

/**
 * Reads [from, end) in chunks that overlap by one header less one byte, so that a header that lies across a border is
 * seen whole once.
 */
async function eachChunk(
  file: DiskFile,
  from: number,
  end: number,
  chunkBytes: number,
  visit: (bytes: Uint8Array, position: number) => Promise<void>,
): Promise<void> {
  const overlap = entryHeader.bytes - 1;
  const buffer = new Uint8Array(chunkBytes + overlap);
  for (let position = from; position < end; position += chunkBytes) {
    const wanted = Math.min(buffer.length, end - position);
    const count = await file.read(buffer.subarray(0, wanted), position);
    if (count === 0) return;
    await visit(buffer.subarray(0, count), position);
  }
}

const magicFirstByte = entryHeader.magic & 0xff;

async function findEntry(
  file: DiskFile,
  bytes: Uint8Array,
  position: number,
  range: TailRange,
  checksum: Checksum,
  accept: (entry: StoredEntry) => boolean,
): Promise<StoredEntry | null> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entry = emptyEntryFacts();
  let at = bytes.indexOf(magicFirstByte);
  while (at >= 0 && at + entryHeader.bytes <= bytes.length) {
    // The address in the header must be the place where it lies, so that payloads that look like entries cost nothing.
    const address = range.base + position + at;
    const plausible =
      readEntryHeader(view, at, address, entry) === null && position + at + entry.length <= range.fileBytes;
    if (plausible && accept(entry) && (await isWhole(file, position + at, entry.length, checksum))) return entry;
    at = bytes.indexOf(magicFirstByte, at + 1);
  }
  return null;
}

async function isWhole(file: DiskFile, position: number, length: number, checksum: Checksum): Promise<boolean> {
  const bytes = new Uint8Array(length);
  const count = await file.read(bytes, position);
  return count === length && entryChecksumHolds(bytes, new DataView(bytes.buffer), 0, length, checksum);
}

/** Index of the last byte that is not zero, or −1. Looks at words first: a fresh segment is 64 MiB of zeros. */
function lastNonZero(bytes: Uint8Array): number {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
  for (let at = bytes.length - 1; at >= words.length * 4; at--) {
    if (bytes[at] !== 0) return at;
  }
  let word = words.length - 1;
  while (word >= 0 && words[word] === 0) word--;
  let at = word * 4 + 3;
  while (at >= 0 && bytes[at] === 0) at--;
  return word < 0 ? -1 : at;
}
