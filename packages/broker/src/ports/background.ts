import type { LogAddress } from './log.ts';

export interface BuiltSnapshot {
  readonly sequence: number;
  /** Log address behind the last entry it holds. */
  readonly address: number;
  /** Digest of the state in it. */
  readonly digest: number;
  /** Size of the file. */
  readonly bytes: number;
}

/** The blocks and ids of one segment, as columns. Only the first `blockCount` and `idCount` cells of each count. */
export interface SegmentRows {
  readonly base: LogAddress;
  /** Address behind its last entry. */
  readonly end: LogAddress;
  readonly blockCount: number;
  readonly pids: Float64Array;
  readonly firstOffsets: Float64Array;
  readonly stamps: Float64Array;
  /** Address minus `base`. */
  readonly distances: Uint32Array;
  readonly lengths: Uint32Array;
  /** Records of the block. */
  readonly counts: Uint32Array;
  readonly idCount: number;
  readonly hashHighs: Uint32Array;
  readonly hashLows: Uint32Array;
  /** Row of the id's block in the columns above. */
  readonly idBlocks: Uint32Array;
  /** Index of the record in its block. */
  readonly idIndexes: Uint32Array;
}

/** Heavy work beside the serving thread: a worker thread on a real host, a plain call in the simulation. */
export interface Background {
  /**
   * Builds the sidecar index of the sealed segment that starts at `base` and ends at `end`: of the rows when they are there,
   * which are the job's own from then on, else by reading the segment.
   */
  buildSegmentIndex(base: LogAddress, end: LogAddress, rows: SegmentRows | null): Promise<void>;
  /** Loads the newest snapshot, applies the log up to `sequence`, writes the next snapshot. */
  buildSnapshot(throughSequence: number): Promise<BuiltSnapshot>;
  /** Pending promises reject; resolves when nothing is running any more. New work may be given afterwards. */
  cancel(): Promise<void>;
  /** `cancel`, for ever: new work is refused. */
  close(): Promise<void>;
}
