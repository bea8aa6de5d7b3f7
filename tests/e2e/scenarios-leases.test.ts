/** Field scenarios A and B and S-086: leases, late answers, retries, poison messages, dead letters. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ackOf, freshName, type Message, type PopOptions } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { isOpenAfter, passed } from './clock.ts';

const leaseGone = 'invalid or expired lease';

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);
const deliveredOf = (messages: readonly Message[]): unknown[] =>
  messages.map((message) => [message.data, message.deliveryAttempt]);

describe('leases, retries and dead letters in the field', { concurrency: 32 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-001
  it('refuses a late ack while another worker holds the message, and changes nothing by it', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    const [mine] = await broker.client.pop(queue, { batch: 1, leaseSeconds: 1 });
    assert.deepEqual(deliveredOf([mine]), [['m1', 1]]);
    await passed(1500);
    const [theirs] = await broker.client.pop(queue, { batch: 1 });
    assert.deepEqual(deliveredOf([theirs]), [['m1', 2]]);
    assert.notEqual(theirs.leaseId, mine.leaseId);
    const late = await broker.client.ackOne(mine);
    assert.deepEqual([late.success, late.error], [false, leaseGone]);
    assert.deepEqual(await broker.client.pop(queue), []);
    assert.equal((await broker.client.ackOne(theirs)).success, true);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['m2', 1]]);
  });

  // S-002
  it('refuses a late ack also when nobody has taken the message yet, every time', async () => {
    const queue = freshName('q');
    const count = sized(200, 1000);
    const partitions = Array.from({ length: count }, (_, i) => `p${i}`);
    await broker.client.push(partitions.map((partition) => ({ queue, partition, payload: partition })));
    const held: Message[] = [];
    while (held.length < count) {
      held.push(...(await broker.client.pop(queue, { partitions: 64, batch: 1000, leaseSeconds: 1 })));
    }
    await passed(1500);
    const results = await Promise.all(held.map((message) => broker.client.ackOne(message)));
    assert.deepEqual(
      [...new Set(results.map((result) => `${result.success} ${result.error}`))],
      [`false ${leaseGone}`],
    );
    const again: Message[] = [];
    while (again.length < count) {
      const messages = await broker.client.pop(queue, { partitions: 64, batch: 1000 });
      assert.ok(messages.length > 0);
      again.push(...messages);
    }
    assert.ok(again.every((message) => message.deliveryAttempt === 2));
  });

  // S-003
  it('counts a repeated ack once and keeps the lease of what is still out', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2', 'm3']);
    const messages = await broker.client.pop(queue);
    await broker.client.ackOne(messages[0]);
    const repeated = await broker.client.ackOne(messages[0]);
    assert.deepEqual([repeated.success, repeated.noop], [true, true]);
    await broker.client.ackOne(messages[1]);
    assert.deepEqual(await broker.client.pop(queue), []);
    assert.equal((await broker.client.ackOne(messages[2])).success, true);
    const [partition] = (await broker.client.queueDetail(queue)).partitions;
    assert.deepEqual([partition.stats.completed, partition.stats.pending, partition.stats.processing], [3, 0, 0]);
    assert.equal(partition.cursor.totalConsumed, 3);
  });

  // S-004
  it('revives no ended lease by extending it, and shortens none', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1']);
    const [mine] = await broker.client.pop(queue, { leaseSeconds: 1 });
    await passed(1200);
    assert.equal((await broker.client.extend(mine.leaseId, 10)).success, false);
    const [theirs] = await broker.client.pop(queue, { leaseSeconds: 10 });
    assert.deepEqual(deliveredOf([theirs]), [['m1', 2]]);
    assert.equal((await broker.client.extend(mine.leaseId, 10)).success, false);
    const granted = await broker.client.extend(theirs.leaseId, 1);
    const leftMs = Date.parse(granted.newExpiresAt ?? '') - Date.now();
    assert.ok(leftMs > 8000, `the lease has ${leftMs} ms left`);
    assert.equal((await broker.client.ackOne(theirs)).success, true);
  });

  // S-005
  it('renews nothing once every message of the lease is settled', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    const messages = await broker.client.pop(queue, { leaseSeconds: 2 });
    await broker.client.ackOne(messages[0]);
    for (let i = 0; i < 4; i++) {
      await passed(700);
      assert.equal((await broker.client.extend(messages[0].leaseId, 2)).success, true);
    }
    assert.deepEqual(await broker.client.pop(queue), [], 'm2 stays with the one who extends');
    await broker.client.ackOne(messages[1]);
    assert.equal((await broker.client.extend(messages[0].leaseId, 2)).renewed, 0);
  });

  // S-006
  it('gives a message to the client that is there, not to those that hung up while waiting', async () => {
    const queue = freshName('q');
    const abandoned = Array.from({ length: 100 }, () => {
      const gone = new AbortController();
      const pop = broker.client.pop(queue, { waitMs: 30_000, leaseSeconds: 60, signal: gone.signal });
      return { gone, pop };
    });
    assert.ok(await isOpenAfter(Promise.race(abandoned.map(({ pop }) => pop)), 200));
    for (const { gone, pop } of abandoned) {
      gone.abort();
      await assert.rejects(pop);
    }
    await passed(500);
    await broker.client.pushAll(queue, 'p', ['m1']);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['m1', 1]]);
  });

  // S-007
  it('gives the head of a dead worker to the next one when its lease ends, with nobody polling in between', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    const leasedAt = performance.now();
    await broker.client.pop(queue, { batch: 1, leaseSeconds: 2 });
    assert.deepEqual(deliveredOf(await broker.client.pop(queue, { batch: 1, waitMs: 20_000 })), [['m1', 2]]);
    const tookMs = performance.now() - leasedAt;
    assert.ok(tookMs >= 1990 && tookMs < 3300, `after ${tookMs} ms`);
  });

  // S-009
  it('delivers a failed head again before anything behind it, with true attempt numbers', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m0', 'm1', 'm2', 'm3', 'm4']);
    const options: PopOptions = { group: freshName('g'), mode: 'all', batch: 1 };
    const order: unknown[] = [];
    let failuresLeft = 2;
    for (;;) {
      const messages = await broker.client.pop(queue, options);
      if (messages.length === 0) break;
      assert.deepEqual(
        await broker.client.pop(queue, options),
        [],
        'nobody else sees the next before the head settles',
      );
      order.push(...deliveredOf(messages));
      await broker.client.ackOne(messages[0], messages[0].data === 'm0' && failuresLeft-- > 0 ? 'failed' : 'completed');
    }
    assert.deepEqual(order, [
      ['m0', 1],
      ['m0', 2],
      ['m0', 3],
      ['m1', 1],
      ['m2', 1],
      ['m3', 1],
      ['m4', 1],
    ]);
  });

  // S-010
  it('never lets later successes of a batch ack jump over a failure in its middle', async () => {
    for (let round = 0; round < 5; round++) {
      const queue = freshName('q');
      await broker.client.configure(queue, { retryLimit: 2 });
      await broker.client.pushAll(queue, 'p', ['m1', 'm2', 'm3', 'm4', 'm5', 'm6']);
      const messages = await broker.client.pop(queue, { batch: 5 });
      const results = await broker.client.ackItems(
        null,
        messages.map((message, i) => ackOf(message, i === 2 ? 'failed' : 'completed')),
      );
      assert.deepEqual(
        results.map((result) => [result.index, result.success, result.dlq]),
        [0, 1, 2, 3, 4].map((index) => [index, true, false]),
      );
      // m4 and m5 are given again, always: an ack of a later message does not outlive a failure before it.
      assert.deepEqual(dataOf(await broker.client.pop(queue, { batch: 10 })), ['m3', 'm4', 'm5', 'm6']);
      assert.equal((await broker.client.deadLetters({ queue })).total, 0);
    }
  });

  // S-011
  it('holds back only the partition of a failed message', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryDelay: 1500 });
    for (const partition of ['a', 'b', 'c']) {
      await broker.client.pushAll(queue, partition, [`${partition}1`, `${partition}2`]);
    }
    const messages = await broker.client.pop(queue, { batch: 6, partitions: 3 });
    const byName = new Map(messages.map((message) => [message.data, message]));
    const item = (name: string, status: string) => ackOf(byName.get(name) as Message, status);
    await broker.client.ackItems(null, [
      item('a1', 'failed'),
      item('b1', 'completed'),
      item('b2', 'completed'),
      item('c1', 'completed'),
      item('c2', 'completed'),
    ]);
    await broker.client.push([
      { queue, partition: 'b', payload: 'b3' },
      { queue, partition: 'c', payload: 'c3' },
    ]);
    const next = await broker.client.pop(queue, { batch: 10, partitions: 3 });
    assert.deepEqual(dataOf(next).sort(), ['b3', 'c3'], 'b and c are not delayed by the failure in a');
    const back = await broker.client.pop(queue, { batch: 10, partitions: 3, waitMs: 5000 });
    assert.deepEqual(deliveredOf(back), [
      ['a1', 2],
      ['a2', 2],
    ]);
  });

  // S-012
  it('keeps an explicit retryDelay, holds back only what follows, and wakes a parked pop at its end', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryDelay: 1500, retryLimit: 2 });
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    await broker.client.pushAll(queue, 'q', ['n1']);
    const [head] = await broker.client.pop(queue, { partition: 'p', batch: 1 });
    const failedAt = performance.now();
    await broker.client.ackOne(head, 'failed');
    await passed(400);
    assert.deepEqual(await broker.client.pop(queue, { partition: 'p' }), []);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { partition: 'q' })), ['n1']);
    const back = await broker.client.pop(queue, { partition: 'p', batch: 1, waitMs: 20_000 });
    const tookMs = performance.now() - failedAt;
    assert.deepEqual(deliveredOf(back), [['m1', 2]]);
    assert.ok(tookMs >= 1490 && tookMs < 2400, `came back after ${tookMs} ms`);
  });

  // S-012, contract line: the default retryDelay has no effect
  it('delays no retry when retryDelay was not set to something else than its default', async () => {
    for (const options of [{}, { retryDelay: 1000 }]) {
      const queue = freshName('q');
      await broker.client.configure(queue, options);
      await broker.client.pushAll(queue, 'p', ['m1']);
      await broker.client.ack(await broker.client.pop(queue), 'failed');
      assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['m1', 2]]);
    }
  });

  // S-013
  it('goes on with a key after its dead letter', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryLimit: 1 });
    const poison = async (partition: string, name: string): Promise<void> => {
      await broker.client.pushAll(queue, partition, [name]);
      for (const filed of [false, true]) {
        const messages = await broker.client.pop(queue, { partition });
        assert.deepEqual(dataOf(messages), [name]);
        assert.equal((await broker.client.ackOne(messages[0], 'failed')).dlq, filed);
      }
    };
    await poison('k1', 'bad');
    await broker.client.pushAll(queue, 'k1', ['good1']);
    const first = await broker.client.pop(queue);
    assert.deepEqual(deliveredOf(first), [['good1', 1]]);
    await broker.client.ack(first);
    await poison('k2', 'bad2');
    await broker.client.pushAll(queue, 'k1', ['good2']);
    await broker.client.pushAll(queue, 'k2', ['good3']);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue, { partitions: 2 })).sort(), [
      ['good2', 1],
      ['good3', 1],
    ]);
    const page = await broker.client.deadLetters({ queue });
    assert.deepEqual(page.messages.map((row) => row.data).sort(), ['bad', 'bad2']);
  });

  // S-015, firm part
  it('delivers a message that never gets an answer again with a rising attempt, and stops nothing else', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryLimit: 2 });
    await broker.client.pushAll(queue, 'p', ['m1', 'm2']);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const messages = await broker.client.pop(queue, { partition: 'p', batch: 1, leaseSeconds: 2, waitMs: 5000 });
      assert.deepEqual(deliveredOf(messages), [['m1', attempt]]);
      await broker.client.pushAll(queue, `other${attempt}`, [`o${attempt}`]);
      assert.deepEqual(dataOf(await broker.client.pop(queue)), [`o${attempt}`]);
    }
    const stuck = (await broker.client.queueDetail(queue)).partitions.find((partition) => partition.name === 'p');
    assert.equal(stuck?.stats.processing, 1);
    assert.equal(stuck?.stats.pending, 1);
    assert.equal((await broker.client.deadLetters({ queue })).total, 0);
  });

  // S-014, contract line: an ended lease never charges the budget, so that the neighbours of a poison message are safe
  it('dead-letters no neighbour of a message that kills its worker', async () => {
    const queue = freshName('q');
    const names = Array.from({ length: 10 }, (_, i) => `m${i}`);
    await broker.client.configure(queue, { retryLimit: 0 });
    await broker.client.pushAll(queue, 'p', names);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const messages = await broker.client.pop(queue, { leaseSeconds: 1, waitMs: 5000 });
      assert.deepEqual(dataOf(messages), names);
      assert.ok(messages.every((message) => message.deliveryAttempt === attempt));
    }
    assert.equal((await broker.client.deadLetters({ queue })).total, 0);
    const head = await broker.client.pop(queue, { batch: 1, waitMs: 5000 });
    assert.equal((await broker.client.ackOne(head[0], 'dlq', 'kills its worker')).dlq, true);
    assert.deepEqual(dataOf(await broker.client.pop(queue)), names.slice(1));
  });

  // S-086
  it('goes on delivering after every consumer was late once', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['m1', 'm2', 'm3']);
    const group = { group: freshName('g'), mode: 'all', batch: 1 };
    const late: Message[] = [];
    for (let worker = 0; worker < 5; worker++) {
      const messages = await broker.client.pop(queue, { ...group, leaseSeconds: 1, waitMs: 5000 });
      assert.deepEqual(deliveredOf(messages), [['m1', worker + 1]]);
      late.push(messages[0]);
    }
    await passed(1100);
    for (const message of late) assert.equal((await broker.client.ackOne(message)).success, false);
    const done: unknown[] = [];
    for (let worker = 0; worker < 3; worker++) {
      const messages = await broker.client.pop(queue, { ...group, waitMs: 5000 });
      done.push(...dataOf(messages));
      assert.equal((await broker.client.ackOne(messages[0])).success, true);
    }
    assert.deepEqual(done, ['m1', 'm2', 'm3']);
  });
});

describe('a pile of bad messages', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-019
  it('slows no good key and fills no memory when everything under one key fails', async () => {
    const perKey = sized(200, 2000);
    const keys = ['k0', 'k1', 'k2', 'k3', 'k4'];
    const run = async (badKey: string | null): Promise<number> => {
      const queue = freshName('q');
      await broker.client.configure(queue, { retryDelay: 999, retryLimit: 1_000_000 });
      for (let i = 0; i < perKey; i += 100) {
        await broker.client.push(
          Array.from({ length: 100 }, (_, j) => keys.map((key) => ({ queue, partition: key, payload: i + j }))).flat(),
        );
      }
      const done = new Map<string, unknown[]>(keys.map((key) => [key, []]));
      const good = keys.filter((key) => key !== badKey);
      let left = good.length * perKey;
      const startedAt = performance.now();
      await Promise.all(
        Array.from({ length: 12 }, async () => {
          while (left > 0) {
            const messages = await broker.client.pop(queue, { batch: 1, waitMs: 200 });
            for (const message of messages) {
              const bad = message.partition === badKey;
              if (!bad) {
                done.get(message.partition)?.push(message.data);
                left--;
              }
              await broker.client.ackOne(message, bad ? 'failed' : 'completed');
            }
          }
        }),
      );
      for (const key of good) {
        assert.deepEqual(
          done.get(key),
          Array.from({ length: perKey }, (_, i) => i),
        );
      }
      return performance.now() - startedAt;
    };
    const aloneMs = await run(null);
    const before = await broker.residentBytes();
    const mixedMs = await run('k3');
    // One key less to do, so the same time alone is already the looser bound; the rest is the noise of short runs.
    assert.ok(mixedMs < aloneMs * 1.5 + 500, `${mixedMs} ms with a bad key, ${aloneMs} ms without`);
    const grown = (await broker.residentBytes()) - before;
    assert.ok(grown < 64 * 1024 * 1024, `memory grew by ${grown} bytes`);
  });
});
