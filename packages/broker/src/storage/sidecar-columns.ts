/** The blocks and ids of one segment as columns, collected for its sidecar. */
import { block, entryHeader, readU64, recordHeaderBytes, recordType, relocated } from '../codec/format.ts';
import type { EntryHeader, LogAddress, SegmentRows } from '../ports/mod.ts';
import { idKeyHigh, idKeyLow, pidKey } from './filter-keys.ts';
import { assertStorage } from './index-assert.ts';
import { BlockRows } from './index-blocks.ts';
import { visitIds } from './index-ids.ts';

const firstCapacity = 1024;
/** Distances from a segment's base are stored in 32 bits. */
const segmentSpanMax = 2 ** 32;

/** Pids are below this. */
const relocatedPidsFrom = 2 ** 52;

/**
 * Blocks that were relocated stand in a sidecar as blocks of a partition of their own: so the blocks that were written
 * first stay in the order of their offsets over all segments, which a binary search over sidecars relies on.
 */
export function relocatedPid(pid: number): number {
  return pid + relocatedPidsFrom;
}

export function isRelocatedPid(pid: number): boolean {
  return pid >= relocatedPidsFrom;
}

/** The number of the partition itself. */
export function originalPid(pid: number): number {
  return pid >= relocatedPidsFrom ? pid - relocatedPidsFrom : pid;
}

export class SegmentColumns {
  readonly base: LogAddress;
  /** Address behind the last entry seen. */
  end: LogAddress;

  blockCount = 0;
  pids = new Float64Array(firstCapacity);
  firstOffsets = new Float64Array(firstCapacity);
  stamps = new Float64Array(firstCapacity);
  /** Address minus `base`. */
  distances = new Uint32Array(firstCapacity);
  lengths = new Uint32Array(firstCapacity);
  counts = new Uint32Array(firstCapacity);

  idCount = 0;
  hashHighs = new Uint32Array(firstCapacity);
  hashLows = new Uint32Array(firstCapacity);
  /** Row of the id's block in the columns above. */
  idBlocks = new Uint32Array(firstCapacity);
  idIndexes = new Uint32Array(firstCapacity);

  constructor(base: LogAddress) {
    this.base = base;
    this.end = base;
  }

  /** All that the index knows of a segment. None of its blocks is a copy. */
  static of(rows: SegmentRows): SegmentColumns {
    const columns = new SegmentColumns(rows.base);
    columns.end = rows.end;
    columns.addRows(rows);
    return columns;
  }

  /** Takes in the block records in bytes[from, to), which are the records of one entry. Other records are passed over. */
  addEntry(header: EntryHeader, bytes: Uint8Array, view: DataView, from: number, to: number): void {
    const shift = header.address + entryHeader.bytes - from;
    let at = from;
    while (at < to) {
      const length = to - at < recordHeaderBytes ? 0 : view.getUint32(at, true);
      assertStorage(
        length >= recordHeaderBytes && length <= to - at,
        `a record at address ${shift + at} has an impossible length`,
      );
      const type = bytes[at + 4];
      if (type === recordType.block) this.addBlock(view, at, length, shift + at, false);
      else if (type === recordType.relocatedBlock) {
        const { blockAt } = relocated;
        this.addBlock(view, at + blockAt, length - blockAt, shift + at + blockAt, true);
      }
      at += length;
    }
    this.end = header.address + header.length;
  }

  private addRows(rows: SegmentRows): void {
    const { base, firstBlock, blockCount, idCount } = rows;
    const blocks = BlockRows.over(rows.blockPages, firstBlock + blockCount, rows.endOrdinal);
    while (this.pids.length < blockCount) this.growBlocks();
    for (let row = 0; row < blockCount; row++) {
      const index = firstBlock + row;
      this.pids[row] = blocks.pidAt(index);
      this.firstOffsets[row] = blocks.firstOffsetAt(index);
      this.stamps[row] = blocks.stampAt(index);
      this.distances[row] = blocks.addressAt(index) - base;
      this.lengths[row] = blocks.lengthAt(index);
      this.counts[row] = blocks.countAt(index);
    }
    this.blockCount = blockCount;

    while (this.hashHighs.length < idCount) this.growIds();
    const firstOrdinal = blockCount === 0 ? 0 : blocks.ordinalAt(firstBlock);
    for (const part of rows.idParts) {
      visitIds(new Uint32Array(part), (keyHigh, keyLow, ordinal) => {
        const index = blocks.findByOrdinal(firstBlock, firstBlock + blockCount, ordinal);
        const keyOfPid = pidKey(blocks.pidAt(index));
        const id = this.idCount++;
        // A key is the fingerprint with what follows from the pid XORed into it: the same once more takes that out.
        this.hashHighs[id] = idKeyHigh(keyOfPid, keyHigh);
        this.hashLows[id] = idKeyLow(keyOfPid, keyLow);
        this.idBlocks[id] = index - firstBlock;
        this.idIndexes[id] = ordinal - ((blocks.ordinalAt(index) - firstOrdinal) >>> 0);
      });
    }
    assertStorage(this.idCount === idCount, 'the ids in memory are as many as were added');
  }

  /** The ids of a block that was relocated stay with the sidecar of its first segment. */
  private addBlock(view: DataView, at: number, length: number, address: LogAddress, isCopy: boolean): void {
    const distance = address - this.base;
    assertStorage(distance >= 0 && distance < segmentSpanMax, `the block at ${address} is out of its segment's range`);
    const count = length < block.headerBytes ? 0 : view.getUint32(at + block.countAt, true);
    assertStorage(
      count >= 1 && block.tableAt + count * block.rowBytes <= length,
      `the block at ${address} announces ${count} records in ${length} bytes`,
    );
    const row = this.blockCount;
    if (row === this.pids.length) this.growBlocks();
    const pid = readU64(view, at + block.pidAt);
    this.pids[row] = isCopy ? relocatedPid(pid) : pid;
    this.firstOffsets[row] = readU64(view, at + block.firstOffsetAt);
    this.stamps[row] = readU64(view, at + block.stampAt);
    this.distances[row] = distance;
    this.lengths[row] = length;
    this.counts[row] = count;
    this.blockCount++;
    if (isCopy) return;
    for (let index = 0; index < count; index++) {
      const entry = at + block.tableAt + index * block.rowBytes;
      const high = view.getUint32(entry + 4, true);
      const low = view.getUint32(entry + 8, true);
      if (high === 0 && low === 0) continue;
      const id = this.idCount;
      if (id === this.hashHighs.length) this.growIds();
      this.hashHighs[id] = high;
      this.hashLows[id] = low;
      this.idBlocks[id] = row;
      this.idIndexes[id] = index;
      this.idCount++;
    }
  }

  private growBlocks(): void {
    this.pids = longerFloats(this.pids);
    this.firstOffsets = longerFloats(this.firstOffsets);
    this.stamps = longerFloats(this.stamps);
    this.distances = longerWords(this.distances);
    this.lengths = longerWords(this.lengths);
    this.counts = longerWords(this.counts);
  }

  private growIds(): void {
    this.hashHighs = longerWords(this.hashHighs);
    this.hashLows = longerWords(this.hashLows);
    this.idBlocks = longerWords(this.idBlocks);
    this.idIndexes = longerWords(this.idIndexes);
  }
}

function longerFloats(column: Float64Array): Float64Array<ArrayBuffer> {
  const longer = new Float64Array(column.length * 2);
  longer.set(column);
  return longer;
}

function longerWords(column: Uint32Array): Uint32Array<ArrayBuffer> {
  const longer = new Uint32Array(column.length * 2);
  longer.set(column);
  return longer;
}
