/**
 * Messages of many partitions, newest first.
 *
 * The partitions that were written last are found by a walk (their newest stamps are in memory). Then their appends are
 * merged, the newest of all partitions first, reading one block after the other until the page is full. A page needs at
 * most as many partitions as it has rows, since each of the newest ones gives at least one. A filter on the status needs
 * to look at more; the search ends after `messagesScannedMax` records or `messagesScannedBytes`.
 */
import { limits } from '@lanemq/protocol';
import type { BlockReader } from '../codec/mod.ts';
import { type BrokerState, defaultGroup, type Queue } from '../core/mod.ts';
import type { PayloadCipher } from '../ports/mod.ts';
import type { MessageFilter, RecordView } from './browse-views.ts';
import type { Sight } from './queue-views.ts';
import { walkLanes } from './queue-views.ts';
import type { ReadPace } from './read-pace.ts';
import { viewRecord } from './record-view.ts';
import type { StoreAccess } from './store-access.ts';
import { utf8 } from './text.ts';
import { type Walk, walkStepRows } from './walk.ts';

/** A partition that has records in the range. */
export interface Candidate {
  readonly lane: number;
  readonly pid: number;
  /** Behind the last record that was there when the search began. */
  readonly end: number;
  readonly newestUs: number;
}

export interface Candidates {
  readonly lanes: readonly Candidate[];
  readonly fromUs: number;
  readonly toUs: number;
  readonly mode: { readonly hasQueueMode: boolean; readonly busGroupsCount: number };
  /** True when there are partitions in the range that were left out, because newer ones fill the page. */
  readonly isCut: boolean;
}

const usPerMinute = 60_000_000;

function selects(filter: MessageFilter, queue: Queue): boolean {
  return (
    (filter.queue === null || queue.name === filter.queue) &&
    (filter.namespace === null || queue.namespace === filter.namespace) &&
    (filter.task === null || queue.task === filter.task)
  );
}

/** Keeps the newest `max` of what it is given. */
class NewestLanes {
  readonly #max: number;
  #kept: Candidate[] = [];
  /** Older ones cannot be among the newest any more. */
  #leastUs = 0;
  isCut = false;

  constructor(max: number) {
    this.#max = max;
  }

  /** True when it was time to sort, which costs as much as a turn may. */
  add(candidate: Candidate): boolean {
    if (candidate.newestUs < this.#leastUs) {
      this.isCut = true;
      return false;
    }
    this.#kept.push(candidate);
    if (this.#kept.length < this.#max * 2) return false;
    this.sorted();
    return true;
  }

  sorted(): readonly Candidate[] {
    this.#kept.sort((a, b) => b.newestUs - a.newestUs || a.pid - b.pid);
    if (this.#kept.length > this.#max) {
      this.isCut = true;
      this.#kept.length = this.#max;
      this.#leastUs = this.#kept[this.#max - 1].newestUs;
    }
    return this.#kept;
  }
}

/** @param hash the low half of the keyed hash of a partition name */
export function* findCandidates(
  sight: Sight,
  filter: MessageFilter,
  hash: (name: Uint8Array) => number,
): Walk<Candidates> {
  const { state, schedule } = sight;
  const toUs = filter.toUs ?? (Math.floor(schedule.nowUs / usPerMinute) + 1) * usPerMinute;
  const newest = new NewestLanes(filter.status === null ? filter.limit + filter.offset + 1 : limits.messagesScannedMax);
  const mode = { hasQueueMode: false, busGroupsCount: 0 };
  const { partitions } = state;
  let wasSorted = false;
  const consider = (lane: number): boolean => {
    const end = partitions.nextOffset[lane];
    const newestUs = partitions.lastStampUs[lane];
    if (end > partitions.logStart[lane] && newestUs >= filter.fromUs && partitions.createdAtUs[lane] < toUs) {
      wasSorted = newest.add({ lane, pid: partitions.pid[lane], end, newestUs }) || wasSorted;
    }
    return true;
  };
  const single = filter.queue === null ? undefined : state.queues.get(filter.queue);
  const queues = filter.queue === null ? [...state.queues.values()] : single === undefined ? [] : [single];
  const name = filter.partition === null ? null : utf8(filter.partition);
  let looked = 0;
  for (const queue of queues) {
    if (++looked % walkStepRows === 0) yield walkStepRows;
    if (state.queueByNumber.get(queue.number) !== queue || !selects(filter, queue)) continue;
    for (const { group } of queue.subscriptions) {
      if (group === defaultGroup) mode.hasQueueMode = true;
      else mode.busGroupsCount++;
    }
    if (name !== null) {
      const lane = partitions.find(queue.number, hash(name), name, 0, name.length);
      if (lane >= 0) consider(lane);
      continue;
    }
    for (const rows of walkLanes(state, queue, 0, consider)) {
      yield wasSorted ? sortingRows : rows;
      wasSorted = false;
    }
  }
  const lanes = newest.sorted();
  return { lanes, fromUs: filter.fromUs, toUs, mode, isCut: newest.isCut };
}

/** What sorting the newest partitions counts as: the turn has done enough then. */
const sortingRows = 5000;

interface Source {
  readonly candidate: Candidate;
  /** Newest record that was not read yet, and the stamp of its append. */
  offset: number;
  stampUs: number;
}

/** Reads the records of the candidates, newest append first. */
export class RecordSearch {
  readonly #state: BrokerState;
  readonly #access: StoreAccess;
  readonly #cipher: PayloadCipher | null;
  readonly #pace: ReadPace;
  readonly #candidates: Candidates;
  /** A binary heap: the newest stamp is at 0. */
  readonly #heap: Source[] = [];
  #isBegun = false;
  #scannedRecords = 0;
  #scannedBytes = 0;

  constructor(
    state: BrokerState,
    access: StoreAccess,
    cipher: PayloadCipher | null,
    pace: ReadPace,
    candidates: Candidates,
  ) {
    this.#state = state;
    this.#access = access;
    this.#cipher = cipher;
    this.#pace = pace;
    this.#candidates = candidates;
  }

  /** True when everything in the range was read. */
  get isOver(): boolean {
    return this.#isBegun && this.#heap.length === 0;
  }

  /** True when the search has looked at as much as it may. */
  get isExhausted(): boolean {
    return this.#scannedRecords >= limits.messagesScannedMax || this.#scannedBytes >= limits.messagesScannedBytes;
  }

  /**
   * The next records, whole appends, about `max` of them; fewer at the end, when enough was looked at, or when their
   * blocks have `bytesMax` bytes.
   */
  async next(max: number, bytesMax: number): Promise<RecordView[]> {
    if (!this.#isBegun) await this.#begin();
    const found: RecordView[] = [];
    const bytesEnd = this.#scannedBytes + bytesMax;
    while (found.length < max && this.#scannedBytes < bytesEnd && this.#heap.length > 0 && !this.isExhausted) {
      const source = this.#heap[0];
      const { lane, pid } = source.candidate;
      if (!this.#isKept(source)) {
        this.#drop();
        continue;
      }
      const block = await this.#access.readBlockIfKept(this.#state, lane, pid, source.offset);
      if (block === null) {
        this.#drop();
        continue;
      }
      this.#scannedBytes += block.length;
      this.#take(block, source, found);
      await this.#pace.read(block.length);
      await this.#advance(source, block.firstOffset - 1);
    }
    return found;
  }

  #take(block: BlockReader, source: Source, found: RecordView[]): void {
    const first = Math.max(block.firstOffset, this.#state.partitions.logStart[source.candidate.lane]);
    const { identity } = this.#state;
    for (let offset = Math.min(source.offset, block.firstOffset + block.count - 1); offset >= first; offset--) {
      if (this.isExhausted) return;
      this.#scannedRecords++;
      found.push(viewRecord(identity, this.#cipher, block, offset - block.firstOffset));
    }
  }

  async #begin(): Promise<void> {
    const { toUs } = this.#candidates;
    for (const candidate of this.#candidates.lanes) {
      const { lane, pid } = candidate;
      const source = { candidate, offset: candidate.end - 1, stampUs: candidate.newestUs };
      if (candidate.newestUs >= toUs) {
        await this.#pace.read(0);
        const first = await this.#access.firstOffsetFrom(lane, pid, toUs);
        if (first === undefined) continue;
        source.offset = Math.min(source.offset, first - 1);
        source.stampUs = this.#isKept(source) ? await this.#access.loadStamp(lane, pid, source.offset) : 0;
      }
      if (source.stampUs >= this.#candidates.fromUs) this.#push(source);
    }
    this.#isBegun = true;
  }

  /** False when the partition or the record is gone by now. */
  #isKept({ candidate, offset }: Source): boolean {
    return this.#state.isKept(candidate.lane, candidate.pid, offset);
  }

  /** Puts the source at the head of the heap onto its next append. */
  async #advance(source: Source, offset: number): Promise<void> {
    source.offset = offset;
    const { lane, pid } = source.candidate;
    source.stampUs = this.#isKept(source) ? await this.#access.loadStamp(lane, pid, offset) : 0;
    if (source.stampUs < this.#candidates.fromUs || source.stampUs === 0) this.#drop();
    else this.#sink(0);
  }

  #push(source: Source): void {
    const heap = this.#heap;
    let place = heap.push(source) - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (heap[parent].stampUs >= source.stampUs) break;
      heap[place] = heap[parent];
      place = parent;
    }
    heap[place] = source;
  }

  #drop(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#sink(0);
  }

  #sink(start: number): void {
    const heap = this.#heap;
    const source = heap[start];
    let place = start;
    for (;;) {
      let child = place * 2 + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1].stampUs > heap[child].stampUs) child++;
      if (heap[child].stampUs <= source.stampUs) break;
      heap[place] = heap[child];
      place = child;
    }
    heap[place] = source;
  }
}
