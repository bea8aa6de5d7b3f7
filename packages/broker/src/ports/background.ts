export interface BuiltSnapshot {
  readonly sequence: number;
  /** Log address behind the last entry it holds. */
  readonly address: number;
  /** Digest of the state in it. */
  readonly digest: number;
  /** Size of the file. */
  readonly bytes: number;
}

/** Heavy work beside the serving thread: a worker thread on a real host, a plain call in the simulation. */
export interface Background {
  /** Builds the sidecar index of the sealed segment that starts at `base` and ends at `end`. */
  buildSegmentIndex(base: number, end: number): Promise<void>;
  /** Loads the newest snapshot, applies the log up to `sequence`, writes the next snapshot. */
  buildSnapshot(throughSequence: number): Promise<BuiltSnapshot>;
  /** Pending promises reject; resolves when nothing is running any more. New work may be given afterwards. */
  cancel(): Promise<void>;
  /** `cancel`, for ever: new work is refused. */
  close(): Promise<void>;
}
