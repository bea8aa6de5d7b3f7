/** A program written for queen-mq, with nothing changed but its import. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CLIENT_DEFAULTS, CONSUME_DEFAULTS, QUEUE_DEFAULTS, Queen } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

let broker: BrokerProcess;

before(async () => {
  broker = await BrokerProcess.start();
});

after(() => broker.dispose());

interface Order {
  readonly n: number;
}

test('the calls of the fluent surface, in the order in which a program makes them', async () => {
  assert.deepEqual(
    [CLIENT_DEFAULTS.retryAttempts, QUEUE_DEFAULTS.leaseTime, CONSUME_DEFAULTS.concurrency],
    [3, 300, 1],
  );
  const queen = new Queen({ urls: [broker.url], loadBalancingStrategy: 'affinity', handleSignals: false });

  const created = await queen.queue('orders').namespace('shop').task('orders').config({ leaseTime: 60 }).create();
  assert.equal(created.configured, true);

  const pushed: number[] = [];
  await queen
    .queue<Order>('orders')
    .partition('customer-42')
    .push([{ data: { n: 0 }, transactionId: 'first' }, { payload: { n: 1 } }])
    .onSuccess((items) => pushed.push(items.length))
    .onError((_items, error) => assert.fail(error));
  assert.deepEqual(pushed, [2]);
  await queen
    .queue<Order>('orders')
    .partition('customer-42')
    .buffer({ messageCount: 10, timeMillis: 50 })
    .push({ n: 2 });
  await queen.flushAllBuffers();

  const seen: number[] = [];
  await queen
    .queue<Order>('orders')
    .group('billing')
    .subscriptionMode('all')
    .concurrency(2)
    .batch(10)
    .renewLease(true, 5000)
    .limit(3)
    .each()
    .consume(async (message) => {
      seen.push(message.data.n);
      await message.trace({ traceName: 'orders', data: { n: message.data.n } });
    });
  assert.deepEqual(seen, [0, 1, 2]);

  const messages = await queen.queue<Order>('orders').wait(false).batch(10).pop();
  assert.equal((await queen.renew(messages)).length, 1);
  assert.equal((await queen.ack(messages[0], true)).success, true);
  assert.equal((await queen.ack(messages.slice(1), false, { error: 'later' })).success, true);
  assert.equal((await queen.queue('orders').dlq().limit(10).get()).total, 0);

  const { safeTime, partitions } = await queen.queue('orders').changedSince();
  assert.deepEqual([partitions[0].name, typeof safeTime], ['customer-42', 'string']);
  const read = await queen.queue<Order>('orders').fetch(['customer-42'], { offsets: { 'customer-42': 1 } });
  assert.equal(read.get('customer-42')?.nextOffset, 3);

  assert.equal((await queen.admin.getQueueDepth('orders', 'billing')).pending, 0);
  assert.equal((await queen.deleteConsumerGroup('billing')).success, true);
  assert.equal((await queen.queue('orders').delete()).deleted, true);
  await queen.close();
});
