/**
 * What the reads by offset are asked and how they answer. None of them takes a lease, moves a cursor or makes a group
 * known. What is wrong with one entry is said in that entry; the others are answered.
 *
 * Answers can be large, so that they are written while they are read: a reply is told of one piece after the other.
 */
import type { BlockReader } from '../codec/mod.ts';
import type { Refusal } from '../core/mod.ts';

/** Markers that an entry of an answer can carry; part of the contract, but for the last. */
export type EntryError =
  | 'UNKNOWN_TOPIC_OR_PARTITION'
  | 'OFFSET_OUT_OF_RANGE'
  | 'BAD_CURSOR'
  /** The stored record at the entry's offset is not what was written: it cannot be served. */
  | 'RECORD_DAMAGED';

export interface FetchEntry {
  readonly queue: string;
  readonly partition: string;
  /** The first record that is wanted. */
  readonly offset: number;
  /** Payload bytes of the entry's records; its first record is given whatever it weighs. */
  readonly maxBytes: number;
}

export interface FetchRequest {
  readonly entries: readonly FetchEntry[];
  /** 0 = answer at once. */
  readonly maxWaitMs: number;
  /** Payload bytes below which the fetch waits; 0 = it never does. */
  readonly minBytes: number;
  /** Payload bytes of the whole answer; infinite when the request names no limit. */
  readonly maxBytes: number;
}

/** Where a partition begins and ends; both 0 for one that was never written. */
export interface PartitionBounds {
  readonly error: EntryError | null;
  /** The next offset to be given. */
  readonly highWatermark: number;
  /** The oldest offset that is kept. */
  readonly logStart: number;
}

/** Takes the answer of a fetch: entries in the order of the request, records in the order of their offsets. */
export interface FetchReply {
  /** A new answer begins; what was written before is void. A refusal when there is no memory for one. */
  begin(): Refusal | null;
  openEntry(index: number): void;
  /**
   * Record `index` of `block`, which is on it; bytes[start, end) is its payload in clear. All valid during the call.
   * `dueUs`: the time it waits for; 0 = none, −1 = it was cancelled.
   */
  record(block: BlockReader, index: number, bytes: Uint8Array, start: number, end: number, dueUs: number): void;
  closeEntry(index: number, bounds: PartitionBounds): void;
  /** Bytes of the answer so far. */
  readonly bytes: number;
  /** False: memory for answers is short, and this one should end soon. */
  hasRoom(): boolean;
  /** Exactly once, unless the fetch was cancelled. With a failure, what was written is void. */
  send(failure: Refusal | null): void;
}

export interface OffsetsEntry {
  readonly queue: string;
  readonly partition: string;
  /** The first record with a stamp of this or later is wanted; microseconds. */
  readonly stampUs: number;
}

export interface FoundOffset extends PartitionBounds {
  /** −1 = no record is as young as that. */
  readonly offset: number;
  /** 0 = none. */
  readonly stampUs: number;
}

export interface ChangedEntry {
  readonly queue: string;
  /** Partitions whose newest record is older are passed over; microseconds. */
  readonly sinceUs: number;
  /** The pid behind which the page begins; 0 = with the first partition; −1 = it is no cursor of this broker. */
  readonly after: number;
  readonly limit: number;
}

/** Takes the answer of `changed`: entries in order, partitions in the order of their creation. */
export interface ChangedReply {
  /** Every record with a stamp up to `safeTimeUs` is counted in what follows. */
  begin(safeTimeUs: number): void;
  openEntry(index: number): void;
  /** A partition; `name` is valid during the call. */
  partition(row: ChangedPartition): void;
  /** @param next pid behind which the next page begins; −1 = there is none */
  closeEntry(next: number): void;
  failEntry(index: number, error: EntryError): void;
  readonly bytes: number;
  send(failure: Refusal | null): void;
}

/** One object is used for all partitions of an answer. */
export interface ChangedPartition {
  name: Uint8Array;
  pid: number;
  createdAtUs: number;
  nextOffset: number;
  logStart: number;
  lastStampUs: number;
}

/** What the edges may ask. The results cancel: a client that is gone needs no answer, and none is sent. */
export interface OffsetReader {
  fetch(request: FetchRequest, reply: FetchReply): () => void;
  fetchOffsets(
    entries: readonly OffsetsEntry[],
    reply: { encode(found: readonly FoundOffset[]): void; send(failure: Refusal | null): void },
  ): void;
  changed(entries: readonly ChangedEntry[], reply: ChangedReply): () => void;
}
