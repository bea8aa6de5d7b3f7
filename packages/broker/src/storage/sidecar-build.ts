/**
 * Building the sidecar of a sealed segment: take the rows that the index has in memory, or read the segment once; sort,
 * write, sync, rename.
 *
 * Runs in a worker beside the serving thread. Needs about 130 bytes of memory per block and 50 per id of the segment,
 * and is over in about a second per million of each. A crash at any moment leaves the old sidecar or none, and perhaps
 * a temporary file, which `removeUnfinishedSidecars` takes away.
 */
import { writeU64 } from '../codec/format.ts';
import type { Disk, DiskFile, EntryHeader, LogAddress, SegmentRows } from '../ports/mod.ts';
import { idKeyHigh, pidKey } from './filter-keys.ts';
import type { Checksum } from './log-checksum.ts';
import { segmentFolder } from './segment-format.ts';
import { SegmentColumns } from './sidecar-columns.ts';
import {
  blockRow,
  idRow,
  isSidecarTemporary,
  page,
  type SectionName,
  type SidecarFacts,
  type SidecarPlan,
  sealPage,
  sectionPages,
  sidecarBaseOf,
  sidecarCopyBaseOf,
  sidecarPath,
  sidecarPlan,
  sidecarTemporaryPath,
  writeSidecarHeader,
} from './sidecar-format.ts';
import { RowOrder, sortedUnique } from './sidecar-sort.ts';

/**
 * Visits all entries of the segment that begins at `base`, in order and checked. The records of an entry are
 * bytes[from, to); the bytes are valid during the call.
 */
export type VisitSegment = (
  base: LogAddress,
  visit: (header: EntryHeader, bytes: Uint8Array, view: DataView, from: number, to: number) => void,
) => Promise<void>;

export interface BuiltSidecar {
  readonly blocks: number;
  readonly ids: number;
  readonly bytes: number;
}

/** Pages that are filled before they are written. */
const pagesPerWrite = 64;

/**
 * Writes the sidecar of the sealed segment at `base`, taking the place of an older one.
 * Rejects with the error of the disk or of `visitSegment`; then an older sidecar is as it was.
 */
export async function buildSidecar(
  disk: Disk,
  checksum: Checksum,
  visitSegment: VisitSegment,
  base: LogAddress,
): Promise<BuiltSidecar> {
  const columns = new SegmentColumns(base);
  await visitSegment(base, (header, bytes, view, from, to) => {
    columns.addEntry(header, bytes, view, from, to);
  });
  return writeSidecar(disk, checksum, columns);
}

/** The same of what the index has in memory. */
export function buildSidecarOf(disk: Disk, checksum: Checksum, rows: SegmentRows): Promise<BuiltSidecar> {
  return writeSidecar(disk, checksum, SegmentColumns.of(rows));
}

async function writeSidecar(disk: Disk, checksum: Checksum, columns: SegmentColumns): Promise<BuiltSidecar> {
  const { base } = columns;
  const content = sortSegment(columns);
  const facts = factsOf(columns, content);
  const plan = sidecarPlan(facts.counts);

  const temporary = sidecarTemporaryPath(base);
  const file = await disk.open(temporary, 'create');
  try {
    const writer = new PageWriter(file, checksum);
    await writeSections(writer, columns, content, facts, plan);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, sidecarPath(base));
  await disk.syncFolder(segmentFolder);
  return { blocks: columns.blockCount, ids: content.ids.length, bytes: plan.pages * page.bytes };
}

/** Bases of the segments that have a sidecar file, ascending. Says nothing about what is in the files. */
export function listSidecars(disk: Disk): Promise<LogAddress[]> {
  return listBases(disk, sidecarBaseOf);
}

/** The same of second copies. */
export function listSidecarCopies(disk: Disk): Promise<LogAddress[]> {
  return listBases(disk, sidecarCopyBaseOf);
}

async function listBases(disk: Disk, baseOf: (name: string) => LogAddress | undefined): Promise<LogAddress[]> {
  const bases: LogAddress[] = [];
  for (const name of await disk.list(segmentFolder)) {
    const base = baseOf(name);
    if (base !== undefined) bases.push(base);
  }
  return bases.sort((a, b) => a - b);
}

/** Removes what crashes left of sidecars that were being written. Must not run beside `buildSidecar`. */
export async function removeUnfinishedSidecars(disk: Disk): Promise<void> {
  for (const name of await disk.list(segmentFolder)) {
    if (isSidecarTemporary(name)) await disk.remove(`${segmentFolder}/${name}`);
  }
}

/** The rows of the file, as row numbers of the columns. */
interface SortedSegment {
  /** Blocks by (pid, firstOffset). */
  readonly blocks: Uint32Array;
  /** Position in `blocks` of each block. */
  readonly blockRanks: Uint32Array;
  /** Ids by (pid, hashHigh, hashLow); of equal ones only the newest. */
  readonly ids: Uint32Array;
  readonly pidKeys: Uint32Array;
  readonly idKeys: Uint32Array;
}

function sortSegment(columns: SegmentColumns): SortedSegment {
  const { blockCount, idCount, pids, firstOffsets } = columns;
  const blockOrder = new RowOrder(blockCount);
  blockOrder.sortByWide(firstOffsets);
  blockOrder.sortByWide(pids);
  const blocks = blockOrder.rows;

  // Each pid gets a small number in ascending order, so that ids sort by it with few digits.
  const blockRanks = new Uint32Array(blockCount);
  const pidNumbers = new Uint32Array(blockCount);
  const keys = new Uint32Array(blockCount);
  let pidCount = 0;
  for (let rank = 0; rank < blockCount; rank++) {
    const row = blocks[rank];
    if (rank === 0 || pids[row] !== pids[blocks[rank - 1]]) keys[pidCount++] = pidKey(pids[row]);
    blockRanks[row] = rank;
    pidNumbers[row] = pidCount;
  }

  const idPidNumbers = new Uint32Array(idCount);
  for (let i = 0; i < idCount; i++) idPidNumbers[i] = pidNumbers[columns.idBlocks[i]];
  const idOrder = new RowOrder(idCount);
  idOrder.sortBy(columns.hashLows);
  idOrder.sortBy(columns.hashHighs);
  idOrder.sortBy(idPidNumbers);
  const ids = newestOfEqual(columns, idPidNumbers, idOrder.rows);

  const idKeys = new Uint32Array(ids.length);
  for (let i = 0; i < ids.length; i++) {
    idKeys[i] = idKeyHigh(pidKey(pids[columns.idBlocks[ids[i]]]), columns.hashHighs[ids[i]]);
  }
  return { blocks, blockRanks, ids, pidKeys: sortedUnique(keys.subarray(0, pidCount)), idKeys: sortedUnique(idKeys) };
}

/** Of neighbours with the same id keeps the one with the highest offset. Shortens `order` in place. */
function newestOfEqual(columns: SegmentColumns, pidNumbers: Uint32Array, order: Uint32Array): Uint32Array {
  const { hashHighs, hashLows, idBlocks, idIndexes, firstOffsets } = columns;
  let kept = 0;
  for (let i = 0; i < order.length; i++) {
    const id = order[i];
    const before = kept === 0 ? -1 : order[kept - 1];
    const same =
      before >= 0 &&
      pidNumbers[id] === pidNumbers[before] &&
      hashHighs[id] === hashHighs[before] &&
      hashLows[id] === hashLows[before];
    if (!same) order[kept++] = id;
    else if (firstOffsets[idBlocks[id]] + idIndexes[id] > firstOffsets[idBlocks[before]] + idIndexes[before]) {
      order[kept - 1] = id;
    }
  }
  return order.subarray(0, kept);
}

function factsOf(columns: SegmentColumns, content: SortedSegment): SidecarFacts {
  let minStampUs = 0;
  let maxStampUs = 0;
  let blockBytes = 0;
  for (let row = 0; row < columns.blockCount; row++) {
    const stampUs = columns.stamps[row];
    if (row === 0 || stampUs < minStampUs) minStampUs = stampUs;
    if (stampUs > maxStampUs) maxStampUs = stampUs;
    blockBytes += columns.lengths[row];
  }
  return {
    base: columns.base,
    end: columns.end,
    minStampUs,
    maxStampUs,
    blockBytes,
    counts: {
      blocks: columns.blockCount,
      ids: content.ids.length,
      blockFences: sectionPages('blocks', columns.blockCount),
      idFences: sectionPages('ids', content.ids.length),
      pidKeys: content.pidKeys.length,
      idKeys: content.idKeys.length,
    },
  };
}

async function writeSections(
  writer: PageWriter,
  columns: SegmentColumns,
  content: SortedSegment,
  facts: SidecarFacts,
  plan: SidecarPlan,
): Promise<void> {
  const { blocks, blockRanks, ids } = content;
  const { pids, firstOffsets, stamps, distances, lengths, counts, hashHighs, hashLows, idBlocks, idIndexes } = columns;
  await writer.page((view, at) => writeSidecarHeader(view, at, facts));
  const writeSection = async (name: SectionName, row: (view: DataView, at: number, i: number) => void) => {
    const { rows, rowsPerPage, rowBytes } = plan[name];
    for (let from = 0; from < rows; from += rowsPerPage) {
      await writer.page((view, start) => {
        const to = Math.min(rows, from + rowsPerPage);
        for (let i = from, at = start; i < to; i++, at += rowBytes) row(view, at, i);
      });
    }
  };
  await writeSection('blocks', (view, at, i) => {
    const row = blocks[i];
    writeU64(view, at + blockRow.pidAt, pids[row]);
    writeU64(view, at + blockRow.firstOffsetAt, firstOffsets[row]);
    writeU64(view, at + blockRow.stampAt, stamps[row]);
    view.setUint32(at + blockRow.distanceAt, distances[row], true);
    view.setUint32(at + blockRow.lengthAt, lengths[row], true);
    view.setUint32(at + blockRow.countAt, counts[row], true);
  });
  await writeSection('ids', (view, at, i) => {
    const id = ids[i];
    writeU64(view, at + idRow.pidAt, pids[idBlocks[id]]);
    view.setUint32(at + idRow.hashHighAt, hashHighs[id], true);
    view.setUint32(at + idRow.hashLowAt, hashLows[id], true);
    view.setUint32(at + idRow.blockAt, blockRanks[idBlocks[id]], true);
    view.setUint32(at + idRow.indexAt, idIndexes[id], true);
  });
  await writeSection('blockFences', (view, at, i) => {
    const row = blocks[i * plan.blocks.rowsPerPage];
    writeU64(view, at, pids[row]);
    writeU64(view, at + 8, firstOffsets[row]);
  });
  await writeSection('idFences', (view, at, i) => {
    const id = ids[i * plan.ids.rowsPerPage];
    writeU64(view, at, pids[idBlocks[id]]);
    view.setUint32(at + 8, hashHighs[id], true);
    view.setUint32(at + 12, hashLows[id], true);
  });
  await writeSection('pidKeys', (view, at, i) => view.setUint32(at, content.pidKeys[i], true));
  await writeSection('idKeys', (view, at, i) => view.setUint32(at, content.idKeys[i], true));
  await writer.flush();
}

/** Collects pages and writes many at once. */
class PageWriter {
  private readonly file: DiskFile;
  private readonly checksum: Checksum;
  private readonly bytes = new Uint8Array(pagesPerWrite * page.bytes);
  private readonly view = new DataView(this.bytes.buffer);
  private filled = 0;
  private written = 0;

  constructor(file: DiskFile, checksum: Checksum) {
    this.file = file;
    this.checksum = checksum;
  }

  /** Appends one page; `fill` writes its content at `at`, where all is zero. */
  async page(fill: (view: DataView, at: number) => void): Promise<void> {
    if (this.filled === pagesPerWrite) await this.flush();
    const at = this.filled * page.bytes;
    this.bytes.fill(0, at, at + page.bytes);
    fill(this.view, at);
    sealPage(this.bytes, this.view, at, this.written + this.filled, this.checksum);
    this.filled++;
  }

  async flush(): Promise<void> {
    await this.file.write(this.bytes.subarray(0, this.filled * page.bytes), this.written * page.bytes);
    this.written += this.filled;
    this.filled = 0;
  }
}
