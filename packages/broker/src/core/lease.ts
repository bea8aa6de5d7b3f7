/** Lease extension: every live lease under an id ends later, none earlier, and none beyond the queue's maxLeaseSeconds. */
import { limits } from '@lanemq/protocol';
import type { DecisionContext } from './decision.ts';
import type { ExtendOutcome } from './outcomes.ts';
import { usPerSecond } from './queue.ts';
import { CursorRecord } from './records.ts';

const record = new CursorRecord();

export function decideExtend(context: DecisionContext, leaseStamp: number, seconds: number): ExtendOutcome {
  const { state, journal, nowUs } = context;
  const { cursors, partitions } = state;
  const askedUs = nowUs + Math.min(Math.max(1, seconds), limits.leaseSecondsMax) * usPerSecond;
  let renewed = 0;
  let earliestUs = 0;
  for (let row = leaseStamp > 0 ? cursors.firstOfLease(leaseStamp) : -1; row >= 0; ) {
    const next = cursors.nextOfLease[cursors.claim[row]];
    const subscription = state.subscriptionOf(row);
    if (subscription !== undefined && cursors.hasLiveLease(row, nowUs)) {
      cursors.read(row, partitions.pid[cursors.lane[row]], record);
      const { leaseMaxUs } = subscription.queue;
      const untilUs = leaseMaxUs > 0 ? Math.min(askedUs, leaseStamp + leaseMaxUs) : askedUs;
      if (untilUs > record.expiresAtUs) {
        record.expiresAtUs = untilUs;
        journal.cursor(record);
      }
      renewed++;
      earliestUs = earliestUs === 0 ? record.expiresAtUs : Math.min(earliestUs, record.expiresAtUs);
    }
    row = next;
  }
  return { ok: true, renewed, expiresAtUs: earliestUs };
}
