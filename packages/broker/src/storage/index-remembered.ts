/**
 * Blocks whose places were read from sidecars, kept so that the synchronous look-up finds them: bounded, the partition
 * that was loaded longest ago leaves first.
 */
import { LinkedList, ListNode } from '../base/linked-list.ts';
import type { BlockLocation, LogAddress } from '../ports/mod.ts';
import type { BlockSink } from './sidecar-reader.ts';

/** Cells of a row: firstOffset, count, stampUs, address, length. */
const stride = 5;

/** The known blocks of one partition, ascending by first offset. They need not be neighbours. */
class RememberedBlocks extends ListNode<RememberedBlocks> {
  readonly pid: number;
  rows = new Float64Array(stride);
  count = 0;

  constructor(pid: number) {
    super();
    this.pid = pid;
  }

  /** Position of the last row that begins at or before `offset`; −1 when none does. */
  position(offset: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.rows[middle * stride] <= offset) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  insert(position: number): number {
    const end = this.count * stride;
    if (end === this.rows.length) {
      const longer = new Float64Array(this.rows.length * 2);
      longer.set(this.rows);
      this.rows = longer;
    }
    const at = position * stride;
    this.rows.copyWithin(at + stride, at, end);
    this.count++;
    return at;
  }

  fill(at: number, into: BlockLocation): void {
    into.firstOffset = this.rows[at];
    into.count = this.rows[at + 1];
    into.stampUs = this.rows[at + 2];
    into.address = this.rows[at + 3];
    into.length = this.rows[at + 4];
  }

  /** Keeps half of the rows, those around `position`. Returns how many were forgotten. */
  forgetFarFrom(position: number): number {
    const kept = this.count >>> 1;
    const from = Math.max(0, Math.min(position - (kept >>> 1), this.count - kept));
    const gone = this.count - kept;
    this.rows = this.rows.slice(from * stride, (from + kept) * stride);
    this.count = kept;
    return gone;
  }
}

export class Remembered implements BlockSink {
  /** Blocks remembered. */
  count = 0;
  private readonly blocksMax: number;
  private readonly partitions = new Map<number, RememberedBlocks>();
  /** The same; the partition loaded longest ago is the oldest. */
  private readonly order = new LinkedList<RememberedBlocks>();
  private newestPid = -1;

  /** @param blocksMax at least 128, so that of a page of followers the one that was asked for is never forgotten. */
  constructor(blocksMax: number) {
    this.blocksMax = blocksMax;
  }

  take(pid: number, firstOffset: number, count: number, stampUs: number, address: LogAddress, length: number): void {
    let known = this.partitions.get(pid);
    if (known === undefined || pid !== this.newestPid) {
      if (known === undefined) {
        known = new RememberedBlocks(pid);
        this.partitions.set(pid, known);
      } else this.order.remove(known);
      this.order.add(known);
      this.newestPid = pid;
    }
    const before = known.position(firstOffset);
    let at = before * stride;
    if (before < 0 || known.rows[at] !== firstOffset) {
      at = known.insert(before + 1);
      this.count++;
    }
    known.rows[at] = firstOffset;
    known.rows[at + 1] = count;
    known.rows[at + 2] = stampUs;
    known.rows[at + 3] = address;
    known.rows[at + 4] = length;
    if (this.count > this.blocksMax) this.forgetSome(at / stride);
  }

  /** Fills `into` with the block that holds `offset`; false when it is not known. */
  find(pid: number, offset: number, into: BlockLocation): boolean {
    const known = this.partitions.get(pid);
    if (known === undefined) return false;
    const position = known.position(offset);
    if (position < 0) return false;
    const at = position * stride;
    if (offset >= known.rows[at] + known.rows[at + 1]) return false;
    known.fill(at, into);
    return true;
  }

  /** Fills `into` with the first known block of the partition that has a stamp ≥ stampUs; false when none has. */
  firstFrom(pid: number, stampUs: number, into: BlockLocation): boolean {
    const known = this.partitions.get(pid);
    if (known === undefined) return false;
    // Stamps rise with offsets.
    let low = 0;
    let high = known.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (known.rows[middle * stride + 2] < stampUs) low = middle + 1;
      else high = middle;
    }
    if (low === known.count) return false;
    known.fill(low * stride, into);
    return true;
  }

  clear(): void {
    this.partitions.clear();
    this.order.clear();
    this.count = 0;
    this.newestPid = -1;
  }

  /** `position`: of the row just taken, in the newest partition. It and the rows shortly before it stay. */
  private forgetSome(position: number): void {
    const oldest = this.order.oldest;
    if (oldest === null) return;
    if (oldest.pid === this.newestPid) {
      this.count -= oldest.forgetFarFrom(position);
    } else {
      this.order.remove(oldest);
      this.partitions.delete(oldest.pid);
      this.count -= oldest.count;
    }
  }
}
