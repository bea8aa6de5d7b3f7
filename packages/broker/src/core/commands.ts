/**
 * What the core is asked to do. Requests carry bytes and numbers that the edge has already taken apart, so that the
 * core neither parses nor hashes.
 */

/** Fields per item in `PushItems.slices`. Starts and ends are indexes into `bytes`; end is exclusive. */
export const pushSlice = {
  queueStart: 0,
  queueEnd: 1,
  partitionStart: 2,
  partitionEnd: 3,
  /** −1 when the item has no transactionId. */
  idStart: 4,
  idEnd: 5,
  payloadStart: 6,
  payloadEnd: 7,
  /** A JSON object; empty when the item has none. */
  headersStart: 8,
  headersEnd: 9,
  stride: 10,
} as const;

/** Fields per item in `PushItems.hashes`. */
export const pushHash = {
  partitionHigh: 0,
  partitionLow: 1,
  /** Both 0 when the item has no transactionId; never both 0 when it has one. */
  idHigh: 2,
  idLow: 3,
  stride: 4,
} as const;

/**
 * The items of one push, in input order, sliced and not copied.
 * Names and ids are UTF-8 with JSON escapes already resolved; payloads are the client's own JSON text.
 */
export interface PushItems {
  /** The request body; text that had to be unescaped, and names that were defaulted, lie behind it. */
  readonly bytes: Uint8Array;
  readonly count: number;
  readonly slices: Int32Array;
  /** Filled by the runtime with keyed hashes before the core sees the items. */
  readonly hashes: Uint32Array;
  /**
   * When each item may be delivered at the earliest: microseconds since 1970; −1 − d = d microseconds after its stamp; NaN =
   * at once. None or null = all at once. Whoever stores an item replaces its time by the absolute one, 0 = at once.
   */
  readonly due?: Float64Array | null;
}

export const ackStatus = { completed: 0, failed: 1, retry: 2, dlq: 3 } as const;
export type AckStatus = (typeof ackStatus)[keyof typeof ackStatus];

/** The acknowledgements of one call, in input order. */
export interface AckItems {
  readonly count: number;
  /** UTF-8 of all transactionIds, one behind the other. */
  readonly bytes: Uint8Array;
  /** count + 1 positions in `bytes`: item i is [ends[i], ends[i + 1]); empty when no usable id was sent. */
  readonly ends: Int32Array;
  /** Two keyed hashes per item (high, low), filled by the runtime. */
  readonly hashes: Uint32Array;
  /** −1 when it is not a decimal number. */
  readonly pids: Float64Array;
  /** Stamp of the lease id; 0 = none was sent; −1 = sent, but no id of this broker. */
  readonly leaseStamps: Float64Array;
  readonly statuses: Uint8Array;
  readonly errors: readonly (string | null)[];
}
