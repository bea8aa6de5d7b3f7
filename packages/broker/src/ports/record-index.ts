import type { LogAddress } from './log.ts';

/** Where a block (the stored form of one append) lies. */
export interface BlockLocation {
  address: LogAddress;
  /** Length of the whole block record in bytes. */
  length: number;
  firstOffset: number;
  stampUs: number;
  /** Records in the block. */
  count: number;
}

export interface FoundId {
  offset: number;
  stampUs: number;
  /** Number of the record in its block. */
  index: number;
}

/**
 * Finds blocks by (lane, offset) and records by the fingerprint of their transactionId.
 *
 * A block can be stored more than once: reclaiming copies it nearer to the tail before its segment goes. Any copy will do.
 *
 * Blocks and ids of segments that are still written, or sealed a moment ago, are indexed in memory; of older ones in a
 * sidecar file per segment with small filters in memory. `lane` is the small integer by which the core keeps a
 * partition (reused after the partition is deleted), `pid` the partition's number for ever.
 */
export interface RecordIndex {
  /** Called for each block record, live and at recovery. `bytes` is read now and not kept. */
  addBlock(lane: number, bytes: Uint8Array, view: DataView, at: number, address: LogAddress): void;
  /** The same for a copy of a block that was added before. Its ids are not added again. */
  addRelocated(bytes: Uint8Array, view: DataView, at: number, address: LogAddress): void;
  /** The partition is gone; its lane number may be given to another. */
  forgetLane(lane: number): void;

  /** The block that holds `offset`, if its place is known in memory; the result object is reused by the next call. */
  find(lane: number, pid: number, offset: number): BlockLocation | undefined;
  /** The same with the sidecars; afterwards `find` knows it until the next `soon` turn. Undefined = there is no such block. */
  load(lane: number, pid: number, offset: number): Promise<BlockLocation | undefined>;
  /** First block of the lane with stamp ≥ stampUs (binary search, sidecars included); undefined when there is none. */
  loadByTime(lane: number, pid: number, stampUs: number): Promise<BlockLocation | undefined>;

  /**
   * Newest record with this id and a stamp ≥ sinceUs, if it is known from memory alone; the result object is reused by the
   * next call.
   */
  findId(pid: number, hashHigh: number, hashLow: number, sinceUs: number): FoundId | undefined;
  /** True when a sidecar that reaches back no further than sinceUs may hold the id: then ask `loadId`. Synchronous, a few filter probes. */
  mayHoldId(pid: number, hashHigh: number, hashLow: number, sinceUs: number): boolean;
  loadId(pid: number, hashHigh: number, hashLow: number, sinceUs: number): Promise<FoundId | undefined>;
  /** Grows whenever a segment's index moved from memory to its sidecar: a negative `mayHoldId` asked before is void. */
  readonly generation: number;
}
