/**
 * Parked pops. Whatever makes a partition claimable wakes one of those who could claim it: the pinned pop of its group
 * that waits longest, else the one of its subscription. A woken pop that finds nothing parks again.
 */
import { LinkedList, ListNode } from '../base/linked-list.ts';
import type { BrokerState, Queue, ReadyListener, Subscription } from '../core/mod.ts';

/** A pop that can be parked. */
export abstract class Waiter extends ListNode<Waiter> {
  abstract readonly group: string;
  abstract readonly queueName: string;
  /** null = any partition of the queue. */
  abstract readonly partition: string | null;
  /** Parked for room within its group's limits, not for work. */
  awaitsRoom = false;
  /** Try again: something may be claimable. */
  abstract wake(): void;
  /** Answer empty now. */
  abstract end(): void;
}

export class Waiters implements ReadyListener {
  readonly #state: BrokerState;
  /** Waiting for any partition, by queue name and group, oldest first. */
  readonly #anywhere = new Map<string, Map<string, LinkedList<Waiter>>>();
  /** Waiting for one partition, by queue name, partition name and group. */
  readonly #pinned = new Map<string, Map<string, Map<string, LinkedList<Waiter>>>>();
  /** Waiting until their group may have more of the queue, by queue name and group, oldest first. */
  readonly #limited = new Map<string, Map<string, LinkedList<Waiter>>>();
  count = 0;
  /** Who else waits for appends, whatever group they are for. */
  appends: Pick<ReadyListener, 'laneAppended' | 'queueRemoved'> | null = null;

  constructor(state: BrokerState) {
    this.#state = state;
  }

  park(waiter: Waiter): void {
    this.count++;
    if (waiter.partition === null) {
      waitersOf(mapOf(this.#anywhere, waiter.queueName), waiter.group).add(waiter);
    } else {
      waitersOf(mapOf(mapOf(this.#pinned, waiter.queueName), waiter.partition), waiter.group).add(waiter);
    }
  }

  /** Parks a pop that there is work for, but no room within its group's limits. */
  parkForRoom(waiter: Waiter): void {
    this.count++;
    waiter.awaitsRoom = true;
    waitersOf(mapOf(this.#limited, waiter.queueName), waiter.group).add(waiter);
  }

  #removeLimited(waiter: Waiter): boolean {
    const byGroup = this.#limited.get(waiter.queueName);
    const waiters = byGroup?.get(waiter.group);
    if (byGroup === undefined || waiters === undefined || !waiters.remove(waiter)) return false;
    this.count--;
    waiter.awaitsRoom = false;
    if (waiters.size > 0) return true;
    byGroup.delete(waiter.group);
    if (byGroup.size === 0) this.#limited.delete(waiter.queueName);
    return true;
  }

  /** Wakes the oldest pop that waits for room, if any does. Whoever is woken wakes the next, unless there is no room. */
  wakeForRoom(queueName: string, group: string): void {
    if (this.#limited.size > 0) this.#wakeFirst(this.#limited.get(queueName)?.get(group));
  }

  roomAgain(subscription: Subscription): void {
    this.wakeForRoom(subscription.queue.name, subscription.group);
  }

  /** False when it was not parked. */
  remove(waiter: Waiter): boolean {
    if (waiter.awaitsRoom) return this.#removeLimited(waiter);
    const byPartition = waiter.partition === null ? null : this.#pinned.get(waiter.queueName);
    const byGroup =
      waiter.partition === null ? this.#anywhere.get(waiter.queueName) : byPartition?.get(waiter.partition);
    const waiters = byGroup?.get(waiter.group);
    if (byGroup === undefined || waiters === undefined || !waiters.remove(waiter)) return false;
    this.count--;
    if (waiters.size > 0) return true;
    byGroup.delete(waiter.group);
    if (byGroup.size > 0) return true;
    if (waiter.partition === null || byPartition === null || byPartition === undefined) {
      this.#anywhere.delete(waiter.queueName);
    } else {
      byPartition.delete(waiter.partition);
      if (byPartition.size === 0) this.#pinned.delete(waiter.queueName);
    }
    return true;
  }

  /** Everybody, for a broker that stops. */
  all(): Waiter[] {
    const found: Waiter[] = [];
    for (const byGroup of this.#limited.values()) for (const waiters of byGroup.values()) found.push(...waiters);
    for (const byGroup of this.#anywhere.values()) for (const waiters of byGroup.values()) found.push(...waiters);
    for (const byPartition of this.#pinned.values()) {
      for (const byGroup of byPartition.values()) for (const waiters of byGroup.values()) found.push(...waiters);
    }
    return found;
  }

  #wakeFirst(waiters: LinkedList<Waiter> | undefined): boolean {
    const first = waiters?.oldest ?? null;
    if (first === null) return false;
    this.remove(first);
    first.wake();
    return true;
  }

  /** A waiter that was woken will not take what it was woken for: the next one gets its chance. */
  passOn(woken: Waiter): void {
    const { queueName, partition, group } = woken;
    const pinned = partition === null ? undefined : this.#pinned.get(queueName)?.get(partition)?.get(group);
    if (!this.#wakeFirst(pinned)) this.#wakeFirst(this.#anywhere.get(queueName)?.get(group));
  }

  rowReady(subscription: Subscription, row: number): void {
    if (this.count === 0) return;
    const byPartition = this.#pinned.get(subscription.queue.name);
    if (byPartition !== undefined) {
      const name = this.#state.partitions.nameText(this.#state.cursors.lane[row]);
      if (this.#wakeFirst(byPartition.get(name)?.get(subscription.group))) return;
    }
    this.subscriptionReady(subscription);
  }

  subscriptionReady(subscription: Subscription): void {
    if (this.count === 0) return;
    this.#wakeFirst(this.#anywhere.get(subscription.queue.name)?.get(subscription.group));
  }

  laneAppended(queue: Queue, lane: number): void {
    this.appends?.laneAppended(queue, lane);
    if (this.#pinned.size === 0) return;
    const byPartition = this.#pinned.get(queue.name);
    if (byPartition === undefined) return;
    const byGroup = byPartition.get(this.#state.partitions.nameText(lane));
    if (byGroup === undefined) return;
    for (const [group, waiters] of byGroup) {
      // Groups that have a cursor there hear of it by the readiness of their row.
      const subscription = queue.subscription(group);
      const row =
        subscription === undefined
          ? -1
          : this.#state.cursors.find(this.#state.partitions.firstCursor[lane], subscription.number);
      if (row < 0) this.#wakeFirst(waiters);
    }
  }

  manyReady(subscription: Subscription, rows: number): void {
    if (this.count === 0) return;
    const { group, queue } = subscription;
    // Those who wait for one partition look for themselves whether it is theirs.
    for (const byGroup of [...(this.#pinned.get(queue.name)?.values() ?? [])]) this.#wakeFirst(byGroup.get(group));
    const anywhere = this.#anywhere.get(queue.name)?.get(group);
    for (let woken = 0; woken < rows && this.#wakeFirst(anywhere); woken++);
  }

  subscriptionRemoved(subscription: Subscription): void {
    if (this.count === 0) return;
    const { group, queue } = subscription;
    // The registration they waited by is gone: they end empty, and the next pop makes it anew.
    const byPartition = [...(this.#pinned.get(queue.name)?.values() ?? [])];
    for (const byGroup of [this.#anywhere.get(queue.name), ...byPartition]) {
      for (const waiter of [...(byGroup?.get(group) ?? [])]) {
        this.remove(waiter);
        waiter.end();
      }
    }
  }

  /** Pops of a group that wait for something of a queue. */
  countOf(queueName: string, group: string): number {
    let count = this.#anywhere.get(queueName)?.get(group)?.size ?? 0;
    for (const byGroup of this.#pinned.get(queueName)?.values() ?? []) count += byGroup.get(group)?.size ?? 0;
    return count;
  }

  queueRemoved(queue: Queue): void {
    this.appends?.queueRemoved(queue);
    // What these pops registered is gone with the queue: they end empty. Pinned ones never needed the queue to exist.
    const anywhere = this.#anywhere.get(queue.name)?.values() ?? [];
    const limited = this.#limited.get(queue.name)?.values() ?? [];
    for (const waiters of [...anywhere, ...limited]) {
      for (const waiter of [...waiters]) {
        this.remove(waiter);
        waiter.end();
      }
    }
  }
}

function mapOf<Value>(map: Map<string, Map<string, Value>>, key: string): Map<string, Value> {
  let inner = map.get(key);
  if (inner === undefined) {
    inner = new Map();
    map.set(key, inner);
  }
  return inner;
}

function waitersOf(map: Map<string, LinkedList<Waiter>>, key: string): LinkedList<Waiter> {
  let waiters = map.get(key);
  if (waiters === undefined) {
    waiters = new LinkedList();
    map.set(key, waiters);
  }
  return waiters;
}
