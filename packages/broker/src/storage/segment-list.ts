/** Which segments a data folder has, and whether they fit together. Reads only. */
import type { Disk, DiskFile, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage, type LogGap } from './log-damage.ts';
import { readSegmentHeader, segmentBaseOf, segmentFolder, segmentHeader, segmentPath } from './segment-format.ts';

export interface SegmentFile {
  readonly base: LogAddress;
  readonly path: string;
  readonly fileBytes: number;
  readonly firstSequence: number;
  readonly epoch: number;
}

/**
 * The segments in order of address. Every header is checked. `onDamage` gets what is wrong (throw there to stop); a
 * segment with a bad header is then left out. Where files do not reach the next one's base there is a gap: see `gapsOf`.
 */
export async function listSegments(
  disk: Disk,
  checksum: Checksum,
  onDamage: (damage: LogDamage) => void,
): Promise<SegmentFile[]> {
  return readSegments(disk, checksum, await listBases(disk), onDamage);
}

/**
 * The parts of the log that no file covers, in order. What was reclaimed is missing by right; only the state knows what
 * that is.
 */
export function gapsOf(segments: readonly SegmentFile[]): LogGap[] {
  const gaps: LogGap[] = [];
  let covered = 0;
  for (const { base, fileBytes } of segments) {
    if (base > covered) gaps.push({ base: covered, end: base });
    covered = base + fileBytes;
  }
  return gaps;
}

/**
 * What is wrong with a log that has these gaps; null when all that is missing was reclaimed. `reclaimedBefore(address)` is
 * the reclaimed range that holds the byte before an address.
 */
export function gapDamage(
  gaps: readonly LogGap[],
  reclaimedBefore: (address: LogAddress) => LogGap | undefined,
): LogDamage | null {
  for (const { base, end } of gaps) {
    const range = reclaimedBefore(end);
    if (range !== undefined && range.base <= base) continue;
    const reason = `nothing is left of the log from here to ${end}, and that was not reclaimed: a segment is missing or cut`;
    return new LogDamage(segmentPath(base), base, reason);
  }
  return null;
}

/**
 * The segment that begins at `base` and the one behind it, checked as `listSegments` does, without looking at any other.
 * Fewer than two when the log ends there or has no such segment.
 */
export async function listSegmentAndNext(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
  onDamage: (damage: LogDamage) => void,
): Promise<SegmentFile[]> {
  const bases = await listBases(disk);
  const index = bases.indexOf(base);
  return readSegments(disk, checksum, index < 0 ? [] : bases.slice(index, index + 2), onDamage);
}

/** Bases in the names of the segments, ascending. */
async function listBases(disk: Disk): Promise<LogAddress[]> {
  const bases: LogAddress[] = [];
  for (const name of await disk.list(segmentFolder)) {
    const base = segmentBaseOf(name);
    if (base !== undefined) bases.push(base);
  }
  return bases.sort((a, b) => a - b);
}

async function readSegments(
  disk: Disk,
  checksum: Checksum,
  bases: readonly LogAddress[],
  onDamage: (damage: LogDamage) => void,
): Promise<SegmentFile[]> {
  const segments: SegmentFile[] = [];
  for (const base of bases) {
    const segment = await readSegment(disk, checksum, base);
    // It was reclaimed after the folder was listed.
    if (segment === undefined) continue;
    if (segment instanceof LogDamage) onDamage(segment);
    else segments.push(segment);
  }
  for (let i = 1; i < segments.length; i++) {
    const damage = misfit(segments[i - 1], segments[i]);
    if (damage !== null) onDamage(damage);
  }
  return segments;
}

async function readSegment(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
): Promise<SegmentFile | LogDamage | undefined> {
  const path = segmentPath(base);
  let file: DiskFile;
  try {
    file = await disk.open(path, 'read');
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const header = new Uint8Array(segmentHeader.bytes);
    const count = await file.read(header, 0);
    const facts = readSegmentHeader(header.subarray(0, count), base, checksum);
    if (!facts.ok) return new LogDamage(path, base, facts.reason);
    return {
      base,
      path,
      fileBytes: await file.size(),
      firstSequence: facts.firstSequence,
      epoch: facts.epoch,
    };
  } finally {
    await file.close();
  }
}

function misfit(before: SegmentFile, after: SegmentFile): LogDamage | null {
  if (after.firstSequence <= before.firstSequence || after.epoch < before.epoch) {
    return new LogDamage(
      after.path,
      after.base,
      `it begins with sequence ${after.firstSequence} of epoch ${after.epoch}, ` +
        `the segment before it with ${before.firstSequence} of epoch ${before.epoch}`,
    );
  }
  return null;
}
