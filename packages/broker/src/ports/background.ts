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

/**
 * The rows of one sealed segment as the index holds them, for its sidecar: not a copy. Nothing is added to them any more,
 * and they stay as they are until the sidecar is in use. What lies where is for the storage to know.
 */
export interface SegmentRows {
  readonly base: LogAddress;
  /** Address behind its last entry. */
  readonly end: LogAddress;
  readonly blockPages: readonly SharedArrayBuffer[];
  /** Rows of the first page that belong to earlier segments. */
  readonly firstBlock: number;
  readonly blockCount: number;
  /** Ordinal of the record behind the last one, modulo 2^32. */
  readonly endOrdinal: number;
  readonly idParts: readonly SharedArrayBuffer[];
  readonly idCount: number;
}

/** Heavy work beside the serving thread: a worker thread on a real host, a plain call in the simulation. */
export interface Background {
  /**
   * Builds the sidecar index of the sealed segment that starts at `base` and ends at `end`: of the rows when they are there,
   * else by reading the segment.
   */
  buildSegmentIndex(base: LogAddress, end: LogAddress, rows: SegmentRows | null): Promise<void>;
  /** Loads the newest snapshot, applies the log up to `sequence`, writes the next snapshot. */
  buildSnapshot(throughSequence: number): Promise<BuiltSnapshot>;
  /** Pending promises reject; resolves when nothing is running any more. New work may be given afterwards. */
  cancel(): Promise<void>;
  /** `cancel`, for ever: new work is refused. */
  close(): Promise<void>;
}
