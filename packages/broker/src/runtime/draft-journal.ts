/**
 * The journal of a shard: a record is written into the draft of the log's next entry and applied to the state from
 * those bytes, so that live, at recovery and in the snapshot builder the very same code runs on the very same bytes.
 */
import {
  type Hasher,
  readRecords,
  writeBlock,
  writeCursor,
  writeDeadLetter,
  writeDeadLetterRemoved,
  writeDueChanged,
  writeGenesis,
  writeLogStart,
  writePartition,
  writePartitionPaused,
  writePartitionsDeleted,
  writeQueue,
  writeQueueDeleted,
  writeRelocatedBlock,
  writeSegmentReclaimed,
  writeSubscription,
  writeSubscriptionDeleted,
  writeTrace,
} from '../codec/mod.ts';
import type {
  BrokerState,
  CursorRecord,
  DeadLetterRecord,
  DeadLetterRemovedRecord,
  EdgeJournal,
  GenesisRecord,
  Journal,
  LogRange,
  LogStartRecord,
  PartitionPausedRecord,
  PushItems,
  QueueDeletedRecord,
  QueueRecord,
  SubscriptionDeletedRecord,
  SubscriptionRecord,
  TraceRecord,
} from '../core/mod.ts';
import type { EntryDraft } from '../ports/mod.ts';
import { DraftEdgeJournal } from './edge-journal.ts';

export class DraftJournal implements Journal {
  readonly edges: EdgeJournal;
  readonly #draft: EntryDraft;
  readonly #state: BrokerState;
  readonly #hasher: Hasher;
  /** Records in the draft. */
  recordCount = 0;
  /** Digest of the state before the first of them. */
  digestBefore = 0;

  constructor(draft: EntryDraft, state: BrokerState, hasher: Hasher) {
    this.#draft = draft;
    this.#state = state;
    this.#hasher = hasher;
    this.edges = new DraftEdgeJournal(draft, hasher, (write) => {
      const address = this.#begin();
      write();
      state.edges.recordBase = draft.base;
      this.#apply(address);
    });
  }

  /** The draft was sealed. */
  reset(): void {
    this.recordCount = 0;
  }

  /** Address where the next record begins; it stays right when the draft moves to other memory. */
  #begin(): number {
    if (this.recordCount === 0) this.digestBefore = this.#state.digest;
    return this.#draft.base + this.#draft.position;
  }

  #apply(address: number): void {
    const draft = this.#draft;
    this.recordCount += readRecords(draft.bytes, draft.view, address - draft.base, draft.position, this.#state);
  }

  genesis(record: GenesisRecord): void {
    const address = this.#begin();
    writeGenesis(this.#draft, record);
    this.#apply(address);
  }

  queue(record: QueueRecord): void {
    const address = this.#begin();
    writeQueue(this.#draft, record);
    this.#apply(address);
  }

  queueDeleted(record: QueueDeletedRecord): void {
    const address = this.#begin();
    writeQueueDeleted(this.#draft, record);
    this.#apply(address);
  }

  partition(
    pid: number,
    queueNumber: number,
    createdAtUs: number,
    nameHash: number,
    bytes: Uint8Array,
    nameStart: number,
    nameEnd: number,
  ): void {
    const address = this.#begin();
    writePartition(this.#draft, pid, queueNumber, createdAtUs, nameHash, bytes, nameStart, nameEnd);
    this.#apply(address);
  }

  block(
    pid: number,
    firstOffset: number,
    stampUs: number,
    items: PushItems,
    numbers: Int32Array,
    from: number,
    count: number,
    encrypted: boolean,
  ): void {
    const address = this.#begin();
    writeBlock(this.#draft, pid, firstOffset, stampUs, items, numbers, from, count, encrypted, this.#hasher);
    this.#apply(address);
  }

  subscription(record: SubscriptionRecord): void {
    const address = this.#begin();
    writeSubscription(this.#draft, record);
    this.#apply(address);
  }

  cursor(record: CursorRecord): void {
    const address = this.#begin();
    writeCursor(this.#draft, record);
    this.#apply(address);
  }

  deadLetter(record: DeadLetterRecord): void {
    const address = this.#begin();
    writeDeadLetter(this.#draft, record);
    this.#apply(address);
  }

  subscriptionDeleted(record: SubscriptionDeletedRecord): void {
    const address = this.#begin();
    writeSubscriptionDeleted(this.#draft, record);
    this.#apply(address);
  }

  partitionPaused(record: PartitionPausedRecord): void {
    const address = this.#begin();
    writePartitionPaused(this.#draft, record);
    this.#apply(address);
  }

  logStart(record: LogStartRecord): void {
    const address = this.#begin();
    writeLogStart(this.#draft, record);
    this.#apply(address);
  }

  partitionsDeleted(queueNumber: number, pids: readonly number[]): void {
    const address = this.#begin();
    writePartitionsDeleted(this.#draft, queueNumber, pids);
    this.#apply(address);
  }

  relocatedBlock(fromAddress: number, bytes: Uint8Array, at: number, length: number): void {
    const address = this.#begin();
    writeRelocatedBlock(this.#draft, fromAddress, bytes, at, length);
    this.#apply(address);
  }

  segmentReclaimed(range: LogRange): void {
    const address = this.#begin();
    writeSegmentReclaimed(this.#draft, range);
    this.#apply(address);
  }

  trace(record: TraceRecord): void {
    const address = this.#begin();
    writeTrace(this.#draft, record);
    this.#apply(address);
  }

  deadLetterRemoved(record: DeadLetterRemovedRecord): void {
    const address = this.#begin();
    writeDeadLetterRemoved(this.#draft, record);
    this.#apply(address);
  }

  dueChanged(pid: number, offset: number, dueUs: number): void {
    const address = this.#begin();
    writeDueChanged(this.#draft, pid, offset, dueUs);
    this.#apply(address);
  }
}
