/** The client on a real broker: everything a program does with it, once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LaneClient, type LaneError, type Message } from '@lanemq/client';
import { BrokerProcess } from '../e2e/broker-process.ts';

let broker: BrokerProcess;
let client: LaneClient;
let queueCount = 0;

before(async () => {
  broker = await BrokerProcess.start();
  client = new LaneClient({ url: broker.url });
});

after(async () => {
  await broker.dispose();
});

interface Job {
  readonly n: number;
}

function freshQueue(group = 'g') {
  queueCount += 1;
  return client.queue<Job>(`client-${queueCount}`).group(group).subscriptionMode('all').timeoutMillis(5000);
}

function numbers(messages: readonly Message<Job>[]): number[] {
  return messages.map((message) => message.data.n);
}

test('what is pushed to a partition is popped in order, and gone once it is acked', async () => {
  const queue = freshQueue();
  const lane = queue.partition('p');
  const results = await lane.push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  assert.deepEqual(
    results.map(({ status, offset }) => [status, offset]),
    [
      ['queued', 0],
      ['queued', 1],
      ['queued', 2],
    ],
  );
  const messages = await lane.pop();
  assert.deepEqual(numbers(messages), [0, 1, 2]);
  const [first] = messages;
  assert.equal(first.partition, 'p');
  assert.equal(first.consumerGroup, 'g');
  assert.equal(first.transactionId, results[0].transaction_id);
  assert.equal(first.id, results[0].message_id);
  const outcome = await client.ack(messages);
  assert.equal(outcome.success, true);
  assert.equal(outcome.results[2].leaseReleased, true);
  assert.deepEqual(await lane.wait(false).pop(), []);
});

test('a push repeated with its transactionId answers duplicate and stores nothing', async () => {
  const lane = freshQueue().partition('p');
  const item = { payload: { n: 1 }, transactionId: 'once' };
  const [first] = await lane.push(item);
  const [second] = await lane.push(item);
  assert.equal(second.status, 'duplicate');
  assert.equal(second.offset, first.offset);
  assert.equal((await lane.pop()).length, 1);
});

test('a waiting pop is answered by a push that comes later', async () => {
  const queue = freshQueue();
  const waiting = queue.pop();
  await queue.partition('p').push({ n: 5 });
  assert.deepEqual(numbers(await waiting), [5]);
});

test('a lease can be extended while it lives, and an unknown one reports that it is not', async () => {
  const queue = freshQueue();
  await queue.push({ n: 1 });
  const [message] = await queue.leaseSeconds(5).pop();
  const extended = await client.renew(message, 30);
  assert.equal(extended.success, true);
  assert.equal(extended.renewed, 1);
  assert.ok(Date.parse(extended.newExpiresAt ?? '') > Date.now() + 20_000);
  const [unknown] = await client.renew(['01900000-0000-7000-8000-000000000000']);
  assert.equal(unknown.success, false);
  assert.equal(unknown.newExpiresAt, null);
  assert.equal(typeof unknown.error, 'string');
});

test('a single ack tells of its message, and the group is that of the message', async () => {
  const queue = freshQueue();
  await queue.push([{ n: 1 }, { n: 2 }]);
  const [first, second] = await queue.pop();
  assert.deepEqual(await client.ack(first), {
    index: 0,
    transactionId: first.transactionId,
    success: true,
    leaseReleased: false,
    dlq: false,
    noop: false,
  });
  const filed = await client.ack(second, 'dlq', { error: 'torn' });
  assert.equal(filed.dlq, true);
  assert.equal((await queue.dlq().get()).messages[0].errorMessage, 'torn');
  const stale = await client.ack({ ...second, leaseId: '01900000-0000-7000-8000-000000000000' }, false);
  assert.equal(stale.success, false);
  assert.equal(typeof stale.error, 'string');
});

test('a queue is created with the defaults, configured, listed and deleted', async () => {
  const queue = freshQueue();
  const created = await queue.namespace('shop').task('mail').config({ retryLimit: 7 }).create();
  assert.deepEqual([created.options.retryLimit, created.options.leaseTime], [7, 300]);
  assert.equal((await queue.configure({ leaseTime: 30 })).options.retryLimit, 7);
  const merged = await queue.configure({ retryLimit: null });
  assert.equal(merged.options.retryLimit, 3);
  assert.equal(merged.options.leaseTime, 30);
  const { queues } = await client.admin.listQueues();
  assert.equal(queues.find(({ name }) => name === queue.name)?.namespace, 'shop');
  let deleted: unknown;
  await queue.delete().onSuccess((result) => {
    deleted = result;
  });
  assert.equal((deleted as { existed: boolean }).existed, true);
  assert.equal((await queue.delete()).existed, false);
});

test('a call with onError hands its error over and resolves with null', async () => {
  const errors: unknown[] = [];
  const result = await freshQueue()
    .config({ leaseTime: -1 })
    .create()
    .onError((error) => errors.push(error));
  assert.equal(result, null);
  assert.equal((errors[0] as LaneError).code, 'bad_request');
});

// B-SDK-FET-1, B-FET-3
test('reads by offset show what was pushed, find it by time and tell which partitions changed', async () => {
  const queue = freshQueue();
  await queue.partition('a').push([{ n: 0 }, { n: 1 }]);
  const { safeTime } = await queue.changedSince();
  await queue.partition('b').push([{ n: 2 }]);
  const read = await queue.fetch(['a', 'b', 'a', 'nobody'], { offsets: { a: 1 }, waitMillis: 1000 });
  assert.deepEqual([...read.keys()], ['a', 'b', 'nobody']);
  const { records, ...bounds } = read.get('a')!;
  assert.deepEqual(
    records.map(({ payload }) => payload.n),
    [1],
  );
  assert.deepEqual(bounds, { partition: 'a', highWatermark: 2, logStartOffset: 0, nextOffset: 2 });
  assert.deepEqual(read.get('nobody')?.records, []);
  const [record] = read.get('b')!.records;
  assert.deepEqual(record.payload, { n: 2 });
  const [found] = await queue.fetchOffsets([{ partition: 'b', timestamp: record.ts }]);
  assert.deepEqual([found.offset, found.ts], [0, record.ts]);
  const changed = await queue.changedSince(safeTime);
  assert.ok(changed.partitions.some(({ name, lastOffset }) => name === 'b' && lastOffset === 0));
  assert.equal((await queue.changedSince(new Date(Date.now() + 3_600_000))).partitions.length, 0);
  assert.deepEqual((await client.queue('nobody-wrote-it').changedSince(0)).partitions, []);
});

// B-SDK-FET-1
test('a fetch goes on until it has read everything, however little a request may carry', async () => {
  const queue = freshQueue();
  for (const lane of ['a', 'b', 'c']) {
    await queue.partition(lane).push(Array.from({ length: 20 }, (_, n) => ({ n })));
  }
  const read = await queue.fetch(['a', 'b', 'c'], { maxBytes: 30 });
  for (const lane of ['a', 'b', 'c']) {
    assert.deepEqual(
      read.get(lane)?.records.map(({ payload }) => payload.n),
      Array.from({ length: 20 }, (_, n) => n),
    );
  }
});

// B-SDK-ADM-1, B-SDK-ADM-2
test('operators see depth, groups, messages and traces; calls without a route name what to use', async () => {
  const queue = freshQueue();
  await queue.partition('p').push([{ n: 0 }, { n: 1 }]);
  const [message] = await queue.batch(1).pop();
  const { pending, processing, partitions } = await client.admin.getQueueDepth(queue.name, 'g');
  assert.deepEqual([pending, processing, partitions.length], [1, 1, 1]);
  const groups = await client.admin.listConsumerGroups();
  assert.equal(groups.find(({ queueName }) => queueName === queue.name)?.totalLag, 2);
  const shown = await client.admin.getMessage(message.partitionId, message.transactionId);
  assert.equal(shown.status, 'processing');
  assert.equal(await message.trace({ traceName: 'order-1', data: { step: 'charged' } }), true);
  const { traces } = await client.admin.getTracesByName('order-1');
  assert.equal(traces.length, 1);
  assert.equal((await client.admin.health()).status, 'healthy');
  await assert.rejects(client.admin.clearQueue(), { code: 'removed' });
  await assert.rejects(client.admin.moveMessageToDLQ(), { code: 'removed' });
  await assert.rejects(client.admin.getQueue('nobody-wrote-it'), { code: 'not_found', status: 404 });
});

test('a pause stops deliveries of a queue, a partition or a group, and a seek moves a group', async () => {
  const queue = freshQueue();
  const lane = queue.partition('p');
  await lane.push([{ n: 0 }, { n: 1 }]);
  await client.ack(await lane.pop());
  assert.equal((await queue.seek({ offset: 1 })).partitionsUpdated, 1);
  assert.equal((await queue.pause()).paused, true);
  assert.deepEqual(await lane.wait(false).pop(), []);
  assert.equal((await queue.resume()).changed, true);
  assert.deepEqual(numbers(await lane.pop()), [1]);
  await assert.rejects(lane.pause(), { code: 'bad_argument' });
  await assert.rejects(client.queue(queue.name).seek({ toEnd: true }), { code: 'bad_argument' });
});

test('dead letters are counted, replayed, redriven and purged', async () => {
  const queue = freshQueue();
  await queue.partition('p').push([{ n: 0 }, { n: 1 }, { n: 2 }]);
  await client.ack(await queue.pop(), 'dlq', { error: 'torn' });
  const dlq = queue.dlq();
  const { messages, total } = await dlq.limit(1).get();
  assert.deepEqual([messages.length, total], [1, 3]);
  assert.equal((await dlq.replay(messages[0].id)).result, 'moved');
  await assert.rejects(dlq.replay(messages[0].id), { status: 404 });
  assert.equal(await dlq.countRedrive({ error: 'torn' }), 2);
  const { id } = await dlq.redrive({ max: 1 });
  while ((await client.admin.getRedrive(id)).state === 'running') await new Promise(setImmediate);
  assert.equal((await client.admin.getRedrive(id)).moved, 1);
  assert.equal(await dlq.purge(), 1);
  assert.equal((await dlq.get()).total, 0);
});

test('a message with a time waits, is listed, moved and cancelled', async () => {
  const queue = freshQueue();
  const lane = queue.partition('p');
  const [first, second, third] = await lane.push([
    { payload: { n: 1 }, transactionId: 'one', delayMs: 3_600_000 },
    { payload: { n: 2 }, dueAt: Date.now() + 7_200_000 },
    { payload: { n: 3 } },
  ]);
  assert.equal(third.dueAt, undefined);
  const page = await queue.due({ limit: 1 });
  assert.deepEqual(
    page.messages.map(({ id, transactionId, dueAt }) => [id, transactionId, dueAt]),
    [[first.message_id, 'one', first.dueAt]],
  );
  const rest = await lane.due({ after: String(page.next), until: Date.now() + 86_400_000 });
  assert.deepEqual(
    rest.messages.map(({ id }) => id),
    [second.message_id],
  );
  assert.deepEqual(await lane.wait(false).pop(), []);
  assert.equal((await queue.cancelDue(first.message_id)).cancelled, true);
  assert.equal((await lane.moveDue(second.transaction_id, { delayMs: 0 })).changed, true);
  assert.deepEqual(numbers(await lane.pop()), [2, 3]);
  await assert.rejects(lane.cancelDue(second.transaction_id), { code: 'not_waiting', status: 409 });
});
