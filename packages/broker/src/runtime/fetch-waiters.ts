/**
 * Parked fetches, by the partitions they look at. An append tells all of them, since a fetch takes nothing away from
 * the next. Partitions are kept by name: a fetch may wait for one that does not exist yet.
 */
import type { BrokerState, Queue } from '../core/mod.ts';

export interface FetchWaiter {
  readonly watched: readonly { readonly queue: string; readonly partition: string }[];
  /** `bytes` more are stored in a partition it watches. */
  appended(bytes: number): void;
  /** What it watches is not there any more. */
  removed(): void;
  /** Answer now with what there is. */
  end(): void;
}

export class FetchWaiters {
  readonly #state: BrokerState;
  readonly #blockBytes: (lane: number) => number;
  /** By queue name and partition name. */
  readonly #byQueue = new Map<string, Map<string, Set<FetchWaiter>>>();
  readonly #all = new Set<FetchWaiter>();
  /** Partitions that are watched, each as often as it is. */
  watchedCount = 0;

  /** @param blockBytes stored bytes of the lane's newest block */
  constructor(state: BrokerState, blockBytes: (lane: number) => number) {
    this.#state = state;
    this.#blockBytes = blockBytes;
  }

  get count(): number {
    return this.#all.size;
  }

  has(waiter: FetchWaiter): boolean {
    return this.#all.has(waiter);
  }

  add(waiter: FetchWaiter): void {
    this.#all.add(waiter);
    this.watchedCount += waiter.watched.length;
    for (const { queue, partition } of waiter.watched) {
      let byPartition = this.#byQueue.get(queue);
      if (byPartition === undefined) {
        byPartition = new Map();
        this.#byQueue.set(queue, byPartition);
      }
      const waiters = byPartition.get(partition);
      if (waiters === undefined) byPartition.set(partition, new Set([waiter]));
      else waiters.add(waiter);
    }
  }

  /** Harmless when it is not there. */
  remove(waiter: FetchWaiter): void {
    if (!this.#all.delete(waiter)) return;
    this.watchedCount -= waiter.watched.length;
    for (const { queue, partition } of waiter.watched) {
      const byPartition = this.#byQueue.get(queue);
      const waiters = byPartition?.get(partition);
      if (byPartition === undefined || waiters === undefined) continue;
      waiters.delete(waiter);
      if (waiters.size > 0) continue;
      byPartition.delete(partition);
      if (byPartition.size === 0) this.#byQueue.delete(queue);
    }
  }

  /** All of them, for a broker that stops or opens its folder again. */
  all(): FetchWaiter[] {
    return [...this.#all];
  }

  laneAppended(queue: Queue, lane: number): void {
    if (this.#all.size === 0) return;
    const byPartition = this.#byQueue.get(queue.name);
    if (byPartition === undefined) return;
    const waiters = byPartition.get(this.#state.partitions.nameText(lane));
    if (waiters === undefined) return;
    const bytes = this.#blockBytes(lane);
    for (const waiter of waiters) waiter.appended(bytes);
  }

  queueRemoved(queue: Queue): void {
    const byPartition = this.#byQueue.get(queue.name);
    if (byPartition === undefined) return;
    for (const waiters of byPartition.values()) for (const waiter of waiters) waiter.removed();
  }
}
