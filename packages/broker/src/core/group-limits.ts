/**
 * How much of a queue a group may have at a time: partitions under lease (`maxLeasedPartitions`) and records per second
 * (`maxPerSecond`). Both are looked at before a partition is taken from the ring, so who is first there stays first.
 *
 * The rate is a bucket that holds a tenth of a second's worth, at least one record, kept as one number per subscription:
 * the time until which what was delivered uses the rate up. It is derived and not logged: after a restart the bucket is
 * full. Nothing here is touched for queues that have neither option.
 */
import { type Subscription, usPerSecond } from './queue.ts';

/** Part of a second's worth that may be delivered at once. */
const burstSeconds = 0.1;
/** Rounding of times must not cost a record. */
const slack = 1e-6;

export function hasLimits(subscription: Subscription): boolean {
  const { queue } = subscription;
  return queue.leasedMax > 0 || queue.perSecondMax > 0;
}

/** Records the rate lets the group have now. */
export function rateAllowance(subscription: Subscription, nowUs: number): number {
  const { perSecondMax } = subscription.queue;
  if (perSecondMax === 0) return Number.POSITIVE_INFINITY;
  const intervalUs = usPerSecond / perSecondMax;
  const used = Math.max(0, subscription.rateFreeAtUs - nowUs);
  return Math.max(0, Math.floor((burstUs(intervalUs) - used) / intervalUs + slack));
}

function burstUs(intervalUs: number): number {
  return Math.max(intervalUs, burstSeconds * usPerSecond);
}

/** Notes that records were delivered. */
export function useRate(subscription: Subscription, count: number, nowUs: number): void {
  const { perSecondMax } = subscription.queue;
  if (perSecondMax === 0) return;
  subscription.rateFreeAtUs = Math.max(nowUs, subscription.rateFreeAtUs) + (count * usPerSecond) / perSecondMax;
}

/** Notes that records were handed back before anybody saw them. */
export function returnRate(subscription: Subscription, count: number): void {
  const { perSecondMax } = subscription.queue;
  if (perSecondMax > 0) subscription.rateFreeAtUs -= (count * usPerSecond) / perSecondMax;
}

/** True when the group may be given another partition now. `leases`: what it is given will be leased. */
export function hasRoom(subscription: Subscription, leases: boolean, nowUs: number): boolean {
  const { leasedMax } = subscription.queue;
  if (leases && leasedMax > 0 && subscription.leasedPartitions >= leasedMax) return false;
  return rateAllowance(subscription, nowUs) >= 1;
}

/** Subscriptions whose pops wait for their rate, and when to look at them again: as many as there are such groups. */
export class RateWaits {
  readonly #at = new Map<Subscription, number>();
  /** Earliest of the times; Infinity when nobody waits. */
  nextUs = Number.POSITIVE_INFINITY;

  /** A pop found no room. When that is for the rate, it will be told when there is some. */
  note(subscription: Subscription, nowUs: number): void {
    if (rateAllowance(subscription, nowUs) >= 1) return;
    const intervalUs = usPerSecond / subscription.queue.perSecondMax;
    const atUs = Math.ceil(subscription.rateFreeAtUs + intervalUs - burstUs(intervalUs));
    this.#at.set(subscription, atUs);
    if (atUs < this.nextUs) this.nextUs = atUs;
  }

  /** Tells of each subscription whose time has come. */
  advance(nowUs: number, tell: (subscription: Subscription) => void): void {
    if (this.nextUs > nowUs) return;
    this.nextUs = Number.POSITIVE_INFINITY;
    const due: Subscription[] = [];
    for (const [subscription, atUs] of this.#at) {
      if (atUs <= nowUs) due.push(subscription);
      else if (atUs < this.nextUs) this.nextUs = atUs;
    }
    for (const subscription of due) {
      this.#at.delete(subscription);
      tell(subscription);
    }
  }

  forget(subscription: Subscription): void {
    this.#at.delete(subscription);
  }
}
