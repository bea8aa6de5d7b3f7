/**
 * Reading groups: lists, one group, laggards, positions. A queue can have a million partitions, so that each of these
 * walks in slices, a chunk of partitions at a time. What a chunk needs from disk is fetched, and the chunk looked at
 * again: the records it is about may have moved meanwhile, so after some tries it makes do with what is known.
 */
import { limits } from '@lanemq/protocol';
import {
  cursorBit,
  type DecisionContext,
  idLookup,
  type NeedsLoad,
  needsLoad,
  type Queue,
  type Refusal,
  type Subscription,
} from '../core/mod.ts';
import type { Reply } from './engine.ts';
import type { GroupPartitionRow, GroupPosition, GroupQueue, GroupRow, RowsReply } from './group-engine.ts';
import { type GroupHost, groupNameRefusal, laneOfName } from './group-host.ts';
import { partitionId } from './queue-views.ts';
import { SlicedOperation, type Unfinished, unfinished } from './sliced-operation.ts';

const sliceLimits = {
  /** Pairs of a partition and a group that one slice looks at. */
  pairs: 4000,
  /** The same where each may need a look at the disk, and what is looked up there at the same moment. */
  searchedPairs: 1000,
  lookups: 200,
  /** Rows that one slice makes. */
  rows: 500,
  /** Times that a chunk is looked at again after something was fetched for it. */
  tries: 3,
  /** Places on disk that the list of groups looks up for the oldest messages, and the laggards for theirs. */
  listLookups: 1000,
  laggingLookups: 50_000,
} as const;

/** A group that looked for work so recently has a member, though it holds nothing and does not wait at this moment. */
const memberSeenUs = 60_000_000;

type Slice<Outcome> = Outcome | Refusal | NeedsLoad | Unfinished;

export class GroupReads {
  protected readonly host: GroupHost;

  constructor(host: GroupHost) {
    this.host = host;
  }

  list(page: { readonly limit: number; readonly offset: number }, reply: RowsReply<GroupRow, object>): void {
    this.host.submit(new ListOperation(this.host, page, reply));
  }

  describe(
    request: { readonly group: string; readonly limit: number; readonly offset: number },
    reply: Reply<{ readonly queues: readonly GroupQueue[] } | null>,
  ): void {
    this.host.submit(new DescribeOperation(this.host, request, reply));
  }

  lagging(
    filter: { readonly ageUs: number; readonly limit: number },
    reply: RowsReply<GroupPartitionRow, object>,
  ): void {
    this.host.submit(new LaggingOperation(this.host, filter, reply));
  }

  positions(
    request: {
      readonly group: string;
      readonly entries: readonly { readonly queue: string; readonly partition: string | null }[] | null;
    },
    reply: RowsReply<GroupPosition, { readonly truncated: boolean }>,
  ): void {
    this.host.submit(new PositionsOperation(this.host, request, reply));
  }
}

/** Where a group is in a partition. */
interface Place {
  /** −1 = it has no cursor there. */
  readonly row: number;
  readonly isPlaced: boolean;
  /** Offset of the next record; the partition's next offset when nothing is left; undefined when it must be looked up. */
  readonly next: number | undefined;
}

/** null when the group has nothing to do with the partition: its pops did not say yet where it starts. */
function placeOf(context: DecisionContext, subscription: Subscription, lane: number): Place | null {
  const { partitions, cursors } = context.state;
  const first = partitions.logStart[lane];
  const row = cursors.find(partitions.firstCursor[lane], subscription.number);
  if (row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0) {
    return { row, isPlaced: true, next: Math.max(cursors.committed[row] + 1, first) };
  }
  if (!subscription.registered) return null;
  if (subscription.mode === 'all') return { row, isPlaced: false, next: first };
  if (partitions.lastStampUs[lane] < subscription.sinceUs) {
    return { row, isPlaced: false, next: partitions.nextOffset[lane] };
  }
  const found = context.ids.firstFrom(lane, partitions.pid[lane], subscription.sinceUs);
  if (found === idLookup.missing) return { row, isPlaced: false, next: undefined };
  return { row, isPlaced: false, next: found === idLookup.absent ? first : Math.max(found, first) };
}

/** Stamp of a record that is there, now for one that waits for its time; undefined when it must be looked up. */
function stampAt(host: GroupHost, lane: number, offset: number): number | undefined {
  const { state, nowUs } = host.context;
  const { partitions, due } = state;
  // What nobody could have done yet is late for nobody.
  if (due.size > 0) {
    const row = due.find(partitions.pid[lane], offset);
    if (row >= 0 && due.isWaiting(row, nowUs)) return nowUs;
  }
  // A partition begins with its first append.
  if (offset === 0) return partitions.createdAtUs[lane];
  return host.access.stampAt(lane, partitions.pid[lane], offset);
}

function groupRow(host: GroupHost, subscription: Subscription, oldestUs: number): GroupRow {
  const { nowUs } = host.context;
  const { group, queue, leasedPartitions } = subscription;
  const busy = host.waiters.countOf(queue.name, group) + leasedPartitions;
  const isSeen = subscription.lastPopUs > 0 && nowUs - subscription.lastPopUs < memberSeenUs;
  return {
    group,
    queue: queue.name,
    registered: subscription.registered,
    mode: subscription.mode,
    sinceUs: subscription.sinceUs,
    createdAtUs: subscription.createdAtUs,
    conflation: subscription.conflation,
    members: Math.max(busy, isSeen ? 1 : 0),
    partitionCursors: subscription.placedCursors,
    partitionsBehind: subscription.partitionsBehind(),
    pending: subscription.pending(),
    isCountExact: subscription.isCountExact,
    oldestAgeUs: Math.max(0, nowUs - oldestUs),
    pausedAtUs: subscription.pausedAtUs,
    queuePausedAtUs: queue.pausedAtUs,
  };
}

function partitionRow(
  host: GroupHost,
  subscription: Subscription,
  lane: number,
  place: Place,
  next: number,
  oldestUs: number,
): GroupPartitionRow {
  const { state, nowUs } = host.context;
  const { partitions, cursors } = state;
  const { row } = place;
  const isLeased = row >= 0 && cursors.hasLiveLease(row, nowUs);
  return {
    group: subscription.group,
    queue: subscription.queue.name,
    partition: partitions.nameText(lane),
    pid: partitions.pid[lane],
    id: partitionId(state, lane),
    next: place.isPlaced ? next : null,
    pending: partitions.nextOffset[lane] - next,
    totalConsumed: row < 0 ? 0 : cursors.totalConsumed[row],
    oldestUs,
    oldestAgeUs: oldestUs > 0 ? Math.max(0, nowUs - oldestUs) : 0,
    leaseStamp: isLeased ? cursors.leaseStamp[cursors.claim[row]] : 0,
    pausedAtUs: state.pausedPartitions.get(partitions.pid[lane]) ?? 0,
  };
}

/** Visits queues in the order of their numbers, and the partitions of each in the order of their pids. */
abstract class GroupWalk<Outcome extends object | null> extends SlicedOperation<Outcome> {
  protected readonly host: GroupHost;
  protected queueNumber = 0;
  /** Partitions of the queue up to this pid are done. */
  protected pid = 0;
  protected tries = 0;

  constructor(host: GroupHost, reply: Reply<Outcome>) {
    super(host, reply);
    this.host = host;
  }

  /** The queue that the walk has come to; undefined at the end. Holes cost little. */
  protected currentQueue(): Queue | undefined {
    const { queueByNumber, nextQueueNumber } = this.host.context.state;
    for (; this.queueNumber < nextQueueNumber; this.nextQueue()) {
      const queue = queueByNumber.get(this.queueNumber);
      if (queue !== undefined) return queue;
    }
    return undefined;
  }

  protected nextQueue(): void {
    this.queueNumber++;
    this.pid = 0;
  }

  /** True when the chunk has to be looked at again, once what it needs was fetched. */
  protected mustLookAgain(missed: boolean): boolean {
    if (!missed || ++this.tries > sliceLimits.tries) {
      this.tries = 0;
      this.facts.stamps.clear();
      this.facts.times.clear();
      return false;
    }
    return true;
  }
}

interface ListedGroup {
  readonly subscription: Subscription;
  oldestUs: number;
}

class ListOperation extends GroupWalk<object> {
  readonly #reply: RowsReply<GroupRow, object>;
  #skip: number;
  #left: number;
  #listed: ListedGroup[] | null = null;
  #lanes = 0;
  #lookups = 0;
  /** Partitions whose oldest message is being looked up. */
  #again: number[] = [];

  constructor(
    host: GroupHost,
    page: { readonly limit: number; readonly offset: number },
    reply: RowsReply<GroupRow, object>,
  ) {
    super(host, reply);
    this.#reply = reply;
    this.#skip = page.offset;
    this.#left = page.limit;
  }

  protected slice(): Slice<object> {
    const again = this.#again;
    this.#again = [];
    for (const pid of again) this.#look(this.host.context.state.laneOf(pid));
    this.mustLookAgain(false);
    for (let cost = 0; cost < sliceLimits.pairs; ) {
      const queue = this.#left === 0 && this.#listed === null ? undefined : this.currentQueue();
      if (queue === undefined) return {};
      this.#listed ??= this.#select(queue);
      cost += 10 + this.#listed.length + this.#walk(queue);
      if (this.#again.length > 0) return needsLoad;
      if (
        this.#lanes < limits.groupListPartitionsMax &&
        this.host.context.state.laneIndexAfter(queue, this.pid) < queue.laneCount
      ) {
        continue;
      }
      this.#emit(queue);
      this.nextQueue();
    }
    return unfinished;
  }

  #select(queue: Queue): ListedGroup[] {
    const listed: ListedGroup[] = [];
    this.#lanes = 0;
    for (const subscription of queue.subscriptions) {
      if (this.#left === 0) break;
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      this.#left--;
      listed.push({ subscription, oldestUs: Number.POSITIVE_INFINITY });
    }
    return listed;
  }

  /** Looks at some partitions of the queue for messages older than those that were found; answers what that cost. */
  #walk(queue: Queue): number {
    const { partitions } = this.host.context.state;
    let cost = 0;
    let index = this.host.context.state.laneIndexAfter(queue, this.pid);
    while (cost < sliceLimits.pairs && index < queue.laneCount && this.#lanes < limits.groupListPartitionsMax) {
      const lane = queue.lanes[index++];
      // A partition holds nothing that is older than itself, and the ones behind it are younger still.
      const mayBeOlder = this.#listed?.some(
        ({ subscription, oldestUs }) =>
          partitions.createdAtUs[lane] < oldestUs &&
          (subscription.partitionsBehind() > 0 || !subscription.isCountExact),
      );
      if (mayBeOlder !== true) index = queue.laneCount;
      this.pid = partitions.pid[mayBeOlder === true ? lane : queue.lanes[queue.laneCount - 1]];
      if (mayBeOlder !== true) break;
      this.#lanes++;
      this.#look(lane);
      cost += this.#listed?.length ?? 1;
      if (this.#again.length >= sliceLimits.lookups) break;
    }
    return cost;
  }

  #look(lane: number): void {
    if (lane < 0) return;
    const { partitions } = this.host.context.state;
    let missed = false;
    for (const listed of this.#listed ?? []) {
      if (partitions.createdAtUs[lane] >= listed.oldestUs) continue;
      const next = placeOf(this.host.context, listed.subscription, lane)?.next;
      if (next === undefined) missed = true;
      else if (next < partitions.nextOffset[lane]) {
        const stampUs = stampAt(this.host, lane, next);
        if (stampUs === undefined) missed = true;
        else listed.oldestUs = Math.min(listed.oldestUs, stampUs);
      }
    }
    if (missed && this.#lookups++ < sliceLimits.listLookups) this.#again.push(partitions.pid[lane]);
  }

  protected override nextQueue(): void {
    super.nextQueue();
    this.#listed = null;
  }

  #emit(queue: Queue): void {
    const { subscriptions } = this.host.context.state;
    const rows: GroupRow[] = [];
    for (const { subscription, oldestUs } of this.#listed ?? []) {
      // It may have been deleted between two slices.
      if (subscriptions.get(subscription.number)?.queue !== queue) continue;
      rows.push(groupRow(this.host, subscription, oldestUs));
    }
    this.#reply.rows(rows);
  }
}

class DescribeOperation extends GroupWalk<{ readonly queues: readonly GroupQueue[] } | null> {
  readonly #group: string;
  readonly #limit: number;
  readonly #offset: number;
  #left: number;
  #found: GroupQueue[] = [];
  /** Index of the next partition of the queue; −1 = the queue is not begun. */
  #index = -1;

  constructor(
    host: GroupHost,
    request: { readonly group: string; readonly limit: number; readonly offset: number },
    reply: Reply<{ readonly queues: readonly GroupQueue[] } | null>,
  ) {
    super(host, reply);
    this.#group = request.group;
    this.#limit = request.limit;
    this.#offset = request.offset;
    this.#left = limits.groupPartitionsMax;
  }

  protected slice(): Slice<{ readonly queues: readonly GroupQueue[] } | null> {
    for (let cost = 0; cost < sliceLimits.rows; ) {
      const queue = this.#left > 0 ? this.currentQueue() : undefined;
      if (queue === undefined) return this.#found.length === 0 ? null : { queues: this.#found };
      const subscription = queue.subscription(this.#group);
      cost++;
      if (subscription === undefined) {
        this.nextQueue();
        continue;
      }
      if (this.#index < 0) {
        this.#index = this.#offset;
        this.#left--;
        const row = groupRow(this.host, subscription, Number.POSITIVE_INFINITY);
        this.#found.push({ row, partitionsTotal: queue.laneCount, partitionsThrough: this.#offset, partitions: [] });
      }
      const found = this.#found[this.#found.length - 1];
      const room = Math.min(this.#left, this.#offset + this.#limit - this.#index, queue.laneCount - this.#index);
      if (room <= 0) {
        this.nextQueue();
        continue;
      }
      const count = Math.min(sliceLimits.rows, room);
      const rows = this.#chunk(queue, subscription, count);
      if (rows === undefined) return needsLoad;
      found.partitions.push(...rows);
      this.#index += count;
      found.partitionsThrough = this.#index;
      this.#left -= count;
      cost += count;
    }
    return unfinished;
  }

  protected override nextQueue(): void {
    super.nextQueue();
    this.#index = -1;
  }

  #chunk(queue: Queue, subscription: Subscription, count: number): GroupPartitionRow[] | undefined {
    const { partitions } = this.host.context.state;
    const rows: GroupPartitionRow[] = [];
    let missed = false;
    for (let i = this.#index; i < this.#index + count; i++) {
      const lane = queue.lanes[i];
      const place = placeOf(this.host.context, subscription, lane);
      if (place === null) continue;
      if (place.next === undefined) missed = true;
      const next = place.next ?? partitions.logStart[lane];
      const stampUs = next < partitions.nextOffset[lane] ? stampAt(this.host, lane, next) : 0;
      if (stampUs === undefined) missed = true;
      const oldestUs = stampUs ?? partitions.createdAtUs[lane];
      rows.push(partitionRow(this.host, subscription, lane, place, next, oldestUs));
    }
    return this.mustLookAgain(missed) ? undefined : rows;
  }
}

class LaggingOperation extends GroupWalk<object> {
  readonly #reply: RowsReply<GroupPartitionRow, object>;
  readonly #ageUs: number;
  #left: number;
  #lookups = 0;

  constructor(
    host: GroupHost,
    filter: { readonly ageUs: number; readonly limit: number },
    reply: RowsReply<GroupPartitionRow, object>,
  ) {
    super(host, reply);
    this.#reply = reply;
    this.#ageUs = filter.ageUs;
    this.#left = filter.limit;
  }

  protected slice(): Slice<object> {
    for (let cost = 0; cost < sliceLimits.pairs; ) {
      const queue = this.#left > 0 && this.#lookups < sliceLimits.laggingLookups ? this.currentQueue() : undefined;
      if (queue === undefined) return {};
      const behind = queue.subscriptions.filter((each) => each.partitionsBehind() > 0 || !each.isCountExact);
      cost += 10 + queue.subscriptions.length;
      if (behind.length === 0) {
        this.nextQueue();
        continue;
      }
      const chunk = this.#chunk(queue, behind);
      if (chunk === undefined) return needsLoad;
      this.#reply.rows(chunk.rows);
      this.#left -= chunk.rows.length;
      cost += sliceLimits.pairs;
      if (chunk.isLast) this.nextQueue();
      else this.pid = chunk.pid;
    }
    return unfinished;
  }

  /** The next partitions of a queue; undefined when something must be looked up first. */
  #chunk(
    queue: Queue,
    behind: readonly Subscription[],
  ): { readonly rows: GroupPartitionRow[]; readonly pid: number; readonly isLast: boolean } | undefined {
    const { state, nowUs } = this.host.context;
    const { partitions } = state;
    const beforeUs = nowUs - this.#ageUs;
    const rows: GroupPartitionRow[] = [];
    let missed = false;
    let { pid } = this;
    let index = this.host.context.state.laneIndexAfter(queue, pid);
    const lanes = Math.max(1, Math.floor(sliceLimits.searchedPairs / behind.length));
    const end = Math.min(queue.laneCount, index + lanes);
    let isLast = end === queue.laneCount;
    for (; index < end && rows.length < this.#left; index++) {
      const lane = queue.lanes[index];
      // Nothing in it is older than the partition, and the ones behind it are younger still.
      if (partitions.createdAtUs[lane] > beforeUs) {
        isLast = true;
        break;
      }
      pid = partitions.pid[lane];
      for (const subscription of behind) {
        const place = placeOf(this.host.context, subscription, lane);
        if (place === null) continue;
        const { next } = place;
        if (next === undefined) missed = true;
        else if (next < partitions.nextOffset[lane]) {
          const stampUs = stampAt(this.host, lane, next);
          if (stampUs === undefined) missed = true;
          else if (stampUs <= beforeUs && rows.length < this.#left) {
            rows.push(partitionRow(this.host, subscription, lane, place, next, stampUs));
          }
        }
      }
    }
    if (missed) this.#lookups += this.host.access.needs.length;
    return this.mustLookAgain(missed) ? undefined : { rows, pid, isLast };
  }
}

class PositionsOperation extends GroupWalk<{ readonly truncated: boolean }> {
  readonly #reply: RowsReply<GroupPosition, { readonly truncated: boolean }>;
  readonly #group: string;
  readonly #entries: readonly { readonly queue: string; readonly partition: string | null }[] | null;
  #entry = 0;
  #left: number = limits.positionsMax;

  constructor(
    host: GroupHost,
    request: {
      readonly group: string;
      readonly entries: readonly { readonly queue: string; readonly partition: string | null }[] | null;
    },
    reply: RowsReply<GroupPosition, { readonly truncated: boolean }>,
  ) {
    super(host, reply);
    this.#reply = reply;
    this.#group = request.group;
    this.#entries = request.entries;
  }

  protected slice(): Slice<{ readonly truncated: boolean }> {
    const tooLong = groupNameRefusal('', this.#group);
    if (tooLong !== null) return tooLong;
    const rows: GroupPosition[] = [];
    const isDone = this.#entries === null ? this.#allQueues(rows) : this.#listed(this.#entries, rows);
    this.#reply.rows(rows);
    if (isDone) return { truncated: false };
    return this.#left === 0 ? { truncated: true } : unfinished;
  }

  #allQueues(rows: GroupPosition[]): boolean {
    for (let cost = 0; cost < sliceLimits.pairs && this.#left > 0; ) {
      const queue = this.currentQueue();
      if (queue === undefined) return true;
      this.#ofQueue(queue, rows);
      cost += queue.subscription(this.#group) === undefined ? 10 : sliceLimits.rows;
      if (this.host.context.state.laneIndexAfter(queue, this.pid) >= queue.laneCount) this.nextQueue();
    }
    return false;
  }

  #listed(entries: readonly { readonly queue: string; readonly partition: string | null }[], rows: GroupPosition[]) {
    const { state } = this.host.context;
    for (let cost = 0; cost < sliceLimits.pairs; cost++) {
      if (this.#entry >= entries.length) return true;
      if (this.#left === 0) return false;
      const { queue: name, partition } = entries[this.#entry];
      const queue = state.queues.get(name);
      if (partition !== null) {
        const lane = queue === undefined ? -1 : laneOfName(this.host, queue, partition);
        rows.push({ queue: name, partition, next: this.#positionIn(queue, lane) });
        this.#left--;
      } else if (queue !== undefined) {
        this.#ofQueue(queue, rows);
        cost += sliceLimits.rows;
        if (this.host.context.state.laneIndexAfter(queue, this.pid) < queue.laneCount) continue;
        this.pid = 0;
      }
      this.#entry++;
    }
    return false;
  }

  /** Positions in some partitions of a queue, from the walk's place on. */
  #ofQueue(queue: Queue, rows: GroupPosition[]): void {
    const { partitions } = this.host.context.state;
    const isKnown = queue.subscription(this.#group) !== undefined;
    let index = isKnown ? this.host.context.state.laneIndexAfter(queue, this.pid) : queue.laneCount;
    const end = Math.min(queue.laneCount, index + sliceLimits.rows);
    for (; index < end && this.#left > 0; index++) {
      const lane = queue.lanes[index];
      this.pid = partitions.pid[lane];
      const next = this.#positionIn(queue, lane);
      if (next === null) continue;
      rows.push({ queue: queue.name, partition: partitions.nameText(lane), next });
      this.#left--;
    }
    if (!isKnown && queue.laneCount > 0) this.pid = partitions.pid[queue.lanes[queue.laneCount - 1]];
  }

  #positionIn(queue: Queue | undefined, lane: number): number | null {
    const { partitions, cursors } = this.host.context.state;
    const subscription = queue?.subscription(this.#group);
    const row =
      subscription === undefined || lane < 0 ? -1 : cursors.find(partitions.firstCursor[lane], subscription.number);
    if (row < 0 || (cursors.flags[row] & cursorBit.placed) === 0) return null;
    return Math.max(cursors.committed[row] + 1, partitions.logStart[lane]);
  }
}
