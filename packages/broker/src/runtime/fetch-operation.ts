/**
 * The life of a fetch:
 *
 *   queued ─▶ looked at ──there is something, or it does not wait──▶ held until durable ─▶ reading ─▶ sent
 *               │  ▲                                                                          │
 *               │  └── woken by appends, by its timeout, by a queue's end                      │
 *               └─▶ parked ◀──less than minBytes was read────────────────────────────────────┘
 *
 * What it looks at are the bounds of its partitions at one moment; records below them never change, so that they are
 * read afterwards, when all of them are durable, wave by wave. Only whether a record waits for a time changes: an answer that
 * tells of such a time is sent when that is durable, too.
 */
import { limits } from '@lanemq/protocol';
import { BlockReader, recordFlag } from '../codec/mod.ts';
import type { BrokerState, Refusal } from '../core/mod.ts';
import type { BlockWaves, WaveBlock, WaveTarget } from './block-waves.ts';
import type { FetchWaiter } from './fetch-waiters.ts';
import type { OffsetReads } from './offset-reads.ts';
import type { Operation } from './operations.ts';
import type { EntryError, FetchEntry, FetchReply, FetchRequest } from './read-requests.ts';
import { FetchedFacts, StoreDamage } from './store-access.ts';

/** Times that one reading looks for its blocks again because they were moved. */
const replansMax = 8;

/** Records after which a fetch lets others have the loop. */
const recordsPerStep = 8192;
/** Work that looking at one entry is; see `OffsetReads.takeWork`. */
const entryWork = 30;

type Phase = 'queued' | 'parked' | 'held' | 'reading' | 'read' | 'sent';

/** One entry as it was found, and how far it was read. */
interface Target extends WaveTarget {
  error: EntryError | null;
  highWatermark: number;
  logStart: number;
}

export class FetchOperation implements Operation, FetchWaiter {
  readonly facts = new FetchedFacts();
  readonly watched: readonly FetchEntry[];
  readonly #reads: OffsetReads;
  readonly #request: FetchRequest;
  readonly #reply: FetchReply;
  readonly #block = new BlockReader();
  #phase: Phase = 'queued';
  #cancelled = false;
  /** Waits no longer. */
  #closing = false;
  #cancelTimer: (() => void) | null = null;
  #targets: Target[] = [];
  /** Stored bytes that came since the targets were looked at. */
  #grown = 0;
  /** How many of these are worth another look. */
  #needed: number;
  #replans = 0;
  #weight = 0;
  #full = false;
  /** The answer tells of times that records wait for. */
  #showsDue = false;

  constructor(reads: OffsetReads, request: FetchRequest, reply: FetchReply) {
    this.#reads = reads;
    this.#request = request;
    this.#reply = reply;
    this.watched = request.entries;
    this.#needed = request.minBytes;
    this.#closing = request.maxWaitMs === 0 || request.minBytes === 0;
  }

  /** The client is gone: nothing is sent. */
  cancel(): void {
    if (this.#phase === 'sent') return;
    this.#cancelled = true;
    if (this.#phase === 'parked') this.#finish();
  }

  #finish(): void {
    this.#phase = 'sent';
    this.#targets = [];
    this.#cancelTimer?.();
    this.#reads.waiters.remove(this);
  }

  decide(): 'done' | 'later' | 'parked' {
    if (this.#cancelled) {
      this.#finish();
      return 'parked';
    }
    if (this.#phase === 'read') return 'done';
    if (!this.#reads.takeWork(1 + this.watched.length * entryWork)) return 'later';
    this.#grown = 0;
    const targets = this.#look();
    const failed = targets.some(({ error }) => error !== null);
    const available = targets.some(({ next, end }) => next < end);
    if (!this.#closing && !failed) {
      const refusal = this.#watch(available);
      if (refusal !== null) {
        this.#finish();
        this.#reply.send(refusal);
        return 'parked';
      }
      if (!available) {
        this.#phase = 'parked';
        return 'parked';
      }
    }
    // An entry that cannot be answered ends the wait: the client has to hear of it.
    if (failed) this.#closing = true;
    this.#targets = targets;
    this.#phase = 'held';
    return 'done';
  }

  #look(): Target[] {
    const { state } = this.#reads;
    return this.watched.map((entry) => {
      const bounds = this.#reads.find(entry.queue, entry.partition);
      const { lane, pid, highWatermark, logStart } = bounds;
      const outside = entry.offset < logStart || entry.offset > highWatermark;
      const error = bounds.error ?? (outside ? 'OFFSET_OUT_OF_RANGE' : null);
      return {
        lane,
        pid,
        error,
        highWatermark,
        logStart,
        next: entry.offset,
        end: error === null ? highWatermark : entry.offset,
        recordBytes: lane < 0 ? 0 : recordBytes(state, lane),
        bytesLeft: entry.maxBytes,
        recordsLeft: limits.fetchRecordsMax,
        blocks: [],
        isLost: false,
      };
    });
  }

  /** Hears of appends from now on. A refusal when there are too many that do. */
  #watch(available: boolean): Refusal | null {
    const { waiters, scheduler } = this.#reads;
    // One record is a byte at least: with what there is this fetch will not wait.
    if ((available && this.#request.minBytes <= 1) || waiters.has(this)) return null;
    if (waiters.count >= limits.parkedFetchesMax || waiters.watchedCount >= limits.parkedFetchEntriesMax) {
      return {
        ok: false,
        code: 'retry',
        message: `${waiters.count} fetches of ${waiters.watchedCount} entries are waiting, which is the limit`,
        retryAfterSeconds: 1,
      };
    }
    waiters.add(this);
    this.#cancelTimer ??= scheduler.after(this.#request.maxWaitMs, () => this.end());
    return null;
  }

  appended(bytes: number): void {
    this.#grown += bytes;
    if (this.#phase === 'parked' && this.#grown >= this.#needed) this.#lookAgain();
  }

  removed(): void {
    if (this.#phase === 'parked') this.#lookAgain();
    else this.#grown = Number.POSITIVE_INFINITY;
  }

  end(): void {
    this.#closing = true;
    if (this.#phase === 'parked') this.#lookAgain();
  }

  #lookAgain(): void {
    this.#phase = 'queued';
    this.#reads.submit(this);
  }

  release(failure: Refusal | null): void {
    if (this.#phase === 'sent') return;
    if (failure !== null || this.#cancelled) {
      this.#finish();
      if (failure !== null && !this.#cancelled) this.#reply.send(failure);
      return;
    }
    if (this.#phase === 'read') {
      this.#finish();
      this.#reply.send(null);
      return;
    }
    const refusal = this.#reply.begin();
    if (refusal !== null) {
      this.#finish();
      this.#reply.send(refusal);
      return;
    }
    this.#phase = 'reading';
    this.#reads.readingBegan(this);
    this.#read().then(
      () => this.#wasRead(),
      (error: unknown) => {
        if (!this.#reads.readingEnded(this)) return;
        this.#finish();
        if (!this.#cancelled) this.#reply.send(this.#reads.failure(error));
      },
    );
  }

  #wasRead(): void {
    // A reload has answered meanwhile.
    if (!this.#reads.readingEnded(this)) return;
    const missing = this.#request.minBytes - this.#weight;
    const failed = this.#targets.some(({ error }) => error !== null);
    if (this.#cancelled || this.#closing || failed || missing <= 0 || !this.#reads.waiters.has(this)) {
      if (this.#showsDue && !this.#cancelled) {
        this.#phase = 'read';
        this.#reads.submit(this);
        return;
      }
      this.#finish();
      if (!this.#cancelled) this.#reply.send(null);
      return;
    }
    this.#targets = [];
    this.#needed = missing;
    this.#phase = 'parked';
    if (this.#grown >= missing) this.#lookAgain();
  }

  async #read(): Promise<void> {
    const reply = this.#reply;
    const targets = this.#targets;
    const waves = this.#reads.waves();
    // More of one entry, when its share of a wave was too small and those behind it are not used yet.
    const more = this.#reads.waves('beside');
    let source = waves;
    this.#weight = 0;
    this.#full = false;
    this.#showsDue = false;
    this.#replans = 0;
    let sinceStep = 0;
    try {
      for (let i = 0; i < targets.length; i++) {
        const target = targets[i];
        reply.openEntry(i);
        source = waves;
        while (this.#goesOn(target)) {
          const block = target.blocks.shift();
          if (block === undefined) {
            if (target.isLost) {
              this.#lost(target, 'holds no block');
              break;
            }
            source = waves.holdsBehind(targets, i) ? more : waves;
            if (!(await this.#readWave(source, i, source === more ? [target] : targets))) return;
            continue;
          }
          if (block.state === 'gone' && this.#plansAgain()) {
            target.blocks.length = 0;
            continue;
          }
          if (block.state !== 'whole') {
            this.#lost(target, block.state === 'gone' ? 'has lost a block' : 'is damaged');
            break;
          }
          sinceStep += this.#writeBlock(target, source, block);
          if (sinceStep < recordsPerStep) continue;
          sinceStep = 0;
          await this.#reads.pause();
          if (this.#phase !== 'reading' || this.#cancelled) return;
        }
        reply.closeEntry(i, target);
      }
    } finally {
      waves.close();
      more.close();
    }
  }

  /** See `FetchReply.record`. */
  #dueUsOf(pid: number, offset: number): number {
    const { due, lastStampUs } = this.#reads.state;
    const row = due.size === 0 ? -1 : due.find(pid, offset);
    if (row < 0) return 0;
    this.#showsDue = true;
    if (due.isCancelled(row)) return -1;
    return due.isWaiting(row, lastStampUs) ? due.dueUsOf(row) : 0;
  }

  #goesOn(target: Target): boolean {
    if (target.next >= target.end || target.bytesLeft <= 0 || target.recordsLeft <= 0) return false;
    return this.#weight < this.#request.maxBytes && !this.#isFull();
  }

  /** The answer takes no more, whatever was asked for; a client asks again for what it did not get. */
  #isFull(): boolean {
    if (this.#weight === 0) return false;
    // For good, also when memory comes free: the record it ended at may be in the middle of a block that was put away.
    this.#full ||= this.#reply.bytes >= limits.fetchAnswerBytesMax || !this.#reply.hasRoom();
    return this.#full;
  }

  /** False when nobody waits for the answer any more. */
  async #readWave(waves: BlockWaves, index: number, targets: readonly Target[]): Promise<boolean> {
    const wanted = Math.min(this.#request.maxBytes - this.#weight, limits.fetchAnswerBytesMax - this.#reply.bytes);
    try {
      await waves.read(targets, targets.length === 1 ? 0 : index, Math.max(wanted, 1), this.#reads.payloadShare);
    } catch (error) {
      // The segment may have been taken away while it was read. Then the records are gone, or have another place.
      if (!this.#moveBounds() && !this.#plansAgain()) throw error;
    }
    return this.#phase === 'reading' && !this.#cancelled;
  }

  /** True when it is worth while to ask once more where the blocks are: reclaiming moves those that are kept. */
  #plansAgain(): boolean {
    return ++this.#replans <= replansMax;
  }

  /** Ends targets whose next record is not kept any more; false when there is none. */
  #moveBounds(): boolean {
    let moved = false;
    for (const target of this.#targets) moved = this.#isGone(target) || moved;
    return moved;
  }

  #isGone(target: Target): boolean {
    if (target.next >= target.end) return false;
    const { state } = this.#reads;
    const { partitions } = state;
    const exists = state.laneOf(target.pid) === target.lane;
    if (exists && target.next >= partitions.logStart[target.lane]) return false;
    // A part of the records was given already: they stay, and the next call hears of the new bounds.
    const isFirst = target.recordsLeft === limits.fetchRecordsMax;
    target.logStart = exists ? partitions.logStart[target.lane] : target.highWatermark;
    target.highWatermark = exists ? partitions.nextOffset[target.lane] : target.highWatermark;
    if (isFirst) target.error = 'OFFSET_OUT_OF_RANGE';
    target.recordsLeft = 0;
    return true;
  }

  /** A block that should be there cannot be had: because it is not kept any more, or because it is damaged. */
  #lost(target: Target, what: string): void {
    if (this.#isGone(target)) return;
    this.#reads.noteDamage(new StoreDamage(`the log ${what} of pid ${target.pid} at offset ${target.next}`));
    if (target.recordsLeft === limits.fetchRecordsMax) target.error = 'RECORD_DAMAGED';
    target.recordsLeft = 0;
  }

  /** Writes the records of a block that are wanted, as far as there is room; returns how many. */
  #writeBlock(target: Target, waves: BlockWaves, planned: WaveBlock): number {
    const block = this.#block.open(waves.bytes, waves.view, planned.at);
    const from = target.next - planned.firstOffset;
    const to = Math.min(planned.count, target.end - planned.firstOffset);
    const callBytes = this.#request.maxBytes;
    const weightBefore = this.#weight;
    for (let index = from; index < to; index++) {
      block.select(index);
      let { bytes, payloadStart: start, payloadEnd: end } = block;
      if ((block.flags & recordFlag.encrypted) !== 0) {
        bytes = this.#reads.decrypt(bytes, start, end);
        start = 0;
        end = bytes.length;
      }
      const weight = Math.max(1, end - start);
      const isFirst = target.recordsLeft === limits.fetchRecordsMax;
      if (!isFirst && (weight > target.bytesLeft || this.#weight + weight > callBytes)) {
        target.bytesLeft = 0;
        return index - from;
      }
      this.#reply.record(block, index, bytes, start, end, this.#dueUsOf(block.pid, block.firstOffset + index));
      this.#weight += weight;
      target.bytesLeft -= weight;
      target.recordsLeft--;
      target.next++;
      if (!this.#goesOn(target)) return index + 1 - from;
    }
    this.#reads.sawPayload(this.#weight - weightBefore, (planned.length * (to - from)) / planned.count);
    return to - from;
  }
}

function recordBytes(state: BrokerState, lane: number): number {
  const { partitions } = state;
  const records = partitions.nextOffset[lane] - partitions.logStart[lane];
  return records === 0 ? 0 : partitions.retainedBytes[lane] / records;
}
