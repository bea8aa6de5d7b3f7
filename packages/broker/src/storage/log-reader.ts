/**
 * Reads the log from an address on: at start-up, and in the worker that builds snapshots and sidecars.
 *
 * Nothing here writes. A log that a broker is appending to may be read up to a sequence that is durable.
 */
import type { Disk, LogAddress } from '../ports/mod.ts';
import { EntryScanner, type EntryVisitor } from './entry-scanner.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage } from './log-damage.ts';
import { type LogOptions, logOptions } from './log-options.ts';
import { segmentFolder, segmentHeader, segmentPath } from './segment-format.ts';
import { listSegmentAndNext, listSegments, type SegmentFile } from './segment-list.ts';

export interface ReadRange {
  /** An entry's address, the address behind one, or a segment's base. */
  readonly from: LogAddress;
  /** Sequence of the entry before `from`; −1 when it is not known. */
  readonly afterSequence: number;
  /** Nothing behind this sequence is shown; everything up to it must be there. */
  readonly throughSequence: number;
}

export type ReadOptions = Partial<Pick<LogOptions, 'scanBytes'>>;

/**
 * Shows the entries from `range.from` to `range.throughSequence`, in order. Resolves with the address behind the last
 * one. Rejects with LogDamage when one of them cannot be read, and with what `visit` throws.
 */
export async function readLog(
  disk: Disk,
  checksum: Checksum,
  range: ReadRange,
  visit: EntryVisitor,
  options: ReadOptions = {},
): Promise<LogAddress> {
  return readSegments(disk, checksum, await listSegments(disk, checksum, refuse), range, visit, options);
}

/**
 * Shows the entries of the sealed segment that begins at `base` and ends at `end`. Without `end` it ends where the next
 * one begins, which does when that was not reclaimed. Rejects as `readLog` does.
 */
export async function readSegment(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
  visit: EntryVisitor,
  options: ReadOptions = {},
  end?: LogAddress,
): Promise<void> {
  const segments = await listSegmentAndNext(disk, checksum, base, refuse);
  if (segments[0]?.base === base && end !== undefined)
    return readWhole(disk, checksum, segments[0], end, visit, options);
  if (segments.length < 2) throw new LogDamage(segmentPath(base), base, 'no such sealed segment');
  const afterSequence = segments[0].firstSequence - 1;
  const throughSequence = segments[1].firstSequence - 1;
  const range = { from: base, afterSequence, throughSequence };
  await readSegments(disk, checksum, segments, range, visit, options);
}

/** Shows all entries of one segment, which must reach to `end`. */
async function readWhole(
  disk: Disk,
  checksum: Checksum,
  segment: SegmentFile,
  end: LogAddress,
  visit: EntryVisitor,
  options: ReadOptions,
): Promise<void> {
  const { base, path } = segment;
  const scanner = new EntryScanner(checksum, logOptions(options));
  beginSegment(scanner, segment, base);
  const range = { base, path, from: base + segmentHeader.bytes, end, throughSequence: Infinity };
  const file = await disk.open(path, 'read');
  const stop = await scanner.scan(file, range, visit).finally(() => file.close());
  if (stop.reason !== null || stop.address !== end) {
    throw new LogDamage(path, stop.address, stop.reason ?? `the segment ends here, and should end at ${end}`);
  }
}

/** `readLog` for segments that were listed before. */
export async function readSegments(
  disk: Disk,
  checksum: Checksum,
  segments: readonly SegmentFile[],
  range: ReadRange,
  visit: EntryVisitor,
  options: ReadOptions = {},
): Promise<LogAddress> {
  const { throughSequence } = range;
  if (range.afterSequence >= throughSequence) return range.from;
  const scanner = new EntryScanner(checksum, logOptions(options));
  scanner.sequence = range.afterSequence;
  let address = range.from;
  for (let i = 0; i < segments.length; i++) {
    const segment = segments[i];
    const end = segmentEnd(segments, i);
    const isLast = i === segments.length - 1;
    if (address >= end && !isLast) continue;
    const first = segment.base + segmentHeader.bytes;
    if (address <= first) {
      beginSegment(scanner, segment, address);
      address = first;
    }
    const scanRange = { base: segment.base, path: segment.path, from: address, end, throughSequence };
    const file = await disk.open(segment.path, 'read');
    const stop = await scanner.scan(file, scanRange, visit).finally(() => file.close());
    address = stop.address;
    if (scanner.sequence >= throughSequence) return address;
    if (stop.reason !== null) throw new LogDamage(segment.path, address, stop.reason);
  }
  throw new LogDamage(
    segments[segments.length - 1]?.path ?? segmentFolder,
    address,
    `the log ends here, and is needed up to sequence ${throughSequence}`,
  );
}

/** Address behind the last byte that can belong to the segment. */
export function segmentEnd(segments: readonly SegmentFile[], index: number): LogAddress {
  return index + 1 < segments.length ? segments[index + 1].base : segments[index].base + segments[index].fileBytes;
}

/** The segment must be the one that continues at `address`, with the next sequence. */
function beginSegment(scanner: EntryScanner, segment: SegmentFile, address: LogAddress): void {
  if (address < segment.base) {
    throw new LogDamage(segment.path, segment.base, `the segment begins here, and is needed from ${address} on`);
  }
  const before = segment.firstSequence - 1;
  if (scanner.sequence >= 0 && scanner.sequence !== before) {
    throw new LogDamage(
      segment.path,
      segment.base,
      `it begins with sequence ${segment.firstSequence}, and ${scanner.sequence} came before`,
    );
  }
  scanner.sequence = before;
  scanner.epoch = Math.max(scanner.epoch, segment.epoch);
}

function refuse(damage: LogDamage): never {
  throw damage;
}
