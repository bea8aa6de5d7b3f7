/**
 * All cursors, one row per (partition, group) that has one: columns again, 66 bytes a row. What only a busy cursor
 * needs (lease, attempts, hold) lives in a claim row that comes and goes.
 *
 * A row can exist before its position is known ("not placed"): then it only says that the group has something to get
 * there, and means the same as no row.
 *
 * Invariants: one row per (lane, subscription); placed ⇒ −1 ≤ committed < nextOffset of the lane; a claim row exists
 * exactly while one of its fields differs from its rest value.
 */
import { assert } from './assert.ts';
import { grownFloat64, grownInt32, grownUint8, grownUint32, RowAllocator, rowsAtFirst } from './columns.ts';
import type { CursorRecord } from './records.ts';

/** Bits of `CursorTable.flags`. */
export const cursorBit = {
  /** `committed` is the group's position. */
  placed: 1,
  /** A claim, an ack or a position made the row: an ack may refer to it. */
  touched: 2,
} as const;

const firstClaims = 256;

export class CursorTable {
  lane: Int32Array;
  /** −1 = the row is free. */
  subscription: Int32Array;
  nextOfLane: Int32Array;
  flags: Uint8Array;
  committed: Float64Array;
  /** Row of the claim columns; −1 = none. */
  claim: Int32Array;
  memoStamp: Float64Array;
  memoFrom: Float64Array;
  memoCount: Uint32Array;
  totalConsumed: Float64Array;
  batchesConsumed: Uint32Array;
  /** Of the schedule: what the row waits for, and its place in the deadlines. See schedule.ts. */
  readiness: Uint8Array;
  ticket: Uint32Array;
  deadlineAt: Int32Array;
  readonly #rows = new RowAllocator();

  // Claims
  leaseStamp = new Float64Array(firstClaims);
  leaseEnd = new Float64Array(firstClaims);
  expiresAtUs = new Float64Array(firstClaims);
  conflated = new Uint8Array(firstClaims);
  retryCount = new Uint32Array(firstClaims);
  attemptOffset = new Float64Array(firstClaims);
  attemptCount = new Uint32Array(firstClaims);
  heldUntilUs = new Float64Array(firstClaims);
  /** Next cursor under the same lease id; −1 = last. */
  nextOfLease = new Int32Array(firstClaims);
  readonly #claims = new RowAllocator();
  /** First cursor under each lease id that still stands in a row, live or expired. */
  readonly #firstOfLease = new Map<number, number>();

  /** @param rows that there is room for before the columns have to grow. */
  constructor(rows: number = rowsAtFirst) {
    this.lane = new Int32Array(rows);
    this.subscription = new Int32Array(rows);
    this.nextOfLane = new Int32Array(rows);
    this.flags = new Uint8Array(rows);
    this.committed = new Float64Array(rows);
    this.claim = new Int32Array(rows);
    this.memoStamp = new Float64Array(rows);
    this.memoFrom = new Float64Array(rows);
    this.memoCount = new Uint32Array(rows);
    this.totalConsumed = new Float64Array(rows);
    this.batchesConsumed = new Uint32Array(rows);
    this.readiness = new Uint8Array(rows);
    this.ticket = new Uint32Array(rows);
    this.deadlineAt = new Int32Array(rows);
  }

  get count(): number {
    return this.#rows.live;
  }

  get rowLimit(): number {
    return this.#rows.used;
  }

  /** The row of a subscription in the list that starts at `first`, or −1. */
  find(first: number, subscription: number): number {
    for (let row = first; row >= 0; row = this.nextOfLane[row]) if (this.subscription[row] === subscription) return row;
    return -1;
  }

  /** A new row, not placed, at the head of its lane's list. */
  add(lane: number, subscription: number, nextOfLane: number): number {
    const usedBefore = this.#rows.used;
    const row = this.#rows.take();
    if (row >= this.lane.length) this.#grow(this.lane.length * 2);
    this.lane[row] = lane;
    this.subscription[row] = subscription;
    this.nextOfLane[row] = nextOfLane;
    this.committed[row] = -1;
    this.claim[row] = -1;
    if (row < usedBefore) {
      this.flags[row] = 0;
      this.memoStamp[row] = 0;
      this.memoFrom[row] = 0;
      this.memoCount[row] = 0;
      this.totalConsumed[row] = 0;
      this.batchesConsumed[row] = 0;
      this.readiness[row] = 0;
      this.deadlineAt[row] = 0;
    }
    return row;
  }

  remove(row: number): void {
    if (this.claim[row] >= 0) this.#dropClaim(row);
    this.subscription[row] = -1;
    this.#rows.give(row);
  }

  hasLiveLease(row: number, nowUs: number): boolean {
    const claim = this.claim[row];
    return claim >= 0 && this.leaseStamp[claim] !== 0 && this.expiresAtUs[claim] >= nowUs;
  }

  /** First cursor under a lease id, or −1; follow `nextOfLease[claim[row]]`. */
  firstOfLease(leaseStamp: number): number {
    return this.#firstOfLease.get(leaseStamp) ?? -1;
  }

  /** Copies a row into a record (with nothing consumed), for the decision that changes some of it. */
  read(row: number, pid: number, into: CursorRecord): CursorRecord {
    into.pid = pid;
    into.subscription = this.subscription[row];
    into.committed = this.committed[row];
    const claim = this.claim[row];
    if (claim >= 0) {
      into.leaseStamp = this.leaseStamp[claim];
      into.leaseEnd = this.leaseEnd[claim];
      into.expiresAtUs = this.expiresAtUs[claim];
      into.conflated = this.conflated[claim] !== 0;
      into.retryCount = this.retryCount[claim];
      into.attemptOffset = this.attemptOffset[claim];
      into.attemptCount = this.attemptCount[claim];
      into.heldUntilUs = this.heldUntilUs[claim];
    } else {
      into.leaseStamp = 0;
      into.leaseEnd = 0;
      into.expiresAtUs = 0;
      into.conflated = false;
      into.retryCount = 0;
      into.attemptOffset = -1;
      into.attemptCount = 0;
      into.heldUntilUs = 0;
    }
    into.memoStamp = this.memoStamp[row];
    into.memoFrom = this.memoFrom[row];
    into.memoCount = this.memoCount[row];
    into.consumed = 0;
    into.batchDone = false;
    return into;
  }

  /** Makes the row what the record says. */
  write(row: number, record: CursorRecord): void {
    this.flags[row] |= cursorBit.placed | cursorBit.touched;
    this.committed[row] = record.committed;
    this.memoStamp[row] = record.memoStamp;
    this.memoFrom[row] = record.memoFrom;
    this.memoCount[row] = record.memoCount;
    if (record.consumed > 0) this.totalConsumed[row] += record.consumed;
    if (record.batchDone) this.batchesConsumed[row]++;
    const rests =
      record.leaseStamp === 0 && record.retryCount === 0 && record.attemptCount === 0 && record.heldUntilUs === 0;
    let claim = this.claim[row];
    if (rests) {
      if (claim >= 0) this.#dropClaim(row);
      return;
    }
    if (claim < 0) claim = this.#addClaim(row);
    if (this.leaseStamp[claim] !== record.leaseStamp) {
      if (this.leaseStamp[claim] !== 0) this.#leaveLease(row, claim);
      this.leaseStamp[claim] = record.leaseStamp;
      if (record.leaseStamp !== 0) {
        this.nextOfLease[claim] = this.#firstOfLease.get(record.leaseStamp) ?? -1;
        this.#firstOfLease.set(record.leaseStamp, row);
      }
    }
    this.leaseEnd[claim] = record.leaseEnd;
    this.expiresAtUs[claim] = record.expiresAtUs;
    this.conflated[claim] = record.conflated ? 1 : 0;
    this.retryCount[claim] = record.retryCount;
    this.attemptOffset[claim] = record.attemptOffset;
    this.attemptCount[claim] = record.attemptCount;
    this.heldUntilUs[claim] = record.heldUntilUs;
  }

  #addClaim(row: number): number {
    const claim = this.#claims.take();
    if (claim >= this.leaseStamp.length) this.#growClaims(this.leaseStamp.length * 2);
    this.leaseStamp[claim] = 0;
    this.nextOfLease[claim] = -1;
    this.claim[row] = claim;
    return claim;
  }

  #dropClaim(row: number): void {
    const claim = this.claim[row];
    if (this.leaseStamp[claim] !== 0) this.#leaveLease(row, claim);
    this.leaseStamp[claim] = 0;
    this.claim[row] = -1;
    this.#claims.give(claim);
  }

  #leaveLease(row: number, claim: number): void {
    const stamp = this.leaseStamp[claim];
    const next = this.nextOfLease[claim];
    let other = this.#firstOfLease.get(stamp) ?? -1;
    if (other === row) {
      if (next < 0) this.#firstOfLease.delete(stamp);
      else this.#firstOfLease.set(stamp, next);
    } else {
      while (other >= 0 && this.nextOfLease[this.claim[other]] !== row) other = this.nextOfLease[this.claim[other]];
      assert(other >= 0, 'a leased cursor is in the list of its lease');
      this.nextOfLease[this.claim[other]] = next;
    }
    this.nextOfLease[claim] = -1;
  }

  #grow(capacity: number): void {
    this.lane = grownInt32(this.lane, capacity);
    this.subscription = grownInt32(this.subscription, capacity);
    this.nextOfLane = grownInt32(this.nextOfLane, capacity);
    this.flags = grownUint8(this.flags, capacity);
    this.committed = grownFloat64(this.committed, capacity);
    this.claim = grownInt32(this.claim, capacity);
    this.memoStamp = grownFloat64(this.memoStamp, capacity);
    this.memoFrom = grownFloat64(this.memoFrom, capacity);
    this.memoCount = grownUint32(this.memoCount, capacity);
    this.totalConsumed = grownFloat64(this.totalConsumed, capacity);
    this.batchesConsumed = grownUint32(this.batchesConsumed, capacity);
    this.readiness = grownUint8(this.readiness, capacity);
    this.ticket = grownUint32(this.ticket, capacity);
    this.deadlineAt = grownInt32(this.deadlineAt, capacity);
  }

  #growClaims(capacity: number): void {
    this.leaseStamp = grownFloat64(this.leaseStamp, capacity);
    this.leaseEnd = grownFloat64(this.leaseEnd, capacity);
    this.expiresAtUs = grownFloat64(this.expiresAtUs, capacity);
    this.conflated = grownUint8(this.conflated, capacity);
    this.retryCount = grownUint32(this.retryCount, capacity);
    this.attemptOffset = grownFloat64(this.attemptOffset, capacity);
    this.attemptCount = grownUint32(this.attemptCount, capacity);
    this.heldUntilUs = grownFloat64(this.heldUntilUs, capacity);
    this.nextOfLease = grownInt32(this.nextOfLease, capacity);
  }
}
