/** Blocks and segments for tests of the index: made by hand, byte by byte, and read back by the code under test. */

import { block, entryHeader, recordType, writeU64 } from '../../src/codec/format.ts';
import { createHasher } from '../../src/codec/hasher.ts';
import type { EntryHeader, Scheduler } from '../../src/ports/mod.ts';
import type { Checksum } from '../../src/storage/log-checksum.ts';
import { segmentPath } from '../../src/storage/segment-format.ts';
import type { VisitSegment } from '../../src/storage/sidecar-build.ts';
import { SimulatedDisk } from '../simulation/simulated-disk.ts';

export const checksum: Checksum = await createHasher(1, 2);

/** Turns of the real loop: index changes pause between slices of work. */
export const turns: Scheduler = {
  soon: (task) => {
    setImmediate(task);
  },
  after: () => {
    throw new Error('the index does not wait for time to pass');
  },
};

/** A disk with a folder for segments. */
export function diskWithSegments(): SimulatedDisk {
  const disk = new SimulatedDisk();
  disk.place(segmentPath(0), new Uint8Array(0));
  return disk;
}

export interface TestBlock {
  lane: number;
  pid: number;
  firstOffset: number;
  stampUs: number;
  /** One per record; [0, 0] = none of its own. */
  ids: (readonly [number, number])[];
}

export interface PlacedBlock extends TestBlock {
  address: number;
  length: number;
  /** Base of its segment. */
  base: number;
}

export function blockLength(count: number): number {
  return block.tableAt + count * block.rowBytes + count * 3;
}

/** The bytes of a block record whose records are three bytes each. */
export function writeBlock(bytes: Uint8Array, view: DataView, at: number, made: TestBlock): number {
  const count = made.ids.length;
  const length = blockLength(count);
  bytes.fill(0xaa, at, at + length);
  view.setUint32(at, length, true);
  view.setUint32(at + 4, recordType.block | (1 << 8), true);
  writeU64(view, at + block.pidAt, made.pid);
  writeU64(view, at + block.firstOffsetAt, made.firstOffset);
  writeU64(view, at + block.stampAt, made.stampUs);
  view.setUint32(at + block.countAt, count, true);
  view.setUint32(at + 36, 0, true);
  for (let i = 0; i < count; i++) {
    const row = at + block.tableAt + i * block.rowBytes;
    view.setUint32(row, (i + 1) * 3, true);
    view.setUint32(row + 4, made.ids[i][0], true);
    view.setUint32(row + 8, made.ids[i][1], true);
  }
  return length;
}

/** A log of segments in memory: one entry per block, with a record of another type before it. */
export class TestLog {
  readonly blocks: PlacedBlock[] = [];
  readonly bases: number[] = [];
  tail = 0;

  beginSegment(): number {
    this.bases.push(this.tail);
    this.tail += 64;
    return this.bases[this.bases.length - 1];
  }

  /** Address behind the last entry of the segment. */
  endOf(base: number): number {
    const last = this.blocks.findLast((made) => made.base === base);
    return last === undefined ? base : last.address + last.length;
  }

  append(made: TestBlock): PlacedBlock {
    const address = this.tail + entryHeader.bytes + 8;
    const length = blockLength(made.ids.length);
    const placed = { ...made, address, length, base: this.bases[this.bases.length - 1] };
    this.tail = address + length;
    this.blocks.push(placed);
    return placed;
  }

  readonly visit: VisitSegment = async (base, visit) => {
    let sequence = 0;
    for (const made of this.blocks) {
      if (made.base !== base) continue;
      // The entry lies somewhere in a longer buffer, as it does in a real read.
      const from = 16 + entryHeader.bytes;
      const bytes = new Uint8Array(from + 8 + made.length + 5);
      const view = new DataView(bytes.buffer);
      view.setUint32(from, 8, true);
      view.setUint32(from + 4, recordType.closed | (1 << 8), true);
      writeBlock(bytes, view, from + 8, made);
      const header: EntryHeader = {
        address: made.address - 8 - entryHeader.bytes,
        length: entryHeader.bytes + 8 + made.length,
        sequence: ++sequence,
        stampUs: made.stampUs,
        digest: 0,
        epoch: 1,
        recordCount: 2,
      };
      visit(header, bytes, view, from, from + 8 + made.length);
    }
  };
}
