/** Queues and their subscriptions: few, so plain objects. */
import { type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import { grownInt32 } from './columns.ts';
import type { QueueRecord, SubscriptionMode, SubscriptionRecord } from './records.ts';

/** The group of requests that name none. It always starts with everything. */
export const defaultGroup = '__QUEUE_MODE__';

export const usPerSecond = 1_000_000;
export const usPerMs = 1000;

/** Defaults of configure; a queue that was only pushed to or popped from differs in two of them. */
export function defaultOptions(implicit: boolean): QueueOptions {
  const options = {} as Record<string, number | boolean | string>;
  for (const [name, facts] of Object.entries(queueOptionTable)) options[name] = facts.default;
  if (implicit) {
    options['leaseTime'] = 60;
    options['retentionSinkHoldMaxSeconds'] = 0;
  }
  return options as unknown as QueueOptions;
}

/** Labels of a queue that was made by use: the first two parts of a dotted name. */
export function labelsOf(name: string): { namespace: string; task: string } {
  const parts = name.split('.');
  return { namespace: parts[0] ?? '', task: parts[1] ?? '' };
}

export class Queue {
  readonly number: number;
  readonly name: string;
  namespace: string;
  task: string;
  options: QueueOptions;
  readonly createdAtUs: number;
  readonly subscriptions: Subscription[] = [];
  /** Its partitions in creation order; the first `laneCount` elements. */
  lanes = new Int32Array(4);
  laneCount = 0;
  /** Stamp of the newest append. */
  lastWriteUs = 0;
  retainedRecords = 0;
  retainedBytes = 0;
  deadLetterCount = 0;
  /** Partitions that hold records. */
  filledLanes = 0;
  /** Since when nothing is delivered; 0 = it is not paused. */
  pausedAtUs = 0;
  /** Options in the units of the core; 0 = off. */
  windowUs = 0;
  delayUs = 0;
  dedupUs = 0;
  /** Records older than this are not delivered: ttl, or one of the two ages below. */
  lifetimeUs = 0;
  retryDelayUs = 0;
  /** Appends older than this go, consumed or not; those older than `completedUs` once every group consumed them. */
  ageUs = 0;
  completedUs = 0;
  /** Longest a lease may last however often it is extended, microseconds; 0 = no bound. */
  leaseMaxUs = 0;
  /** Deliveries of a record that stays unsettled, after which it is given up; 0 = no bound. */
  deliveriesMax = 0;
  /** Partitions a group may have under lease; 0 = no bound. */
  leasedMax = 0;
  /** Records a group is delivered per second; 0 = no bound. */
  perSecondMax = 0;
  /** True when time alone can hold a partition of this queue back. */
  holds = false;

  constructor(record: QueueRecord) {
    this.number = record.number;
    this.name = record.name;
    this.createdAtUs = record.createdAtUs;
    this.namespace = record.namespace;
    this.task = record.task;
    this.options = record.options;
    this.set(record);
  }

  /** Which of its rules for partitions are different now: what holds them back, or what removes their records. */
  set(record: QueueRecord): { holds: boolean; expiry: boolean } {
    const { windowUs, delayUs, ageUs, completedUs } = this;
    if (record.pausedAtUs !== undefined) this.pausedAtUs = record.pausedAtUs;
    this.namespace = record.namespace;
    this.task = record.task;
    const options = record.options;
    this.options = options;
    this.windowUs = options.windowBuffer * usPerSecond;
    this.delayUs = options.delayedProcessing * usPerSecond;
    this.dedupUs = options.dedupWindowSeconds * usPerSecond;
    // These two are stored without effect by the contract: only a value that differs from the default was meant.
    const ttlUs = options.ttl === queueOptionTable.ttl.default ? 0 : options.ttl * usPerSecond;
    this.retryDelayUs = options.retryDelay === queueOptionTable.retryDelay.default ? 0 : options.retryDelay * usPerMs;
    // Queues of early logs have none of these.
    this.leaseMaxUs = (options.maxLeaseSeconds ?? 0) * usPerSecond;
    this.deliveriesMax = options.maxDeliveries ?? 0;
    this.leasedMax = options.maxLeasedPartitions ?? 0;
    this.perSecondMax = options.maxPerSecond ?? 0;
    this.holds = this.windowUs > 0 || this.delayUs > 0;
    const retentionUs = options.retentionEnabled ? options.retentionSeconds * usPerSecond : 0;
    this.ageUs = shorter(retentionUs, options.maxWaitTimeSeconds * usPerSecond);
    this.completedUs = options.retentionEnabled ? options.completedRetentionSeconds * usPerSecond : 0;
    this.lifetimeUs = shorter(ttlUs, this.ageUs);
    return {
      holds: windowUs !== this.windowUs || delayUs !== this.delayUs,
      expiry: ageUs !== this.ageUs || completedUs !== this.completedUs,
    };
  }

  /** Takes lanes out that are at these positions, ascending; the others keep their order. */
  removeLanes(positions: readonly number[]): void {
    const { lanes } = this;
    let kept = positions[0];
    positions.forEach((position, i) => {
      const until = positions[i + 1] ?? this.laneCount;
      lanes.copyWithin(kept, position + 1, until);
      kept += until - position - 1;
    });
    this.laneCount = kept;
  }

  record(): QueueRecord {
    return {
      number: this.number,
      name: this.name,
      namespace: this.namespace,
      task: this.task,
      options: this.options,
      createdAtUs: this.createdAtUs,
      ...(this.pausedAtUs > 0 ? { pausedAtUs: this.pausedAtUs } : {}),
    };
  }

  addLane(lane: number): void {
    if (this.laneCount === this.lanes.length) this.lanes = grownInt32(this.lanes, this.laneCount * 2);
    this.lanes[this.laneCount++] = lane;
  }

  subscription(group: string): Subscription | undefined {
    for (const subscription of this.subscriptions) if (subscription.group === group) return subscription;
    return undefined;
  }

  /** Unfinished messages: what the group that is furthest behind has not settled, or everything when there is none. */
  depth(): number {
    let worst = -1;
    for (const subscription of this.subscriptions) worst = Math.max(worst, subscription.pending());
    return worst < 0 ? this.retainedRecords : worst;
  }
}

/** The shorter of two times of which 0 means never. */
function shorter(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b);
}

/** One group on one queue. */
export class Subscription {
  readonly number: number;
  readonly queue: Queue;
  readonly group: string;
  mode: SubscriptionMode;
  sinceUs: number;
  conflation: boolean;
  registered: boolean;
  readonly createdAtUs: number;
  /** Records of partitions in which the group has a position, and how many of those lie beyond it. */
  placedRecords = 0;
  placedPending = 0;
  consumed = 0;
  /** Cursors with a position; those of them in partitions that hold records; those of them with unsettled records. */
  placedCursors = 0;
  placedFilled = 0;
  placedBehind = 0;
  /** Since when nothing is delivered to the group; 0 = it is not paused. */
  pausedAtUs: number;
  restarted: boolean;
  /** Of the schedule, derived: partitions under a live lease, and when a pop last looked for work. */
  leasedPartitions = 0;
  lastPopUs = 0;
  /** Records that were removed before the group had settled them, since this state was made. */
  missed = 0;
  /** Of the group limits: when the rate allows the next record, microseconds. See group-limits.ts. */
  rateFreeAtUs = 0;

  constructor(queue: Queue, record: SubscriptionRecord) {
    this.number = record.number;
    this.queue = queue;
    this.group = record.group;
    this.createdAtUs = record.createdAtUs;
    this.mode = record.mode;
    this.sinceUs = record.sinceUs;
    this.conflation = record.conflation;
    this.registered = record.registered;
    this.pausedAtUs = record.pausedAtUs ?? 0;
    this.restarted = record.restarted ?? false;
  }

  /** True when where the group starts, or whether it is registered, has changed. */
  set(record: SubscriptionRecord): boolean {
    const isSame =
      this.mode === record.mode && this.sinceUs === record.sinceUs && this.registered === record.registered;
    if (record.pausedAtUs !== undefined) this.pausedAtUs = record.pausedAtUs;
    if (record.restarted !== undefined) this.restarted = record.restarted;
    this.mode = record.mode;
    this.sinceUs = record.sinceUs;
    this.conflation = record.conflation;
    this.registered = record.registered;
    return !isSame;
  }

  /** True when its pops get nothing, because the group or the whole queue is paused. */
  get isPaused(): boolean {
    return this.pausedAtUs !== 0 || this.queue.pausedAtUs !== 0;
  }

  record(): SubscriptionRecord {
    return {
      number: this.number,
      queueNumber: this.queue.number,
      group: this.group,
      mode: this.mode,
      sinceUs: this.sinceUs,
      conflation: this.conflation,
      registered: this.registered,
      createdAtUs: this.createdAtUs,
      ...(this.pausedAtUs > 0 ? { pausedAtUs: this.pausedAtUs } : {}),
      ...(this.restarted ? { restarted: true } : {}),
    };
  }

  /** Partitions with records that are not settled; exact when `pending` is. */
  partitionsBehind(): number {
    const elsewhere = this.registered && this.mode === 'all' ? this.queue.filledLanes - this.placedFilled : 0;
    return this.placedBehind + elsewhere;
  }

  /**
   * True when `pending` and `partitionsBehind` leave nothing out. A group that starts from a time before its
   * registration has records to get in partitions that it has no position in yet; those are not counted.
   */
  get isCountExact(): boolean {
    if (!this.registered || this.mode === 'all' || this.placedRecords === this.queue.retainedRecords) return true;
    return this.mode === 'new' && !this.restarted;
  }

  /** Records not yet settled. Exact for mode `all`; in the others partitions without a position count nothing. */
  pending(): number {
    const elsewhere = this.registered && this.mode === 'all' ? this.queue.retainedRecords - this.placedRecords : 0;
    return this.placedPending + elsewhere;
  }
}
