/** Heavy work beside the serving thread: a worker thread on a real host, a plain call in the simulation. */
export interface Background {
  /** Builds the sidecar index of the sealed segment that starts at `base`. */
  buildSegmentIndex(base: number): Promise<void>;
  /** Loads the newest snapshot, applies the log up to `sequence`, writes the next snapshot. Resolves with its digest. */
  buildSnapshot(throughSequence: number): Promise<{ sequence: number; digest: number; bytes: number }>;
  /** Stops what is running; pending promises reject. */
  close(): Promise<void>;
}
