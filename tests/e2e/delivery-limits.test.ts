/** The options that bound what a group gets: lease ceiling, delivery limit, concurrency, rate. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { freshName, type Message } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { isOpenAfter, passed, timed } from './clock.ts';

const deliveredOf = (messages: readonly Message[]): unknown[] =>
  messages.map((message) => [message.data, message.deliveryAttempt]);
const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);

describe('limits of delivery', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  it('ends a lease at maxLeaseSeconds, whatever it was asked for or extended by', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxLeaseSeconds: 2 });
    await broker.client.pushAll(queue, 'p', ['m1']);
    const [first] = await broker.client.pop(queue, { leaseSeconds: 1 });
    const { expiresAt, success } = await broker.client.extend(first.leaseId, 600);
    assert.equal(success, true);
    assert.ok(Date.parse(expiresAt ?? '') < Date.now() + 2000);
    const { result, tookMs } = await timed(broker.client.pop(queue, { waitMs: 10_000, leaseSeconds: 600 }));
    assert.deepEqual(deliveredOf(result), [['m1', 2]]);
    assert.ok(tookMs > 1000 && tookMs < 5000, `${tookMs} ms`);
    assert.equal((await broker.client.ackOne(first)).success, false);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue, { waitMs: 10_000 })), [['m1', 3]]);
  });

  // S-015
  it('files a message that never gets an answer after maxDeliveries, and says that its lease ended', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxDeliveries: 3 });
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const messages = await broker.client.pop(queue, { batch: 1, leaseSeconds: 1, waitMs: 10_000 });
      assert.deepEqual(deliveredOf(messages), [['m1', attempt]]);
    }
    assert.deepEqual(deliveredOf(await broker.client.pop(queue, { waitMs: 10_000 })), [['m2', 1]]);
    const { messages } = await broker.client.deadLetters({ queue });
    assert.deepEqual(dataOf(messages as unknown as Message[]), ['m1']);
    assert.match(messages[0].errorMessage, /delivered 3 times .*maxDeliveries 3.*lease ended/);
    // Its transactionId addresses it.
    const path = `/api/v1/messages/${messages[0].partitionId}/${messages[0].transactionId}`;
    assert.equal((await broker.client.request('DELETE', path)).status, 200);
  });

  // S-014
  it('dead-letters no neighbour of a message that kills its worker, wherever it is in the batch', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxDeliveries: 3 });
    const payloads = Array.from({ length: 6 }, (_, i) => `m${i}`);
    await broker.client.pushAll(queue, 'p', payloads);
    const done: unknown[] = [];
    for (let pops = 0; done.length < 5; pops++) {
      assert.ok(pops < 30, 'it comes to an end');
      const messages = await broker.client.pop(queue, { batch: 10, leaseSeconds: 1, waitMs: 10_000 });
      if (messages.some(({ data }) => data === 'm2')) continue;
      await broker.client.ack(messages, 'completed');
      done.push(...dataOf(messages));
    }
    assert.deepEqual(done, ['m0', 'm1', 'm3', 'm4', 'm5']);
    const { messages } = await broker.client.deadLetters({ queue });
    assert.deepEqual(dataOf(messages as unknown as Message[]), ['m2']);
  });

  it('tells a message that was given back from one whose lease ended, and drops it where no dead letters are wanted', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxDeliveries: 2 });
    await broker.client.pushAll(queue, 'p', ['m1']);
    for (let i = 0; i < 2; i++) await broker.client.ackOne((await broker.client.pop(queue))[0], 'retry');
    assert.deepEqual(await broker.client.pop(queue), []);
    assert.match((await broker.client.deadLetters({ queue })).messages[0].errorMessage, /given back/);
    await broker.client.configure(queue, { deadLetterQueue: false, dlqAfterMaxRetries: false });
    await broker.client.pushAll(queue, 'p', ['m2', 'm3']);
    for (let i = 0; i < 2; i++) {
      await broker.client.ackOne((await broker.client.pop(queue, { batch: 1 }))[0], 'retry');
    }
    assert.deepEqual(dataOf(await broker.client.pop(queue, { partition: 'p' })), ['m3']);
    assert.equal((await broker.client.deadLetters({ queue })).total, 1);
  });

  it('keeps the error of a consumer whose nack was the last delivery, at once', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxDeliveries: 2, retryLimit: 10 });
    await broker.client.pushAll(queue, 'p', ['m1', 'm2', 'm3']);
    const failed = async (text: string) => {
      const [message] = await broker.client.pop(queue);
      const { success, dlq } = await broker.client.ackOne(message, 'failed', text);
      return [message.data, success, dlq];
    };
    assert.deepEqual(await failed('card declined'), ['m1', true, false]);
    assert.deepEqual(await failed('card expired'), ['m1', true, true]);
    const { messages } = await broker.client.deadLetters({ queue });
    assert.equal(messages[0].errorMessage, 'card expired (delivered 2 times, maxDeliveries 2)');
    assert.equal(messages[0].retryCount, 1);
    // Its neighbours were delivered with it once, and are not charged for it.
    const rest = await broker.client.pop(queue);
    assert.deepEqual(deliveredOf(rest), [
      ['m2', 1],
      ['m3', 1],
    ]);
    // A nack in the middle says nothing about the record in front of it.
    await broker.client.ack([rest[1]], 'failed', 'not mine');
    await broker.client.pop(queue, { leaseSeconds: 1 });
    await passed(1100);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['m3', 1]]);
    assert.match((await broker.client.deadLetters({ queue })).messages[0].errorMessage, /lease ended/);
  });

  it('counts deliveries of the newest message in a conflating group', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxDeliveries: 2 });
    const options = { group: 'g', mode: 'all', conflation: true } as const;
    for (const payload of ['m1', 'm2', 'm3']) {
      await broker.client.pushAll(queue, 'p', [payload]);
      const [message] = await broker.client.pop(queue, options);
      assert.deepEqual(deliveredOf([message]), [[payload, 1]]);
      await broker.client.ackOne(message, 'retry');
    }
    await broker.client.ackOne((await broker.client.pop(queue, options))[0], 'retry');
    assert.deepEqual(await broker.client.pop(queue, options), []);
    const { messages } = await broker.client.deadLetters({ queue });
    assert.deepEqual(dataOf(messages as unknown as Message[]), ['m3']);
  });

  it('leases a group no more partitions than maxLeasedPartitions, and wakes a waiting pop when there is room', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxLeasedPartitions: 2 });
    await broker.client.push(['p1', 'p2', 'p3', 'p4'].map((partition) => ({ queue, partition, payload: partition })));
    const held = await broker.client.pop(queue, { partitions: 10, batch: 10 });
    assert.deepEqual(dataOf(held), ['p1', 'p2']);
    assert.deepEqual(await broker.client.pop(queue, { partitions: 10 }), []);
    assert.deepEqual(await broker.client.pop(queue, { partition: 'p3' }), []);
    // Another group has room of its own.
    assert.equal((await broker.client.pop(queue, { group: 'g', mode: 'all', partitions: 10, batch: 10 })).length, 2);
    const pinned = broker.client.pop(queue, { partition: 'p4', waitMs: 10_000 });
    assert.equal(await isOpenAfter(pinned, 200), true);
    const anywhere = broker.client.pop(queue, { waitMs: 10_000 });
    assert.equal(await isOpenAfter(anywhere, 200), true);
    await broker.client.ackOne(held[0]);
    assert.deepEqual(dataOf(await pinned), ['p4']);
    assert.equal(await isOpenAfter(anywhere, 200), true);
    await broker.client.ackOne(held[1]);
    assert.deepEqual(dataOf(await anywhere), ['p3']);
    // What commits at delivery holds no lease.
    await broker.client.push([{ queue, partition: 'p5', payload: 'p5' }]);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { autoAck: true })), ['p5']);
    // Without the limit everything goes, for pops that wait too.
    await broker.client.push(['p6', 'p7', 'p8'].map((partition) => ({ queue, partition, payload: partition })));
    const waiting = [1, 2, 3].map(() => broker.client.pop(queue, { waitMs: 10_000 }));
    assert.equal(await isOpenAfter(Promise.race(waiting), 200), true);
    await broker.client.configure(queue, { maxLeasedPartitions: 0 });
    assert.deepEqual((await Promise.all(waiting)).flatMap(dataOf).sort(), ['p6', 'p7', 'p8']);
  });

  it('ends the wait for room with the lease that took it, and with the queue', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxLeasedPartitions: 1 });
    await broker.client.push(['p1', 'p2'].map((partition) => ({ queue, partition, payload: partition })));
    await broker.client.pop(queue, { leaseSeconds: 1 });
    assert.deepEqual(dataOf(await broker.client.pop(queue, { partition: 'p2', waitMs: 10_000 })), ['p2']);
    const waiting = broker.client.pop(queue, { waitMs: 10_000 });
    assert.equal(await isOpenAfter(waiting, 200), true);
    await broker.client.deleteQueue(queue);
    assert.deepEqual(await waiting, []);
  });

  it('delivers a group no more than maxPerSecond, to pops that wait and that do not, all partitions in turn', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { maxPerSecond: 50 });
    const partitions = ['p1', 'p2', 'p3'];
    for (const partition of partitions) {
      await broker.client.pushAll(
        queue,
        partition,
        Array.from({ length: 40 }, (_, i) => `${partition}-${i}`),
      );
    }
    const startMs = performance.now();
    const got: Message[] = [];
    const order: string[] = [];
    while (got.length < 60) {
      const messages = await broker.client.pop(queue, { batch: 100, waitMs: 10_000 });
      assert.ok(messages.length > 0 && messages.length <= 5, `${messages.length} at once`);
      got.push(...messages);
      order.push(messages[0].partition);
      await broker.client.ack(messages, 'completed');
      const seconds = (performance.now() - startMs) / 1000;
      assert.ok(got.length <= 50 * seconds + 6, `${got.length} after ${seconds} s`);
    }
    const seconds = (performance.now() - startMs) / 1000;
    assert.ok(seconds < 4, `60 took ${seconds} s`);
    assert.deepEqual(order.slice(0, 6), [...partitions, ...partitions]);
    const committed = await broker.client.pop(queue, { group: 'g', mode: 'all', batch: 100, autoAck: true });
    assert.equal(committed.length, 5);
    await passed(100);
  });
});
