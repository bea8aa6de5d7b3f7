/**
 * A byte position in the log. Addresses grow for ever and are never reused; segments are consecutive ranges of them.
 * An integer below 2^53.
 */
export type LogAddress = number;

/**
 * The entry being filled. The writer puts bytes at `position`, then moves `position`.
 * `require(n)` guarantees n free bytes at `position`; it may move the draft to other memory, so `bytes`, `view`
 * and `position` must be read again after it. Addresses do not change: byte `bytes[i]` has address `base + i`.
 */
export interface EntryDraft {
  bytes: Uint8Array;
  view: DataView;
  position: number;
  /** Address of `bytes[0]`. */
  base: number;
  require(length: number): void;
}

export interface EntryHeader {
  readonly address: LogAddress;
  readonly length: number;
  readonly sequence: number;
  /** Broker time when sealed, microseconds. */
  readonly stampUs: number;
  /** Digest of the state before this entry, 32 bits. */
  readonly digest: number;
  readonly epoch: number;
  readonly recordCount: number;
}

/** Bytes that are in memory now. Reused by the next call: read it at once, keep nothing. */
export interface ResidentBytes {
  bytes: Uint8Array;
  view: DataView;
  /** Index in `bytes` of the first byte asked for. */
  at: number;
}

/**
 * An append-only, durable sequence of entries that is also the message store.
 *
 * Entries become durable in order. `seal` never blocks: writes are pipelined (one write and one sync per group of
 * sealed entries), and the next draft can be filled while earlier entries are on their way.
 */
export interface Log {
  readonly draft: EntryDraft;
  /** Sequence number that the draft gets when it is sealed. */
  readonly nextSequence: number;
  /** Everything up to here is on disk. */
  readonly durableSequence: number;
  /** Address after the last sealed entry. */
  readonly tail: LogAddress;
  /** True when the draft holds at least one record. */
  readonly draftHasRecords: boolean;
  /** Closes the draft as one entry and queues it for the disk. Returns its sequence. */
  seal(facts: { stampUs: number; digest: number; recordCount: number }): number;
  /** Called in order, after `durableSequence` moved. */
  onDurable: (throughSequence: number) => void;
  /** Called once; after it the log is dead: nothing sealed later is written, and it must be closed and opened again. */
  onFailure: (error: Error) => void;
  /**
   * Bytes [address, address + length) when they are in memory because this process wrote them: in the tail that is kept,
   * or in the draft. Nothing that was read from disk.
   */
  recent(address: LogAddress, length: number): ResidentBytes | undefined;
  /** The same, and what was loaded: as it was read, which may not be what was written. */
  resident(address: LogAddress, length: number): ResidentBytes | undefined;
  /** Brings bytes into memory, where they stay at least until the next `soon` turn after it resolves. Checks nothing. */
  load(address: LogAddress, length: number): Promise<void>;
  /** Address behind the last durable byte of the segment that holds `address`; undefined = no segment does. */
  segmentEnd(address: LogAddress): LogAddress | undefined;
  /**
   * Fills `target` with the durable bytes at `address`, all of one segment, straight from its file: for reads of much
   * that nobody will ask for again soon. Keeps and checks nothing. Rejects with what the disk reports, or when the file
   * is too short.
   */
  readInto(address: LogAddress, target: Uint8Array): Promise<void>;
  /** Waits until all that was sealed is durable, marks the log as cleanly closed, closes the files. */
  close(): Promise<void>;
}
