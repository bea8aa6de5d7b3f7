import type { Hasher } from '../codec/mod.ts';
import type { BrokerState } from '../core/mod.ts';
import type { Background, BlockLocation, BuiltSnapshot, Log, Random, RecordIndex } from '../ports/mod.ts';

/** One sealed part of the log. */
export interface StoredSegment {
  readonly base: number;
  /** Address behind its last byte. */
  readonly end: number;
}

/** A block as the index of its segment lists it. The object is used for one block after the other. */
export interface StoredBlock extends BlockLocation {
  readonly pid: number;
}

/** The sealed segments of a store, for whoever gives back the disk they take. */
export interface Segments {
  /** In order of address. */
  sealed(): readonly StoredSegment[];
  /** Bytes of all blocks in a segment, copies included. */
  blockBytes(base: number): number;
  /** The same of the segments that are not sealed yet. */
  unsealedBlockBytes(): number;
  /**
   * Visits all blocks of a segment; `pause` is awaited now and then. False when the index of the segment is not complete
   * yet: then nothing was shown. Rejects with StoreDamage when it can neither be read nor built again.
   */
  visitBlocks(base: number, visit: (block: StoredBlock) => void, pause: () => Promise<void>): Promise<boolean>;
  /** True when a copy of the block at `address` is stored behind it. */
  hasRelocated(pid: number, offset: number, address: number): Promise<boolean>;
  /** The blocks of a segment are not found any more; its ids are, as long as somebody may ask for them. */
  dropBlocks(base: number): Promise<void>;
  /** Removes the file. Only after `dropBlocks`, when all reads that began before have ended. */
  remove(base: number): Promise<void>;
  /** Forgets ids that nobody asks for any more. */
  expireIds(): Promise<void>;
  /**
   * When the log had announced, as the store was opened, that the segment may be missing: an entry at or behind the one that
   * did. That is the newest snapshot's when it holds the announcement.
   */
  announcedBy(base: number): number | undefined;
  /** Of the snapshots that are kept: what the newest holds, and the address to which each of two reaches (0: too few). */
  snapshots(): {
    readonly newestSequence: number;
    readonly newestAddress: number;
    readonly newestBytes: number;
    readonly coveredAddress: number;
  };
}

/** An opened data folder, recovered and ready to serve: what a shard runs on. Replaced as a whole after a failure. */
export interface Store {
  readonly log: Log;
  readonly index: RecordIndex;
  readonly state: BrokerState;
  readonly hasher: Hasher;
  readonly random: Random;
  readonly background: Background;
  readonly segments: Segments;
  readonly epoch: number;
  /** Log bytes since the newest snapshot. */
  bytesSinceSnapshot(): number;
  segmentCount(): number;
  /** Gauges of log and index, by name. */
  stats(): Readonly<Record<string, number>>;
  /** A snapshot is complete. */
  snapshotTaken(built: BuiltSnapshot): void;
  /** Makes all durable, marks the log as cleanly closed and gives the folder free. */
  close(): Promise<void>;
  /** Lets go of everything without writing: after a failure. */
  abandon(): Promise<void>;
}
