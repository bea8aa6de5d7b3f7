/**
 * Segment files: their names, their 64-byte header, and where an entry's address lies in them.
 *
 * A segment is a file of one consecutive range of log addresses. Byte i of the file has address `base + i`, the header
 * included, and the next segment's base is the address behind the last entry. Files may be longer than what is used:
 * they are filled with zeros in advance.
 */
import { readU64, writeU64 } from '../codec/format.ts';
import type { LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';

export const segmentFolder = 'segments';

/** A segment that is being filled with zeros and has no base yet. Worthless after a crash. */
export const spareSegmentPath = `${segmentFolder}/spare.tmp`;

export const segmentHeader = {
  bytes: 64,
  magic: 0x53514d4c, // "LMQS"
  version: 1,
  /** u32 */ magicAt: 0,
  /** u32 */ versionAt: 4,
  /** u64 as two u32: xxh64, seed 0, of bytes 16..64 */ checksumAt: 8,
  /** u64: address of the file's first byte */ baseAt: 16,
  /** u64: sequence of its first entry */ firstSequenceAt: 24,
  /** u32: epoch of the broker that began it */ epochAt: 32,
  /** zeros up to 64 */ reservedAt: 36,
} as const;

/** One segment as known to its readers. `end` is the address behind its last entry (of the last segment: so far). */
export interface SegmentRange {
  readonly base: LogAddress;
  readonly end: LogAddress;
  /** False for the one that is being written. */
  readonly sealed: boolean;
  readonly firstSequence: number;
}

const nameDigits = 16;
const namePattern = /^[0-9a-f]{16}\.seg$/;

/** `segments/00000000000000ff.seg` */
export function segmentPath(base: LogAddress): string {
  return `${segmentFolder}/${base.toString(16).padStart(nameDigits, '0')}.seg`;
}

/** The base address in a file's name; undefined when the file is no segment. */
export function segmentBaseOf(name: string): LogAddress | undefined {
  if (!namePattern.test(name)) return undefined;
  const base = Number.parseInt(name.slice(0, nameDigits), 16);
  return Number.isSafeInteger(base) ? base : undefined;
}

/** Writes the header at `at`; 64 bytes must be free there. */
export function writeSegmentHeader(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  facts: { base: LogAddress; firstSequence: number; epoch: number },
  checksum: Checksum,
): void {
  const h = segmentHeader;
  bytes.fill(0, at, at + h.bytes);
  view.setUint32(at + h.magicAt, h.magic, true);
  view.setUint32(at + h.versionAt, h.version, true);
  writeU64(view, at + h.baseAt, facts.base);
  writeU64(view, at + h.firstSequenceAt, facts.firstSequence);
  view.setUint32(at + h.epochAt, facts.epoch, true);
  checksum.checksum(bytes, at + 16, at + h.bytes);
  view.setUint32(at + h.checksumAt, checksum.low, true);
  view.setUint32(at + h.checksumAt + 4, checksum.high, true);
}

export type SegmentHeaderFacts =
  | { readonly ok: true; readonly firstSequence: number; readonly epoch: number }
  | { readonly ok: false; readonly reason: string };

/** Reads and checks the first 64 bytes of the segment that should begin at `base`. */
export function readSegmentHeader(bytes: Uint8Array, base: LogAddress, checksum: Checksum): SegmentHeaderFacts {
  const h = segmentHeader;
  if (bytes.length < h.bytes) return { ok: false, reason: 'the file is shorter than a segment header' };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(h.magicAt, true) !== h.magic) return { ok: false, reason: 'the file is no segment (bad magic)' };
  const version = view.getUint32(h.versionAt, true);
  if (version !== h.version) {
    return { ok: false, reason: `segment format version ${version} is not known to this broker` };
  }
  checksum.checksum(bytes, 16, h.bytes);
  if (view.getUint32(h.checksumAt, true) !== checksum.low || view.getUint32(h.checksumAt + 4, true) !== checksum.high) {
    return { ok: false, reason: 'the segment header fails its checksum' };
  }
  const written = readU64(view, h.baseAt);
  if (written !== base) {
    return { ok: false, reason: `the file's name says base ${base}, its header says ${written}` };
  }
  return { ok: true, firstSequence: readU64(view, h.firstSequenceAt), epoch: view.getUint32(h.epochAt, true) };
}
