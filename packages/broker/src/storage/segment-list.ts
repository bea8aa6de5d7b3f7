/** Which segments a data folder has, and whether they fit together. Reads only. */
import type { Disk, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage } from './log-damage.ts';
import { readSegmentHeader, segmentBaseOf, segmentFolder, segmentHeader, segmentPath } from './segment-format.ts';

export interface SegmentFile {
  readonly base: LogAddress;
  readonly path: string;
  readonly fileBytes: number;
  readonly firstSequence: number;
  readonly epoch: number;
}

/**
 * The segments in order of address. Every header is checked, and that no segment is shorter than the next one's base
 * says. `onDamage` gets what is wrong (throw there to stop); a segment with a bad header is then left out.
 */
export async function listSegments(
  disk: Disk,
  checksum: Checksum,
  onDamage: (damage: LogDamage) => void,
): Promise<SegmentFile[]> {
  return readSegments(disk, checksum, await listBases(disk), onDamage);
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
    if (segment instanceof LogDamage) onDamage(segment);
    else segments.push(segment);
  }
  for (let i = 1; i < segments.length; i++) {
    const damage = misfit(segments[i - 1], segments[i]);
    if (damage !== null) onDamage(damage);
  }
  return segments;
}

async function readSegment(disk: Disk, checksum: Checksum, base: LogAddress): Promise<SegmentFile | LogDamage> {
  const path = segmentPath(base);
  const file = await disk.open(path, 'read');
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
  const end = before.base + before.fileBytes;
  if (end < after.base) {
    return new LogDamage(before.path, end, `the file ends here, and the next segment begins at ${after.base}`);
  }
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
