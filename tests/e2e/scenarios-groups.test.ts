/** Field scenarios F: groups, where they start, and what they know of each other; and S-038 and S-039 over a kill. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ackOf, freshName, type Message } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { passed } from './clock.ts';

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);

describe('groups in the field', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-038
  it('gives a group that starts among flowing messages a gapless tail with everything pushed after its start', async () => {
    const queue = freshName('q');
    const started = new Map<string, number>();
    let stopped = false;
    const produce = async (partition: string): Promise<void> => {
      for (let i = 0; !stopped; i++) {
        const name = `${partition}:${i}`;
        started.set(name, performance.now());
        await broker.client.pushAll(queue, partition, [name]);
        await passed(1);
      }
    };
    const producers = ['a', 'b', 'c'].map(produce);
    await passed(300);
    const group = freshName('g');
    const first = await broker.client.pop(queue, { group, mode: 'new' });
    const bornAt = performance.now();
    const got: Message[] = [...first];
    if (first.length > 0) await broker.client.ack(first);
    const consume = async (): Promise<void> => {
      for (;;) {
        const messages = await broker.client.pop(queue, { group, partitions: 3, waitMs: 400 });
        if (messages.length === 0) return;
        got.push(...messages);
        await broker.client.ack(messages);
      }
    };
    const consumers = [consume(), consume()];
    await passed(500);
    stopped = true;
    await Promise.all([...producers, ...consumers]);
    await consume();

    const names = new Set(dataOf(got));
    for (const [name, atMs] of started) {
      if (atMs > bornAt)
        assert.ok(names.has(name), `${name}, pushed after the group's first answer, was not delivered`);
    }
    for (const partition of ['a', 'b', 'c']) {
      const offsets = got.filter((message) => message.partition === partition).map((message) => message.offset);
      assert.ok(offsets.length > 0);
      offsets.forEach((offset, i) => {
        assert.equal(offset, offsets[0] + i, `partition ${partition} has a hole`);
      });
    }
  });

  // S-042
  it('keeps the array order of one push per partition, also of items that are equal', async () => {
    const queue = freshName('q');
    const items = Array.from({ length: 10_000 }, (_, i) => ({ queue, partition: `p${i % 3}`, payload: i }));
    await broker.client.push(items);
    for (let p = 0; p < 3; p++) {
      const messages = await broker.client.pop(queue, { partition: `p${p}`, batch: 5000 });
      assert.deepEqual(
        dataOf(messages),
        items.filter((item) => item.partition === `p${p}`).map((item) => item.payload),
      );
      messages.forEach((message, i) => {
        assert.equal(message.offset, i);
      });
    }
    const equal = await broker.client.push(
      Array.from({ length: 1000 }, () => ({ queue, partition: 'equal', payload: 'same' })),
    );
    const messages = await broker.client.pop(queue, { partition: 'equal', batch: 1000 });
    assert.deepEqual(
      messages.map((message) => message.id),
      equal.map((result) => result.message_id),
    );
  });

  // S-043
  it('keeps what one group does with a message from the others', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    const one = freshName('g1');
    const two = freshName('g2');
    const [filed] = await broker.client.pop(queue, { group: one, mode: 'all', batch: 1 });
    await broker.client.ackOne(filed, 'dlq', 'one gave up');
    const theirs = await broker.client.pop(queue, { group: two, mode: 'all' });
    assert.deepEqual(
      theirs.map((message) => [message.data, message.deliveryAttempt]),
      [
        ['m1', 1],
        ['m2', 1],
      ],
    );
    assert.equal((await broker.client.ackOne(theirs[0])).success, true);
    assert.equal((await broker.client.deadLetters({ queue, consumerGroup: two })).total, 0);
    const page = await broker.client.deadLetters({ queue, consumerGroup: one });
    assert.deepEqual(
      page.messages.map((row) => [row.data, row.consumerGroup]),
      [['m1', one]],
    );
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group: one })), ['m2']);
  });

  // S-044
  it('settles by partition and lease, so that one id in two partitions is never mixed up', async () => {
    const queue = freshName('q');
    await broker.client.push(
      ['p', 'q'].map((partition) => ({ queue, partition, transactionId: 't1', payload: partition })),
    );
    const [inP] = await broker.client.pop(queue, { partition: 'p' });
    const [inQ] = await broker.client.pop(queue, { partition: 'q' });
    const bare = await broker.client.request<{ success: boolean; error: string }[]>('POST', '/api/v1/ack', {
      json: { transactionId: 't1' },
    });
    assert.equal(bare.status, 200);
    assert.deepEqual(
      bare.body.map((row) => [row.success, row.error]),
      [[false, 'partitionId is not a partition id']],
    );
    const [crossed] = await broker.client.ackItems(null, [{ ...ackOf(inP), leaseId: inQ.leaseId }]);
    assert.equal(crossed.success, false);
    assert.equal((await broker.client.ackOne(inQ)).success, true);
    const partitions = (await broker.client.queueDetail(queue)).partitions;
    assert.deepEqual(
      partitions.map((partition) => [partition.name, partition.stats.completed, partition.stats.processing]),
      [
        ['p', 0, 1],
        ['q', 1, 0],
      ],
    );
    assert.equal((await broker.client.ackOne(inP)).success, true);
  });
});

describe('groups over a crash', () => {
  // S-038
  // S-039
  it('keeps the registration of a group from its first empty answer on, and gives it partitions born later', async () => {
    const broker = await BrokerProcess.start();
    try {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'old', ['o1', 'o2']);
      assert.deepEqual(await broker.client.pop(queue, { group: 'g', mode: 'new' }), []);
      await broker.killAndRestart();
      await broker.client.pushAll(queue, 'old', ['o3']);
      await broker.client.pushAll(queue, 'born later', ['m1', 'm2', 'm3']);
      await broker.killAndRestart();
      // No hint now: what the group is was decided by its first pop.
      const messages = await broker.client.pop(queue, { group: 'g', mode: 'all', partitions: 10 });
      assert.deepEqual(dataOf(messages).sort(), ['m1', 'm2', 'm3', 'o3']);
    } finally {
      await broker.dispose();
    }
  });

  // S-039
  it('gives a new group the first messages of a partition born after it', async () => {
    const broker = await BrokerProcess.start();
    try {
      for (const restart of [false, true]) {
        const queue = freshName('q');
        const group = freshName('g');
        assert.deepEqual(await broker.client.pop(queue, { group, mode: 'new' }), []);
        if (restart) await broker.restart();
        await broker.client.pushAll(queue, 'never used before', ['m1', 'm2', 'm3']);
        if (restart) await broker.restart();
        assert.deepEqual(dataOf(await broker.client.pop(queue, { group })), ['m1', 'm2', 'm3']);
      }
    } finally {
      await broker.dispose();
    }
  });
});
