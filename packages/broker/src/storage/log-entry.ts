/** Entry headers to bytes and back, and the one record that the log writes for itself. */
import { entryHeader, readU64, recordHeaderBytes, recordType, writeU64 } from '../codec/format.ts';
import type { EntryHeader, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';

/** No entry of any version is longer. */
export const entryBytesLimit = 1 << 30;

/** For those who may not import the codec. */
export const entryHeaderBytes = entryHeader.bytes;

/** What a reader learns from one header. One object is used again for every entry: copy what you keep. */
export interface StoredEntry extends EntryHeader {
  /** All bytes below this address were on disk when the entry was sealed. */
  readonly syncedThrough: LogAddress;
}

/** The writable side of `StoredEntry`. */
export type EntryFacts = { -readonly [K in keyof StoredEntry]: StoredEntry[K] };

export function emptyEntryFacts(): EntryFacts {
  return {
    address: 0,
    length: 0,
    sequence: 0,
    stampUs: 0,
    digest: 0,
    epoch: 0,
    recordCount: 0,
    syncedThrough: 0,
  };
}

/** Writes the header of the entry bytes[at, at + facts.length), whose records must be complete. */
export function writeEntryHeader(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  facts: StoredEntry,
  checksum: Checksum,
): void {
  const h = entryHeader;
  view.setUint32(at + h.magicAt, h.magic, true);
  view.setUint32(at + h.lengthAt, facts.length, true);
  writeU64(view, at + h.addressAt, facts.address);
  writeU64(view, at + h.sequenceAt, facts.sequence);
  writeU64(view, at + h.stampAt, facts.stampUs);
  writeU64(view, at + h.syncedThroughAt, facts.syncedThrough);
  view.setUint32(at + h.epochAt, facts.epoch, true);
  view.setUint32(at + h.digestAt, facts.digest, true);
  view.setUint32(at + h.recordCountAt, facts.recordCount, true);
  view.setUint32(at + h.versionAt, h.version, true);
  checksum.checksum(bytes, at + 16, at + facts.length);
  view.setUint32(at + h.checksumAt, checksum.low, true);
  view.setUint32(at + h.checksumAt + 4, checksum.high, true);
}

/**
 * Reads the 64 bytes at `at` into `into`. `length` is taken as it stands: it means nothing before the checksum was
 * compared with `entryChecksumHolds`. Returns what is wrong, or null.
 */
export function readEntryHeader(view: DataView, at: number, address: LogAddress, into: EntryFacts): string | null {
  const h = entryHeader;
  const magic = view.getUint32(at + h.magicAt, true);
  if (magic !== h.magic) return magic === 0 ? 'zeros where an entry should begin' : 'no entry begins here (bad magic)';
  const length = view.getUint32(at + h.lengthAt, true);
  if (length < h.bytes || length > entryBytesLimit) return `the entry's length ${length} is impossible`;
  const written = readU64(view, at + h.addressAt);
  if (written !== address) return `the entry was written for address ${written}`;
  into.address = address;
  into.length = length;
  into.sequence = readU64(view, at + h.sequenceAt);
  into.stampUs = readU64(view, at + h.stampAt);
  into.syncedThrough = readU64(view, at + h.syncedThroughAt);
  into.epoch = view.getUint32(at + h.epochAt, true);
  into.digest = view.getUint32(at + h.digestAt, true);
  into.recordCount = view.getUint32(at + h.recordCountAt, true);
  return null;
}

export function entryChecksumHolds(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  length: number,
  checksum: Checksum,
): boolean {
  checksum.checksum(bytes, at + 16, at + length);
  return (
    view.getUint32(at + entryHeader.checksumAt, true) === checksum.low &&
    view.getUint32(at + entryHeader.checksumAt + 4, true) === checksum.high
  );
}

/**
 * To be asked only once the checksum holds: then the number was really written, by another version of the broker, and
 * the entry is no leftover of a crash. Length, address and checksum keep their places in every version.
 */
export function unknownEntryVersion(view: DataView, at: number): string | null {
  const version = view.getUint32(at + entryHeader.versionAt, true);
  return version === entryHeader.version ? null : `entry format version ${version} is not known to this broker`;
}

/** Bytes of the record that marks a clean end. */
export const closedRecordBytes = recordHeaderBytes;

/** Writes the record that marks a clean end: a bare record header. */
export function writeClosedRecord(view: DataView, at: number): void {
  view.setUint32(at, closedRecordBytes, true);
  view.setUint32(at + 4, recordType.closed | (1 << 8), true);
}

/** True for the entry that `close` writes: one record, of type closed. */
export function isClosedEntry(entry: StoredEntry, bytes: Uint8Array, recordsStart: number): boolean {
  return (
    entry.recordCount === 1 &&
    entry.length === entryHeader.bytes + closedRecordBytes &&
    bytes[recordsStart + 4] === recordType.closed
  );
}

/**
 * Visits the records in bytes[start, end). Returns what is wrong with their lengths or their number, or null.
 * `visit` gets the type and the bounds of one record.
 */
export function walkRecords(
  bytes: Uint8Array,
  view: DataView,
  start: number,
  end: number,
  recordCount: number,
  visit: (type: number, at: number, length: number) => void,
): string | null {
  let at = start;
  let count = 0;
  while (at < end) {
    if (end - at < recordHeaderBytes) return `${end - at} stray bytes behind the last record`;
    const length = view.getUint32(at, true);
    if (length < recordHeaderBytes || length > end - at) return `a record's length ${length} is impossible`;
    visit(bytes[at + 4], at, length);
    at += length;
    count++;
  }
  return count === recordCount ? null : `the entry holds ${count} records and announces ${recordCount}`;
}
