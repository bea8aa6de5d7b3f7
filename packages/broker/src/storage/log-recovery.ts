/**
 * Finds the end of the log when a broker starts on a data folder, and makes it safe to write behind it.
 *
 * Only the last segment can have an end that a crash left unfinished: a segment gets its name only after everything
 * before it was synced. Segments before the last are checked entry by entry when they are replayed.
 *
 * Three things are done to the end before anything is served:
 * - bytes behind the last good entry are cut (overwritten with zeros), unless they prove damage: see segment-tail.ts;
 * - entries that are not known to have been synced are written again. A process that died leaves them in the page cache
 *   only, and after a failed sync the system may even believe that they are on disk; written again they are dirty again;
 * - file and folder are synced, so that whatever a reader sees from now on survives a power cut.
 */
import type { Disk, DiskFile, LogAddress } from '../ports/mod.ts';
import { EntryScanner } from './entry-scanner.ts';
import type { Checksum } from './log-checksum.ts';
import { LogDamage, type LogGap } from './log-damage.ts';
import { isClosedEntry } from './log-entry.ts';
import type { LogOptions } from './log-options.ts';
import { segmentFolder, segmentHeader, spareSegmentPath } from './segment-format.ts';
import { gapsOf, listSegments, type SegmentFile } from './segment-list.ts';
import { judgeTail } from './segment-tail.ts';

/** What was found when the log was opened. */
export interface LogRecovery {
  /** True when the log is empty, or its last entry says that it was closed in order. */
  readonly cleanlyClosed: boolean;
  /** Sequence of the last entry; 0 when there is none and there never was one. */
  readonly lastSequence: number;
  /** Stamp of the newest entry in the last segment; 0 when that holds none. */
  readonly lastStampUs: number;
  readonly lastEpoch: number;
  /** Address behind the last entry. */
  readonly tail: LogAddress;
  /** Parts of the log that no file covers: whether that is damage is for whoever knows what was reclaimed to say. */
  readonly gaps: readonly LogGap[];
  /** Bytes of an unfinished write that were removed behind the tail; null when there were none. */
  readonly cut: { readonly address: LogAddress; readonly bytes: number; readonly reason: string } | null;
}

export interface RecoveredLog {
  readonly facts: LogRecovery;
  /** All segments; the last one is to be continued. Empty: the log is new. */
  readonly segments: readonly SegmentFile[];
}

export async function recoverLog(disk: Disk, checksum: Checksum, options: LogOptions): Promise<RecoveredLog> {
  await disk.makeFolder(segmentFolder);
  await disk.syncFolder('');
  if ((await disk.list(segmentFolder)).some((name) => `${segmentFolder}/${name}` === spareSegmentPath)) {
    await disk.remove(spareSegmentPath);
  }
  const segments = await listSegments(disk, checksum, (damage) => {
    throw damage;
  });
  await disk.syncFolder(segmentFolder);
  if (segments.length === 0) {
    const facts = { cleanlyClosed: true, lastSequence: 0, lastStampUs: 0, lastEpoch: 0, tail: 0, gaps: [], cut: null };
    return { facts, segments };
  }
  const last = segments[segments.length - 1];
  const file = await disk.open(last.path, 'write');
  try {
    return { facts: { ...(await recoverTail(file, last, checksum, options)), gaps: gapsOf(segments) }, segments };
  } finally {
    await file.close();
  }
}

async function recoverTail(
  file: DiskFile,
  segment: SegmentFile,
  checksum: Checksum,
  options: LogOptions,
): Promise<Omit<LogRecovery, 'gaps'>> {
  const { base, path, fileBytes } = segment;
  const scanner = new EntryScanner(checksum, options);
  scanner.sequence = segment.firstSequence - 1;
  scanner.epoch = segment.epoch;
  // Before the first entry there is nothing that could be missing.
  let closed = segment.firstSequence === 1;
  const range = { base, path, from: base + segmentHeader.bytes, end: base + fileBytes, throughSequence: Infinity };
  const { address: tail, reason } = await scanner.scan(file, range, (entry, bytes, _view, recordsStart) => {
    closed = isClosedEntry(entry, bytes, recordsStart);
  });
  const end = { base, from: tail, fileBytes };
  const { proof, strayBytes } = await judgeTail(file, end, scanner, checksum, options);
  if (proof !== null) {
    throw new LogDamage(
      path,
      tail,
      `${reason}, but entry ${proof.sequence} at address ${proof.address} says that everything below ` +
        `${proof.syncedThrough} was on disk`,
    );
  }
  await overwriteWithZeros(file, tail - base, strayBytes, options.scanBytes);
  const entries = tail > range.from;
  if (entries) {
    const syncedThrough = Math.max(scanner.last.syncedThrough, range.from);
    await writeAgain(file, { base, path, from: syncedThrough, end: tail }, options.scanBytes);
  }
  await file.sync();
  return {
    cleanlyClosed: closed,
    lastSequence: scanner.sequence,
    lastStampUs: entries ? scanner.last.stampUs : 0,
    lastEpoch: scanner.epoch,
    tail,
    cut: strayBytes === 0 ? null : { address: tail, bytes: strayBytes, reason: reason ?? '' },
  };
}

/** Addresses and sequences would reject these bytes later on; zeros make sure that nobody has to rely on that. */
async function overwriteWithZeros(file: DiskFile, from: number, length: number, chunkBytes: number): Promise<void> {
  const zeros = new Uint8Array(Math.min(length, chunkBytes));
  for (let done = 0; done < length; done += zeros.length) {
    await file.write(zeros.subarray(0, Math.min(zeros.length, length - done)), from + done);
  }
}

async function writeAgain(
  file: DiskFile,
  range: { base: LogAddress; path: string; from: LogAddress; end: LogAddress },
  chunkBytes: number,
): Promise<void> {
  const buffer = new Uint8Array(Math.min(chunkBytes, range.end - range.from));
  for (let at = range.from; at < range.end; at += buffer.length) {
    const chunk = buffer.subarray(0, Math.min(buffer.length, range.end - at));
    const count = await file.read(chunk, at - range.base);
    if (count !== chunk.length)
      throw new LogDamage(range.path, at + count, 'the file became shorter while it was read');
    await file.write(chunk, at - range.base);
  }
}
