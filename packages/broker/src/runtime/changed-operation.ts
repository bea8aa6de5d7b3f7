/**
 * Which partitions of queues were written since a time. A queue may have millions of them: they are walked in slices,
 * one turn of the loop after the other.
 *
 * The walk is right whatever happens between its slices, because it goes by pid, in which partitions are created: those
 * that are created come behind it, those that are deleted are not met. `safeTime` is taken before it begins: a record
 * that is stored during the walk has a later stamp, and is found from there.
 */
import { limits } from '@lanemq/protocol';
import type { BrokerState, Queue, Refusal } from '../core/mod.ts';
import type { OffsetReads } from './offset-reads.ts';
import type { Operation } from './operations.ts';
import type { ChangedEntry, ChangedPartition, ChangedReply } from './read-requests.ts';
import { FetchedFacts } from './store-access.ts';

/** Partitions that are walked before the work of the turn is looked at again. */
const lanesPerStep = 4096;
/** What a partition costs that is listed, in partitions that are passed over. */
const rowWork = 30;

export class ChangedOperation implements Operation {
  readonly facts = new FetchedFacts();
  readonly #reads: OffsetReads;
  readonly #entries: readonly ChangedEntry[];
  readonly #reply: ChangedReply;
  readonly #row: ChangedPartition = {
    name: new Uint8Array(0),
    pid: 0,
    createdAtUs: 0,
    nextOffset: 0,
    logStart: 0,
    lastStampUs: 0,
  };
  #begun = false;
  #cancelled = false;
  #entry = 0;
  /** The entry that is being walked; its queue, the last pid that was looked at and what is listed of it. */
  #queue: Queue | null = null;
  #lookedAt = 0;
  #listed = 0;
  #lastListed = 0;

  constructor(reads: OffsetReads, entries: readonly ChangedEntry[], reply: ChangedReply) {
    this.#reads = reads;
    this.#entries = entries;
    this.#reply = reply;
  }

  /** The client is gone: nothing is sent. */
  cancel(): void {
    this.#cancelled = true;
  }

  decide(): 'done' | 'later' | 'parked' {
    if (this.#cancelled) return 'parked';
    const { state } = this.#reads;
    if (!this.#begun) {
      this.#begun = true;
      this.#reply.begin(state.lastStampUs);
    }
    while (this.#entry < this.#entries.length) {
      if (!this.#reads.takeWork(rowWork, 'walk')) return 'later';
      const entry = this.#entries[this.#entry];
      if (this.#queue === null) {
        const queue = state.queues.get(entry.queue);
        if (queue === undefined || entry.after < 0) {
          this.#reply.failEntry(this.#entry++, queue === undefined ? 'UNKNOWN_TOPIC_OR_PARTITION' : 'BAD_CURSOR');
          continue;
        }
        this.#queue = queue;
        this.#lookedAt = entry.after;
        this.#listed = 0;
        this.#lastListed = entry.after;
        this.#reply.openEntry(this.#entry);
      }
      if (this.#walk(state, entry, this.#queue)) {
        this.#queue = null;
        this.#entry++;
      } else if (!this.#reads.takeWork(0, 'walk')) return 'later';
    }
    return 'done';
  }

  /** Walks some partitions on; true when the page is at its end. */
  #walk(state: BrokerState, entry: ChangedEntry, queue: Queue): boolean {
    const { partitions } = state;
    // One that was deleted since has no partitions any more.
    const laneCount = state.queueByNumber.get(queue.number) === queue ? queue.laneCount : 0;
    const limit = Math.min(entry.limit, Math.max(1, Math.floor(limits.changedRowsMax / this.#entries.length)));
    let position = Math.min(laneCount, state.laneIndexAfter(queue, this.#lookedAt));
    const end = Math.min(laneCount, position + lanesPerStep);
    const from = position;
    const listedBefore = this.#listed;
    for (; position < end; position++) {
      const lane = queue.lanes[position];
      if (partitions.lastStampUs[lane] < entry.sinceUs) continue;
      // A page that the answer has no memory for ends early: the client goes on where it ends.
      if (this.#listed === limit || this.#reply.bytes >= limits.fetchAnswerBytesMax) break;
      this.#list(state, lane);
      if (this.#listed === limit) break;
    }
    if (position > from) this.#lookedAt = partitions.pid[queue.lanes[position - 1]];
    this.#reads.takeWork(position - from + (this.#listed - listedBefore) * rowWork, 'walk');
    const isFull = position < end;
    if (!isFull && end < laneCount) return false;
    this.#reply.closeEntry(isFull ? this.#lastListed : -1);
    return true;
  }

  #list(state: BrokerState, lane: number): void {
    const { partitions } = state;
    const row = this.#row;
    row.name = partitions.nameBytes(lane);
    row.pid = partitions.pid[lane];
    row.createdAtUs = partitions.createdAtUs[lane];
    row.nextOffset = partitions.nextOffset[lane];
    row.logStart = partitions.logStart[lane];
    row.lastStampUs = partitions.lastStampUs[lane];
    this.#reply.partition(row);
    this.#listed++;
    this.#lastListed = row.pid;
  }

  release(failure: Refusal | null): void {
    if (!this.#cancelled) this.#reply.send(failure);
  }
}
