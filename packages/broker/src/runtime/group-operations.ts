/** Operations that change groups: seek, delete, start from a time, pause. Those that may be long run in slices. */
import { limits } from '@lanemq/protocol';
import {
  decideDeleteGroup,
  decidePauseGroup,
  decidePausePartition,
  decidePauseQueue,
  decideSeek,
  decideStartFrom,
  defaultGroup,
  ensureSubscription,
  type NeedsLoad,
  needsLoad,
  type Queue,
  type Refusal,
} from '../core/mod.ts';
import type { Reply } from './engine.ts';
import type {
  DeleteGroupOutcome,
  DeleteGroupRequest,
  GroupEngine,
  PauseOutcome,
  PauseRequest,
  SeekOutcome,
  SeekRequest,
} from './group-engine.ts';
import { type GroupHost, groupNameRefusal, laneOfName } from './group-host.ts';
import { GroupReads } from './group-reads.ts';
import { SimpleOperation } from './operations.ts';
import { SlicedOperation, type Unfinished, unfinished } from './sliced-operation.ts';

/** How much one slice does: about two milliseconds of work, and at most 200 KiB of records. */
const sliceLimits = {
  seekLanes: 2000,
  /** Searches for an append by time that are made at the same moment. */
  seekSearches: 200,
  /** Numbers of queues; one whose group is changed weighs as much as `queueWeight` that are not. */
  queues: 10_000,
  queueWeight: 20,
} as const;

export class GroupOperations extends GroupReads implements GroupEngine {
  seek(request: SeekRequest, reply: Reply<SeekOutcome>): void {
    this.host.submit(new SeekOperation(this.host, request, reply));
  }

  delete(request: DeleteGroupRequest, reply: Reply<DeleteGroupOutcome>): void {
    this.host.submit(new DeleteGroupOperation(this.host, request, reply));
  }

  startFrom(group: string, sinceUs: number, reply: Reply<{ readonly changed: number }>): void {
    this.host.submit(new StartFromOperation(this.host, group, sinceUs, reply));
  }

  pause(request: PauseRequest, reply: Reply<PauseOutcome>): void {
    this.host.submit(new SimpleOperation(() => decidePause(this.host, request), reply));
  }
}

class SeekOperation extends SlicedOperation<SeekOutcome> {
  readonly #host: GroupHost;
  readonly #request: SeekRequest;
  #queueNumber = -1;
  /** Partitions up to this pid were looked at; those above `#lastPid` were born after the seek began. */
  #pid = 0;
  #lastPid = 0;
  /** Pids whose position is being searched for. */
  #searched: number[] = [];
  #partitions = 0;

  constructor(host: GroupHost, request: SeekRequest, reply: Reply<SeekOutcome>) {
    super(host, reply);
    this.#host = host;
    this.#request = request;
  }

  protected slice(): SeekOutcome | Refusal | NeedsLoad | Unfinished {
    const { state } = this.#host.context;
    if (this.#queueNumber < 0) {
      const ended = this.#begin();
      if (ended !== null) return ended;
    }
    const queue = state.queueByNumber.get(this.#queueNumber);
    // It was deleted between two slices.
    if (queue === undefined) return { missing: 'queue', partitions: 0 };
    const searched = this.#searched;
    this.#searched = [];
    for (const pid of searched) {
      const lane = state.laneOf(pid);
      if (lane >= 0) this.#move(queue, lane);
    }
    this.facts.times.clear();
    let index = this.#host.context.state.laneIndexAfter(queue, this.#pid);
    for (let steps = 0; steps < sliceLimits.seekLanes; steps++) {
      const lane = index < queue.laneCount ? queue.lanes[index++] : -1;
      const pid = lane < 0 ? Number.POSITIVE_INFINITY : state.partitions.pid[lane];
      if (pid > this.#lastPid) {
        if (this.#searched.length > 0) return needsLoad;
        return { missing: null, partitions: this.#partitions };
      }
      this.#pid = pid;
      this.#partitions++;
      this.#move(queue, lane);
      if (this.#searched.length >= sliceLimits.seekSearches) break;
    }
    return this.#searched.length > 0 ? needsLoad : unfinished;
  }

  /** Finds what is to be moved; an outcome when there is nothing. */
  #begin(): SeekOutcome | Refusal | null {
    const { group, queue: name, partition } = this.#request;
    const { state } = this.#host.context;
    const tooLong = groupNameRefusal(name, group);
    if (tooLong !== null) return tooLong;
    const queue = state.queues.get(name);
    if (queue === undefined || queue.laneCount === 0) return { missing: 'queue', partitions: 0 };
    if (partition === null) {
      this.#lastPid = state.partitions.pid[queue.lanes[queue.laneCount - 1]];
    } else {
      const lane = laneOfName(this.#host, queue, partition);
      if (lane < 0) return { missing: 'partition', partitions: 0 };
      this.#lastPid = state.partitions.pid[lane];
      this.#pid = this.#lastPid - 1;
    }
    this.#queueNumber = queue.number;
    return null;
  }

  #move(queue: Queue, lane: number): void {
    const { context } = this.#host;
    this.changed = true;
    const subscription = ensureSubscription(context, queue, this.#request.group);
    if (!decideSeek(context, subscription, lane, this.#request.target)) {
      this.#searched.push(context.state.partitions.pid[lane]);
    }
  }
}

/** Queue by queue, those that know a group. */
abstract class QueueWalk<Outcome extends object> extends SlicedOperation<Outcome> {
  protected readonly host: GroupHost;
  #number = 0;

  constructor(host: GroupHost, reply: Reply<Outcome>) {
    super(host, reply);
    this.host = host;
  }

  protected abstract visit(queue: Queue): void;
  protected abstract outcome(): Outcome;

  protected slice(): Outcome | Unfinished {
    const { queueByNumber } = this.host.context.state;
    const { nextQueueNumber } = this.host.context.state;
    // Numbers rise with creation and have holes where queues were deleted.
    for (let weight = 0; weight < sliceLimits.queues; weight++) {
      if (this.#number >= nextQueueNumber) return this.outcome();
      const queue = queueByNumber.get(this.#number++);
      if (queue === undefined) continue;
      weight += sliceLimits.queueWeight;
      this.visit(queue);
    }
    return unfinished;
  }
}

class DeleteGroupOperation extends QueueWalk<DeleteGroupOutcome> {
  readonly #request: DeleteGroupRequest;
  readonly #queues: string[] = [];
  #partitions = 0;

  constructor(host: GroupHost, request: DeleteGroupRequest, reply: Reply<DeleteGroupOutcome>) {
    super(host, reply);
    this.#request = request;
  }

  protected override slice(): DeleteGroupOutcome | Unfinished {
    if (this.#request.queue === null) return super.slice();
    const queue = this.host.context.state.queues.get(this.#request.queue);
    if (queue !== undefined) this.visit(queue);
    return this.outcome();
  }

  protected visit(queue: Queue): void {
    const subscription = queue.subscription(this.#request.group);
    if (subscription === undefined) return;
    this.changed = true;
    this.#partitions += subscription.placedCursors;
    if (this.#queues.length < limits.groupPartitionsMax) this.#queues.push(queue.name);
    decideDeleteGroup(this.host.context, subscription, this.#request.keepRegistration);
  }

  protected outcome(): DeleteGroupOutcome {
    return { partitions: this.#partitions, queues: this.#queues };
  }
}

class StartFromOperation extends QueueWalk<{ readonly changed: number }> {
  readonly #group: string;
  readonly #sinceUs: number;
  #count = 0;

  constructor(host: GroupHost, group: string, sinceUs: number, reply: Reply<{ readonly changed: number }>) {
    super(host, reply);
    this.#group = group;
    this.#sinceUs = sinceUs;
  }

  protected visit(queue: Queue): void {
    const subscription = queue.subscription(this.#group);
    // The default group never passes over what is there.
    if (subscription === undefined || !subscription.registered || this.#group === defaultGroup) return;
    this.changed = true;
    this.#count++;
    decideStartFrom(this.host.context, subscription, this.#sinceUs);
  }

  protected outcome(): { readonly changed: number } {
    return { changed: this.#count };
  }
}

function decidePause(host: GroupHost, request: PauseRequest): PauseOutcome | Refusal {
  const { context } = host;
  const { state } = context;
  const { partition, group, paused } = request;
  const nothing = { changed: false, pausedAtUs: 0 };
  const queue = state.queues.get(request.queue);
  if (queue === undefined) return { missing: 'queue', ...nothing };
  if (partition !== null) {
    const lane = laneOfName(host, queue, partition);
    if (lane < 0) return { missing: 'partition', ...nothing };
    const changed = decidePausePartition(context, lane, paused);
    if (typeof changed !== 'boolean') return changed;
    return { missing: null, changed, pausedAtUs: state.pausedPartitions.get(state.partitions.pid[lane]) ?? 0 };
  }
  if (group !== null) {
    const subscription = queue.subscription(group);
    if (subscription === undefined) return { missing: 'group', ...nothing };
    const changed = decidePauseGroup(context, subscription, paused);
    return { missing: null, changed, pausedAtUs: subscription.pausedAtUs };
  }
  const changed = decidePauseQueue(context, queue, paused);
  return { missing: null, changed, pausedAtUs: queue.pausedAtUs };
}
