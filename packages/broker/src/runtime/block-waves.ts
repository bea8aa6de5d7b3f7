/**
 * Reads many blocks of many partitions at once, for reads that go through the log from its old end.
 *
 * Blocks are read in waves. A wave is planned first: the places of the blocks that will be wanted next are asked of the
 * index, in the order of the targets, up to a few megabytes. Then all that is not in tail memory is sorted by address,
 * and neighbours are read with one call, what lies between them included: a read of a megabyte costs little more than
 * one of a block. Each block is copied out of what was read and compared with its checksum.
 *
 * Nothing of it goes through the log's cache: what a replay reads it reads once.
 */
import { type Hasher, isWholeBlock } from '../codec/mod.ts';
import type { Log, RecordIndex } from '../ports/mod.ts';

export const waveLimits = {
  /** Stored bytes of the blocks of one wave; a larger block makes a wave of its own. */
  bytes: 8 * 1024 * 1024,
  blocks: 32_768,
  records: 65_536,
  /** Blocks that are not further from each other are read with one call, which reads no more than `rangeBytes`. */
  gapBytes: 64 * 1024,
  rangeBytes: 1024 * 1024,
  /** Of a range that is read to where its blocks stay, at least this share is blocks. */
  denseShare: 0.8,
  /** Reads under way for one wave. */
  readsAtOnce: 4,
  /** Targets whose places are asked for at the same moment. */
  targetsAtOnce: 64,
  /** Stored bytes of the waves of all fetches that are in memory; a wave that is larger than all of it is read alone. */
  bytesInMemory: 64 * 1024 * 1024,
} as const;

/** A full wave, what lies between its blocks included. */
const waveBytesUsual = Math.ceil((waveLimits.bytes + waveLimits.rangeBytes) / waveLimits.denseShare);
/** Smaller waves get memory of just their size. */
const smallWaveBytes = 1024 * 1024;
/** Buffers kept for the next wave. Without them a replay allocates so much that it mostly collects garbage. */
const keptMax = { waves: 2, ranges: 8 } as const;

/** A block of a wave. */
export interface WaveBlock {
  readonly firstOffset: number;
  readonly count: number;
  readonly stampUs: number;
  readonly address: number;
  readonly length: number;
  readonly pid: number;
  /** Index in the bytes of the wave. */
  at: number;
  /** `gone`: the log does not hold it any more. */
  state: 'planned' | 'whole' | 'damaged' | 'gone';
}

/** Blocks of one segment that are read with one call, in order of address. */
interface Range {
  readonly blocks: WaveBlock[];
  readonly start: number;
  end: number;
  /** Bytes of the blocks alone. */
  bytes: number;
  /** Index in the bytes of the wave to which all of it is read; −1 = elsewhere, and the blocks are copied. */
  at: number;
}

/** A run of records of one partition that is wanted. */
export interface WaveTarget {
  readonly lane: number;
  readonly pid: number;
  /** The next record that is wanted. */
  next: number;
  /** Exclusive. */
  readonly end: number;
  /** Stored bytes that a record of the partition takes on average. */
  readonly recordBytes: number;
  /** Bytes and records that are still wanted. */
  bytesLeft: number;
  recordsLeft: number;
  /** Consecutive blocks from `next` on, as far as they were planned; empty between waves. */
  readonly blocks: WaveBlock[];
  /** The index knows no block at the end of `blocks`, although one is wanted. */
  isLost: boolean;
}

/** A share of the memory for waves, given in the order of asking; and buffers that are used again. */
export class WaveMemory {
  readonly #waves: Uint8Array[] = [];
  readonly #ranges: Uint8Array[] = [];
  #used = 0;
  readonly #waiting: { readonly bytes: number; readonly enter: () => void }[] = [];

  async take(bytes: number): Promise<void> {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) {
      await new Promise<void>((enter) => this.#waiting.push({ bytes, enter }));
      return;
    }
    this.#used += bytes;
  }

  give(bytes: number): void {
    this.#used -= bytes;
    for (let first = this.#waiting[0]; first !== undefined && this.#fits(first.bytes); first = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += first.bytes;
      first.enter();
    }
  }

  /** At least `bytes` bytes, whatever is in them. */
  waveBuffer(bytes: number): Uint8Array {
    if (bytes < smallWaveBytes || bytes > waveBytesUsual) return new Uint8Array(bytes);
    return this.#waves.pop() ?? new Uint8Array(waveBytesUsual);
  }

  /** One that nobody uses any more. */
  keepWaveBuffer(buffer: Uint8Array): void {
    if (buffer.length === waveBytesUsual && this.#waves.length < keptMax.waves) this.#waves.push(buffer);
  }

  rangeBuffer(): Uint8Array {
    return this.#ranges.pop() ?? new Uint8Array(waveLimits.rangeBytes);
  }

  keepRangeBuffer(buffer: Uint8Array): void {
    if (this.#ranges.length < keptMax.ranges) this.#ranges.push(buffer);
  }

  #fits(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= waveLimits.bytesInMemory;
  }
}

const noBytes = new Uint8Array(0);

export class BlockWaves {
  /** The blocks of the wave lie in here. */
  bytes: Uint8Array = noBytes;
  view: DataView = new DataView(noBytes.buffer);
  readonly #log: Log;
  readonly #index: RecordIndex;
  readonly #hasher: Hasher;
  readonly #memory: WaveMemory;
  readonly #takesShare: boolean;
  #taken = 0;
  #planned: WaveTarget[] = [];

  /** @param takesShare false = takes no share of the memory and waits for none: for a small wave beside one that does. */
  constructor(log: Log, index: RecordIndex, hasher: Hasher, memory: WaveMemory, takesShare: boolean) {
    this.#log = log;
    this.#index = index;
    this.#hasher = hasher;
    this.#memory = memory;
    this.#takesShare = takesShare;
  }

  /**
   * Reads what is wanted next of targets[from …], of the first of them at least one block. Rejects with what the disk
   * reports.
   *
   * @param bytesWanted payload bytes of all of them
   * @param payloadShare of stored bytes, as far as is known: what tells how many blocks are wanted
   */
  async read(targets: readonly WaveTarget[], from: number, bytesWanted: number, payloadShare: number): Promise<void> {
    this.release();
    const blocks = await this.#plan(targets, from, bytesWanted / payloadShare, payloadShare);
    let bytes = 0;
    for (const block of blocks) bytes += block.length;
    // What lies between the blocks of dense ranges has room too.
    bytes = Math.ceil(bytes / waveLimits.denseShare);
    if (this.#takesShare) {
      await this.#memory.take(bytes);
      this.#taken = bytes;
    }
    if (bytes > this.bytes.length) {
      this.#memory.keepWaveBuffer(this.bytes);
      this.bytes = this.#memory.waveBuffer(bytes);
      this.view = new DataView(this.bytes.buffer);
    }
    await this.#load(blocks);
  }

  /** True while there are blocks of a target behind number `index` that were read and not used. */
  holdsBehind(targets: readonly WaveTarget[], index: number): boolean {
    return index + 1 < targets.length && targets[index + 1].blocks.length > 0;
  }

  /** The blocks of the wave are not needed any more. */
  release(): void {
    if (this.#taken > 0) this.#memory.give(this.#taken);
    this.#taken = 0;
    for (const target of this.#planned) target.blocks.length = 0;
    this.#planned = [];
  }

  /** No more waves are read. */
  close(): void {
    this.release();
    this.#memory.keepWaveBuffer(this.bytes);
    this.bytes = noBytes;
  }

  async #plan(
    targets: readonly WaveTarget[],
    from: number,
    bytesWanted: number,
    payloadShare: number,
  ): Promise<WaveBlock[]> {
    const planned: WaveBlock[] = [];
    const bytesMax = Math.min(waveLimits.bytes, bytesWanted);
    let bytes = 0;
    let records = 0;
    let prefetched = from;
    for (let i = from; i < targets.length; i++) {
      const target = targets[i];
      this.#planned.push(target);
      if (i === prefetched) prefetched = await this.#askAhead(targets, i, bytesMax - bytes);
      let offset = target.next;
      let bytesLeft = target.bytesLeft;
      const end = Math.min(target.end, target.next + target.recordsLeft);
      while (offset < end && bytesLeft > 0 && !target.isLost) {
        const full = bytes >= bytesMax || planned.length >= waveLimits.blocks || records >= waveLimits.records;
        if (full && planned.length > 0) return planned;
        const { lane, pid } = target;
        const place = this.#index.find(lane, pid, offset) ?? (await this.#index.load(lane, pid, offset));
        if (place === undefined) {
          target.isLost = true;
          break;
        }
        if (planned.length > 0 && bytes + place.length > bytesMax + waveLimits.rangeBytes) return planned;
        const { firstOffset, count, stampUs, address, length } = place;
        const block: WaveBlock = { firstOffset, count, stampUs, address, length, pid, at: 0, state: 'planned' };
        target.blocks.push(block);
        planned.push(block);
        bytes += length;
        bytesLeft -= length * payloadShare;
        records += count;
        offset = firstOffset + count;
      }
    }
    return planned;
  }

  /** Asks for the places of the next targets at the same moment; returns the number of the target behind them. */
  async #askAhead(targets: readonly WaveTarget[], from: number, bytesMax: number): Promise<number> {
    const asked: Promise<unknown>[] = [];
    let bytes = 0;
    let i = from;
    for (; i < targets.length && i - from < waveLimits.targetsAtOnce && (bytes < bytesMax || i === from); i++) {
      const { lane, pid, next, end, bytesLeft, recordBytes } = targets[i];
      if (next >= end) continue;
      bytes += Math.min(bytesLeft, (end - next) * recordBytes);
      if (this.#index.find(lane, pid, next) === undefined) asked.push(this.#index.load(lane, pid, next));
    }
    // One place alone is asked for when it is needed.
    if (asked.length > 0) await Promise.all(asked);
    return i;
  }

  async #load(blocks: readonly WaveBlock[]): Promise<void> {
    let at = 0;
    const cold: WaveBlock[] = [];
    for (const block of blocks) {
      const recent = this.#log.recent(block.address, block.length);
      if (recent === undefined) {
        cold.push(block);
        continue;
      }
      block.at = at;
      at += block.length;
      this.#copy(block, recent.bytes, recent.at);
    }
    if (cold.length === 0) return;
    cold.sort((a, b) => a.address - b.address);
    const ranges = this.#ranges(cold);
    for (const range of ranges) {
      const span = range.end - range.start;
      const isDense = range.bytes >= span * waveLimits.denseShare;
      if (isDense) range.at = at;
      let next = at;
      for (const block of range.blocks) {
        block.at = isDense ? at + block.address - range.start : next;
        next += block.length;
      }
      at = isDense ? at + span : next;
    }
    let nextRange = 0;
    const readSome = async (): Promise<void> => {
      while (nextRange < ranges.length) await this.#readRange(ranges[nextRange++]);
    };
    const readers: Promise<void>[] = [];
    for (let i = 0; i < Math.min(waveLimits.readsAtOnce, ranges.length); i++) readers.push(readSome());
    // All of them end before the bytes they fill are used for anything else.
    const failed = (await Promise.allSettled(readers)).find((each) => each.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  /** Neighbours in one segment, cold blocks in order of address. */
  #ranges(cold: readonly WaveBlock[]): Range[] {
    const ranges: Range[] = [];
    let range: Range | null = null;
    let segmentEnd = 0;
    for (const block of cold) {
      const { address, length } = block;
      const blockEnd = address + length;
      if (
        range === null ||
        address - range.end > waveLimits.gapBytes ||
        blockEnd - range.start > waveLimits.rangeBytes ||
        blockEnd > segmentEnd
      ) {
        const found = this.#log.segmentEnd(address);
        if (found === undefined || blockEnd > found) {
          block.state = 'gone';
          continue;
        }
        segmentEnd = found;
        range = { blocks: [], start: address, end: address, bytes: 0, at: -1 };
        ranges.push(range);
      }
      range.blocks.push(block);
      range.end = blockEnd;
      range.bytes += length;
    }
    return ranges;
  }

  async #readRange({ blocks, start, end, at }: Range): Promise<void> {
    if (at >= 0) {
      await this.#log.readInto(start, this.bytes.subarray(at, at + end - start));
      for (const block of blocks) this.#check(block);
      return;
    }
    const buffer = this.#memory.rangeBuffer();
    try {
      await this.#log.readInto(start, buffer.subarray(0, end - start));
      for (const block of blocks) this.#copy(block, buffer, block.address - start);
    } finally {
      this.#memory.keepRangeBuffer(buffer);
    }
  }

  #copy(block: WaveBlock, source: Uint8Array, at: number): void {
    this.bytes.set(new Uint8Array(source.buffer, source.byteOffset + at, block.length), block.at);
    this.#check(block);
  }

  #check(block: WaveBlock): void {
    const { at, length, pid, firstOffset, stampUs } = block;
    const whole = isWholeBlock(this.bytes, this.view, at, length, pid, firstOffset, stampUs, this.#hasher);
    block.state = whole ? 'whole' : 'damaged';
  }
}
