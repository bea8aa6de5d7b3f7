/**
 * All partitions, as columns. A partition is known by three numbers:
 *
 *   lane   row in these columns; given again after the partition is deleted
 *   pid    number for ever, rising with creation, never reused; what clients see
 *   name   bytes, unique within a queue; kept in one arena
 *
 * Two open-addressing tables (linear probing, removal by shifting back) find the lane by name and by pid. Both hold
 * lane + 1, so that 0 means free. About 95 bytes a partition with a name of 12 bytes.
 *
 * Invariants per live lane: 0 ≤ logStart ≤ nextOffset; lastStampUs rises with every append.
 */
import { assert } from './assert.ts';
import {
  grownFloat64,
  grownInt32,
  grownUint8,
  grownUint16,
  grownUint32,
  RowAllocator,
  rowsAtFirst,
} from './columns.ts';

/** Room for names that a new table has, per row. */
const nameBytesExpected = 32;
/** A power of two. More than a push or a pop usually touches. */
const recentLanes = 4096;
/** A table is doubled when more than this share of it is taken. */
const loadMax = 0.6;
/** The arena is rewritten when more than half of it, and at least this much, belongs to deleted names. */
const arenaGarbageBytesMin = 1 << 20;

function mixPid(pid: number): number {
  // The low bits of a rising number are spread by a multiplication; high halves join by xor.
  return (Math.imul(pid >>> 0, 0x9e3779b1) ^ Math.floor(pid / 0x1_0000_0000)) >>> 0;
}

const textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class PartitionTable {
  pid: Float64Array;
  /** Number of the queue; −1 = the lane is free. */
  queueNumber: Int32Array;
  nextOffset: Float64Array;
  logStart: Float64Array;
  /** Stamp of the newest append; 0 = nothing was ever written. */
  lastStampUs: Float64Array;
  createdAtUs: Float64Array;
  /** Stamp of the first append that is kept, once any was removed before it; 0 = that of the first append ever. */
  keptSinceUs: Float64Array;
  /** Bytes of the partition's blocks. */
  retainedBytes: Float64Array;
  /** First row of its cursors; −1 = none. */
  firstCursor: Int32Array;

  #nameAt: Uint32Array;
  #nameLength: Uint16Array;
  #nameHash: Uint32Array;
  #arena: Uint8Array;
  #arenaUsed = 0;
  #arenaGarbage = 0;
  #byName = new Int32Array(4 * rowsAtFirst);
  #byPid = new Int32Array(4 * rowsAtFirst);
  /**
   * Lanes that were found last, by the lowest bits of their pids: what is found by name or planned is applied by pid a moment
   * later, and the tables above are too large for the processor's caches.
   */
  readonly #recent = new Int32Array(recentLanes);
  readonly #rows = new RowAllocator();

  /** @param rows that there is room for before the columns have to grow. */
  constructor(rows: number = rowsAtFirst) {
    this.pid = new Float64Array(rows);
    this.queueNumber = new Int32Array(rows);
    this.nextOffset = new Float64Array(rows);
    this.logStart = new Float64Array(rows);
    this.lastStampUs = new Float64Array(rows);
    this.createdAtUs = new Float64Array(rows);
    this.keptSinceUs = new Float64Array(rows);
    this.retainedBytes = new Float64Array(rows);
    this.firstCursor = new Int32Array(rows);
    this.#nameAt = new Uint32Array(rows);
    this.#nameLength = new Uint16Array(rows);
    this.#nameHash = new Uint32Array(rows);
    this.#arena = new Uint8Array(rows * nameBytesExpected);
  }

  get count(): number {
    return this.#rows.live;
  }

  /** The hash a name has in a queue: the keyed hash of its bytes, mixed with the queue. */
  static #slotHash(queueNumber: number, nameHash: number): number {
    return (Math.imul(queueNumber + 1, 0x85ebca6b) ^ nameHash) >>> 0;
  }

  /** The lane of a partition, or −1. */
  find(queueNumber: number, nameHash: number, bytes: Uint8Array, start: number, end: number): number {
    const table = this.#byName;
    const mask = table.length - 1;
    let slot = PartitionTable.#slotHash(queueNumber, nameHash) & mask;
    for (;;) {
      const lane = table[slot] - 1;
      if (lane < 0) return -1;
      if (
        this.#nameHash[lane] === nameHash &&
        this.queueNumber[lane] === queueNumber &&
        this.#nameEquals(lane, bytes, start, end)
      ) {
        this.#recent[this.pid[lane] & (recentLanes - 1)] = lane;
        return lane;
      }
      slot = (slot + 1) & mask;
    }
  }

  /** The lane of a partition, or −1. */
  findPid(pid: number): number {
    const recent = this.#recent[pid & (recentLanes - 1)];
    // Lanes that are free have pid 0.
    if (this.pid[recent] === pid && pid !== 0) return recent;
    const table = this.#byPid;
    const mask = table.length - 1;
    let slot = mixPid(pid) & mask;
    for (;;) {
      const lane = table[slot] - 1;
      if (lane < 0) return -1;
      if (this.pid[lane] === pid) {
        this.#recent[pid & (recentLanes - 1)] = lane;
        return lane;
      }
      slot = (slot + 1) & mask;
    }
  }

  #nameEquals(lane: number, bytes: Uint8Array, start: number, end: number): boolean {
    const length = this.#nameLength[lane];
    if (length !== end - start) return false;
    const arena = this.#arena;
    const at = this.#nameAt[lane];
    for (let i = 0; i < length; i++) if (arena[at + i] !== bytes[start + i]) return false;
    return true;
  }

  /** The name's bytes: a view into the arena, valid until the next `add` or `remove`. */
  nameBytes(lane: number): Uint8Array {
    const at = this.#nameAt[lane];
    return this.#arena.subarray(at, at + this.#nameLength[lane]);
  }

  /** The name as text. */
  nameText(lane: number): string {
    return textDecoder.decode(this.nameBytes(lane));
  }

  /** All names; the one of a lane is [nameStart, nameEnd). Valid until the next `add` or `remove`. */
  get names(): Uint8Array {
    return this.#arena;
  }

  nameStart(lane: number): number {
    return this.#nameAt[lane];
  }

  nameEnd(lane: number): number {
    return this.#nameAt[lane] + this.#nameLength[lane];
  }

  isEmpty(lane: number): boolean {
    return this.nextOffset[lane] === this.logStart[lane];
  }

  /** Stamp of the oldest append that is kept; 0 when there is none. A partition begins with its first append. */
  oldestStampUs(lane: number): number {
    if (this.isEmpty(lane)) return 0;
    return this.logStart[lane] === 0 ? this.createdAtUs[lane] : this.keptSinceUs[lane];
  }

  nameHash(lane: number): number {
    return this.#nameHash[lane];
  }

  /** Adds a partition and returns its lane. Name and pid must be new. */
  add(
    pid: number,
    queueNumber: number,
    createdAtUs: number,
    nameHash: number,
    bytes: Uint8Array,
    start: number,
    end: number,
  ): number {
    assert(this.find(queueNumber, nameHash, bytes, start, end) < 0, 'a partition name is added once');
    const usedBefore = this.#rows.used;
    const lane = this.#rows.take();
    if (lane >= this.pid.length) this.#grow(this.pid.length * 2);
    const length = end - start;
    if (this.#arenaUsed + length > this.#arena.length) {
      this.#arena = grownUint8(this.#arena, Math.max(this.#arena.length * 2, this.#arenaUsed + length));
    }
    const arena = this.#arena;
    let at = this.#arenaUsed;
    this.#nameAt[lane] = at;
    for (let i = start; i < end; i++) arena[at++] = bytes[i];
    this.#arenaUsed = at;
    this.#nameLength[lane] = length;
    this.#nameHash[lane] = nameHash;
    this.pid[lane] = pid;
    this.queueNumber[lane] = queueNumber;
    this.createdAtUs[lane] = createdAtUs;
    this.firstCursor[lane] = -1;
    if (lane < usedBefore) {
      this.nextOffset[lane] = 0;
      this.logStart[lane] = 0;
      this.lastStampUs[lane] = 0;
      this.keptSinceUs[lane] = 0;
      this.retainedBytes[lane] = 0;
    }
    if (this.#rows.live > this.#byName.length * loadMax) this.#rehash(this.#byName.length * 2, lane);
    this.#insert(this.#byName, PartitionTable.#slotHash(queueNumber, nameHash), lane);
    this.#insert(this.#byPid, mixPid(pid), lane);
    return lane;
  }

  remove(lane: number): void {
    this.#erase(this.#byName, PartitionTable.#slotHash(this.queueNumber[lane], this.#nameHash[lane]), lane, true);
    this.#erase(this.#byPid, mixPid(this.pid[lane]), lane, false);
    this.#arenaGarbage += this.#nameLength[lane];
    this.queueNumber[lane] = -1;
    this.pid[lane] = 0;
    this.firstCursor[lane] = -1;
    this.#rows.give(lane);
    if (this.#arenaGarbage > arenaGarbageBytesMin && this.#arenaGarbage * 2 > this.#arenaUsed) this.#compactArena();
  }

  #insert(table: Int32Array, hash: number, lane: number): void {
    const mask = table.length - 1;
    let slot = hash & mask;
    while (table[slot] !== 0) slot = (slot + 1) & mask;
    table[slot] = lane + 1;
  }

  #homeOf(lane: number, byName: boolean): number {
    return byName ? PartitionTable.#slotHash(this.queueNumber[lane], this.#nameHash[lane]) : mixPid(this.pid[lane]);
  }

  #erase(table: Int32Array, hash: number, lane: number, byName: boolean): void {
    const mask = table.length - 1;
    let hole = hash & mask;
    while (table[hole] !== lane + 1) {
      assert(table[hole] !== 0, 'a live lane is in both tables');
      hole = (hole + 1) & mask;
    }
    // Shift back what would no longer be found behind the hole.
    for (let slot = (hole + 1) & mask; table[slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#homeOf(table[slot] - 1, byName) & mask;
      if (((slot - home) & mask) >= ((slot - hole) & mask)) {
        table[hole] = table[slot];
        hole = slot;
      }
    }
    table[hole] = 0;
  }

  #rehash(capacity: number, except: number): void {
    this.#byName = new Int32Array(capacity);
    this.#byPid = new Int32Array(capacity);
    for (let lane = 0; lane < this.#rows.used; lane++) {
      if (lane === except || this.pid[lane] === 0) continue;
      this.#insert(this.#byName, this.#homeOf(lane, true), lane);
      this.#insert(this.#byPid, this.#homeOf(lane, false), lane);
    }
  }

  #grow(capacity: number): void {
    this.pid = grownFloat64(this.pid, capacity);
    this.queueNumber = grownInt32(this.queueNumber, capacity);
    this.nextOffset = grownFloat64(this.nextOffset, capacity);
    this.logStart = grownFloat64(this.logStart, capacity);
    this.lastStampUs = grownFloat64(this.lastStampUs, capacity);
    this.createdAtUs = grownFloat64(this.createdAtUs, capacity);
    this.keptSinceUs = grownFloat64(this.keptSinceUs, capacity);
    this.retainedBytes = grownFloat64(this.retainedBytes, capacity);
    this.firstCursor = grownInt32(this.firstCursor, capacity);
    this.#nameAt = grownUint32(this.#nameAt, capacity);
    this.#nameLength = grownUint16(this.#nameLength, capacity);
    this.#nameHash = grownUint32(this.#nameHash, capacity);
  }

  #compactArena(): void {
    const before = this.#arena;
    const arena = new Uint8Array(Math.max(1024, (this.#arenaUsed - this.#arenaGarbage) * 2));
    const { pid } = this;
    const nameAt = this.#nameAt;
    const nameLength = this.#nameLength;
    const lanes = this.#rows.used;
    let at = 0;
    // Names of lanes that were added one after the other lie next to each other: they are copied together.
    let runFrom = 0;
    let runEnd = 0;
    for (let lane = 0; lane < lanes; lane++) {
      if (pid[lane] === 0) continue;
      const from = nameAt[lane];
      if (from !== runEnd) {
        copyNames(before, runFrom, runEnd, arena, at - (runEnd - runFrom));
        runFrom = from;
      }
      runEnd = from + nameLength[lane];
      nameAt[lane] = at;
      at += nameLength[lane];
    }
    copyNames(before, runFrom, runEnd, arena, at - (runEnd - runFrom));
    this.#arena = arena;
    this.#arenaUsed = at;
    this.#arenaGarbage = 0;
  }
}

/** Up to so many bytes a loop is faster than a view of them. */
const shortRunBytes = 32;

function copyNames(source: Uint8Array, from: number, end: number, target: Uint8Array, at: number): void {
  if (end - from > shortRunBytes) target.set(source.subarray(from, end), at);
  else for (let i = from, to = at; i < end; i++) target[to++] = source[i];
}
