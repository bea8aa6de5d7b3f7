import type { ErrorCode } from '@lanemq/protocol';

/** A refusal: nothing was changed. The caller must look; nothing is thrown. */
export interface Refusal {
  readonly ok: false;
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryAfterSeconds?: number;
}

export const itemStatus = { queued: 0, duplicate: 1, error: 2 } as const;

/**
 * What became of a push. Arrays have one element per item, in input order, and may be longer than `count`. They are
 * reused: read them while `encode` of the reply runs.
 * A message id is made of (stampUs, pid, index): see ids.ts.
 */
export interface PushOutcome {
  readonly ok: true;
  readonly count: number;
  readonly statuses: Uint8Array;
  /** −1 where nothing was stored. */
  readonly offsets: Float64Array;
  readonly pids: Float64Array;
  readonly stamps: Float64Array;
  readonly indexes: Uint32Array;
  /** The time that each stored item waits for, microseconds; 0 = none. Null when no item waits. */
  readonly dues: Float64Array | null;
}

/** A piece of one stored block that is delivered: records fromIndex (inclusive) to toIndex (exclusive). */
export interface DeliveredPiece {
  /** The block record, valid only while `encode` of the reply runs. */
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly at: number;
  readonly fromIndex: number;
  readonly toIndex: number;
}

/** What one partition contributes to a pop. Its messages are contiguous and ascending. */
export interface DeliveredRun {
  readonly pid: number;
  /** The partition's name is names[nameStart, nameEnd), in UTF-8; valid, like the pieces, while `encode` runs. */
  readonly names: Uint8Array;
  readonly nameStart: number;
  readonly nameEnd: number;
  readonly attempt: number;
  readonly pieces: readonly DeliveredPiece[];
}

export interface PopOutcome {
  readonly ok: true;
  /** '' on a discover pop. */
  readonly queue: string;
  readonly group: string;
  /** 0 with commit on delivery and when nothing was claimed. */
  readonly leaseStamp: number;
  readonly runs: readonly DeliveredRun[];
  readonly conflation: boolean;
  readonly conflationConflict: boolean;
  readonly autopilot: { readonly partitions: number; readonly batch: number } | null;
}

export const ackError = { none: 0, notAPartitionId: 1, noPartition: 2, lease: 3, stale: 4 } as const;

/** One element per item, in input order; reused like those of a push. */
export interface AckOutcome {
  readonly ok: true;
  readonly count: number;
  readonly errors: Uint8Array;
  readonly leaseReleased: Uint8Array;
  readonly deadLettered: Uint8Array;
  readonly noop: Uint8Array;
}

export interface ExtendOutcome {
  readonly ok: true;
  readonly renewed: number;
  /** Earliest new expiry, microseconds; 0 when nothing was renewed. */
  readonly expiresAtUs: number;
}
