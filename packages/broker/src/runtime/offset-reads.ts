/**
 * Reads by offset: what the three operations need from the shard and from each other.
 *
 * None of them changes anything, so that the only thing to be careful with is the loop: what they look at in one turn
 * is counted, and what is over goes to the next.
 */
import { limits } from '@lanemq/protocol';
import type { Hasher } from '../codec/mod.ts';
import type { BrokerState, Queue, Refusal } from '../core/mod.ts';
import type { PayloadCipher, Scheduler } from '../ports/mod.ts';
import { BlockWaves, WaveMemory } from './block-waves.ts';
import { ChangedOperation } from './changed-operation.ts';
import { failedRead, type ReadFailureHost } from './failed-read.ts';
import { FetchOperation } from './fetch-operation.ts';
import { FetchWaiters } from './fetch-waiters.ts';
import type { Operation } from './operations.ts';
import type {
  ChangedEntry,
  ChangedReply,
  FetchReply,
  FetchRequest,
  FoundOffset,
  OffsetReader,
  OffsetsEntry,
  PartitionBounds,
} from './read-requests.ts';
import type { Store } from './store.ts';
import { FetchedFacts, type StoreDamage } from './store-access.ts';
import { utf8 } from './text.ts';

/** What the reads need from the shard they run in. */
export interface OffsetReadsHost extends ReadFailureHost {
  readonly scheduler: Scheduler;
  readonly cipher: PayloadCipher | null;
  /** Number of the turn that runs. */
  readonly turn: number;
  submit(operation: Operation): void;
  /** An operation goes on reading after its release. A stop waits for it; a reload answers it with a failure. */
  readingBegan(operation: Operation): void;
  /** False: it was answered meanwhile. */
  readingEnded(operation: Operation): boolean;
}

/** Work per turn, in partitions passed over; about 2 ms. The operation that begins with some left is finished. */
const workPerTurn = 100_000;
/** Look-ups by time that run at the same moment, for one request. */
const timesAtOnce = 32;
const entryWork = 30;
const payloadShareMin = 0.02;
const payloadShareStep = 0.01;

/** A payload cannot be shown as it was pushed: there is no key, or not the right one. */
export class UnreadablePayload extends Error {
  override readonly name = 'UnreadablePayload';
}

/** A partition as a read finds it; lane −1 when there is none. */
export interface FoundPartition extends PartitionBounds {
  readonly lane: number;
  readonly pid: number;
}

export class OffsetReads implements OffsetReader {
  readonly scheduler: Scheduler;
  readonly #host: OffsetReadsHost;
  #store!: Store;
  waiters!: FetchWaiters;
  #memory = new WaveMemory();
  /** Share of the payloads of stored bytes, a mean in which what was read last counts most. */
  payloadShare = 0.5;
  #workTurn = -1;
  readonly #workLeft = { look: 0, walk: 0 };

  constructor(host: OffsetReadsHost) {
    this.#host = host;
    this.scheduler = host.scheduler;
  }

  /** A store was opened. What waits was told before that the old one is gone. */
  attach(store: Store): void {
    const { state, index } = store;
    this.#store = store;
    this.#memory = new WaveMemory();
    this.waiters = new FetchWaiters(
      state,
      (lane) => index.find(lane, state.partitions.pid[lane], state.partitions.nextOffset[lane] - 1)?.length ?? 1,
    );
  }

  get state(): BrokerState {
    return this.#store.state;
  }

  // OffsetReader

  fetch(request: FetchRequest, reply: FetchReply): () => void {
    const operation = new FetchOperation(this, request, reply);
    this.#host.submit(operation);
    return () => operation.cancel();
  }

  fetchOffsets(entries: readonly OffsetsEntry[], reply: OffsetsReply): void {
    this.#host.submit(new OffsetsOperation(this, entries, reply));
  }

  changed(entries: readonly ChangedEntry[], reply: ChangedReply): () => void {
    const operation = new ChangedOperation(this, entries, reply);
    this.#host.submit(operation);
    return () => operation.cancel();
  }

  // For the shard

  laneAppended(queue: Queue, lane: number): void {
    this.waiters.laneAppended(queue, lane);
  }

  queueRemoved(queue: Queue): void {
    this.waiters.queueRemoved(queue);
  }

  /** Those that wait answer with what there is. */
  endWaiting(): void {
    for (const waiter of this.waiters.all()) waiter.end();
  }

  /** Those that wait are refused. */
  dropWaiting(refusal: Refusal): void {
    for (const waiter of this.waiters.all()) (waiter as FetchOperation).release(refusal);
  }

  // For the operations

  submit(operation: Operation): void {
    this.#host.submit(operation);
  }

  /** False when this turn has done enough: ask in the next one. Walks over queues do not use up what look-ups need. */
  takeWork(amount: number, kind: 'look' | 'walk' = 'look'): boolean {
    if (this.#host.turn !== this.#workTurn) {
      this.#workTurn = this.#host.turn;
      this.#workLeft.look = workPerTurn;
      this.#workLeft.walk = workPerTurn;
    }
    if (this.#workLeft[kind] <= 0) return false;
    this.#workLeft[kind] -= amount;
    return true;
  }

  find(queueName: string, partition: string): FoundPartition {
    const { state, hasher } = this.#store;
    const queue = state.queues.get(queueName);
    if (queue === undefined) {
      return { lane: -1, pid: 0, error: 'UNKNOWN_TOPIC_OR_PARTITION', highWatermark: 0, logStart: 0 };
    }
    const lane = findLane(state, hasher, queue, partition);
    if (lane < 0) return { lane, pid: 0, error: null, highWatermark: 0, logStart: 0 };
    const { partitions } = state;
    return {
      lane,
      pid: partitions.pid[lane],
      error: null,
      highWatermark: partitions.nextOffset[lane],
      logStart: partitions.logStart[lane],
    };
  }

  /** @param place 'beside' one that has its share of the memory: waiting for another share could be for ever. */
  waves(place: 'alone' | 'beside' = 'alone'): BlockWaves {
    const { log, index, hasher } = this.#store;
    return new BlockWaves(log, index, hasher, this.#memory, place === 'alone');
  }

  /** The record from which a stamp or a later one is found, of what was there when the bounds were taken. */
  async firstFrom(found: FoundPartition, stampUs: number): Promise<{ offset: number; stampUs: number } | null> {
    const { index } = this.#store;
    const { lane, pid, logStart, highWatermark } = found;
    if (lane < 0 || logStart >= highWatermark) return null;
    let place = await index.loadByTime(lane, pid, stampUs);
    // What lies before the log's start may still be found, but is not there any more.
    if (place !== undefined && place.firstOffset < logStart) {
      place = index.find(lane, pid, logStart) ?? (await index.load(lane, pid, logStart));
    }
    if (place === undefined || place.firstOffset >= highWatermark) return null;
    return { offset: Math.max(place.firstOffset, logStart), stampUs: place.stampUs };
  }

  decrypt(bytes: Uint8Array, start: number, end: number): Uint8Array {
    const { cipher } = this.#host;
    if (cipher === null) {
      throw new UnreadablePayload(
        'a payload is encrypted, and the broker has no key: start it with LANEMQ_ENCRYPTION_KEY',
      );
    }
    try {
      return cipher.decrypt(bytes, start, end);
    } catch (error) {
      throw new UnreadablePayload('a payload is encrypted, and not with the key of the broker', { cause: error });
    }
  }

  /** `stored` bytes held payloads of `weight` bytes. */
  sawPayload(weight: number, stored: number): void {
    const share = Math.min(Math.max(weight / stored, payloadShareMin), 1);
    this.payloadShare += (share - this.payloadShare) * payloadShareStep;
  }

  readingBegan(operation: Operation): void {
    this.#host.readingBegan(operation);
  }

  readingEnded(operation: Operation): boolean {
    return this.#host.readingEnded(operation);
  }

  noteDamage(error: StoreDamage): void {
    this.#host.noteDamage(error);
  }

  pause(): Promise<void> {
    return new Promise((resolve) => this.scheduler.soon(resolve));
  }

  /** What a reading that failed is answered with. */
  failure(error: unknown): Refusal {
    return failedRead(this.#host, 'a read by offset cannot be answered', error);
  }
}

/** The lane of a queue's partition, or −1. */
function findLane(state: BrokerState, hasher: Hasher, queue: Queue, partition: string): number {
  // A longer name was never written.
  if (partition.length > limits.nameBudgetBytes) return -1;
  const bytes = utf8(partition);
  hasher.hash(bytes, 0, bytes.length);
  return state.partitions.find(queue.number, hasher.low, bytes, 0, bytes.length);
}

interface OffsetsReply {
  encode(found: readonly FoundOffset[]): void;
  send(failure: Refusal | null): void;
}

/** Bounds are taken in the turn; the search goes on after the release, and may read sidecars. */
class OffsetsOperation implements Operation {
  readonly facts = new FetchedFacts();
  readonly #reads: OffsetReads;
  readonly #entries: readonly OffsetsEntry[];
  readonly #reply: OffsetsReply;
  #found: FoundPartition[] = [];

  constructor(reads: OffsetReads, entries: readonly OffsetsEntry[], reply: OffsetsReply) {
    this.#reads = reads;
    this.#entries = entries;
    this.#reply = reply;
  }

  decide(): 'done' | 'later' {
    if (!this.#reads.takeWork(this.#entries.length * entryWork)) return 'later';
    this.#found = this.#entries.map(({ queue, partition }) => this.#reads.find(queue, partition));
    return 'done';
  }

  release(failure: Refusal | null): void {
    if (failure !== null) {
      this.#reply.send(failure);
      return;
    }
    this.#reads.readingBegan(this);
    searchAll(this.#reads, this.#entries, this.#found).then(
      (offsets) => {
        if (!this.#reads.readingEnded(this)) return;
        this.#reply.encode(offsets);
        this.#reply.send(null);
      },
      (error: unknown) => {
        if (this.#reads.readingEnded(this)) this.#reply.send(this.#reads.failure(error));
      },
    );
  }
}

async function searchAll(
  reads: OffsetReads,
  entries: readonly OffsetsEntry[],
  found: readonly FoundPartition[],
): Promise<FoundOffset[]> {
  const answer: FoundOffset[] = [];
  for (let from = 0; from < entries.length; from += timesAtOnce) {
    const part = found.slice(from, from + timesAtOnce);
    const places = await Promise.all(part.map((each, i) => reads.firstFrom(each, entries[from + i].stampUs)));
    part.forEach(({ error, highWatermark, logStart }, i) => {
      const place = places[i];
      answer.push({ error, highWatermark, logStart, offset: place?.offset ?? -1, stampUs: place?.stampUs ?? 0 });
    });
  }
  return answer;
}
