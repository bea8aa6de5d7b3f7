import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BrokerState, type Queue, type Subscription } from '../../src/core/mod.ts';
import { Waiter, Waiters } from '../../src/runtime/waiters.ts';

class NamedWaiter extends Waiter {
  readonly group = 'g';
  readonly queueName = 'q';
  readonly partition: string | null;
  woken = 0;

  constructor(partition: string | null) {
    super();
    this.partition = partition;
  }

  wake(): void {
    this.woken++;
  }

  end(): void {
    throw new Error('nobody ends here');
  }
}

const subscription = { group: 'g', queue: { name: 'q' } as Queue } as Subscription;

describe('parked pops', () => {
  it('are woken one at a time, the one that waits longest first', () => {
    const waiters = new Waiters(new BrokerState());
    const [first, second] = [new NamedWaiter(null), new NamedWaiter(null)];
    waiters.park(first);
    waiters.park(second);
    waiters.subscriptionReady(subscription);
    assert.deepEqual([first.woken, second.woken, waiters.count], [1, 0, 1]);
  });

  it('pass on what they were woken for and do not take', () => {
    const waiters = new Waiters(new BrokerState());
    const [first, second] = [new NamedWaiter(null), new NamedWaiter(null)];
    waiters.park(first);
    waiters.park(second);
    waiters.subscriptionReady(subscription);
    waiters.passOn(first);
    assert.deepEqual([first.woken, second.woken, waiters.count], [1, 1, 0]);
  });

  it('of one partition pass on to others of it, and then to those of any', () => {
    const waiters = new Waiters(new BrokerState());
    const [gone, pinned, elsewhere, anywhere] = [
      new NamedWaiter('p'),
      new NamedWaiter('p'),
      new NamedWaiter('other'),
      new NamedWaiter(null),
    ];
    for (const waiter of [pinned, elsewhere, anywhere]) waiters.park(waiter);
    waiters.passOn(gone);
    assert.deepEqual([pinned.woken, elsewhere.woken, anywhere.woken], [1, 0, 0]);
    waiters.passOn(pinned);
    assert.deepEqual([elsewhere.woken, anywhere.woken, waiters.count], [0, 1, 1]);
  });
});
