/** Contract section 4 and checklist 7 to 9 and 18 to 24: pops, leases as pops make them, subscriptions. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type ErrorBody, freshName, type Message, popPath, queueModeGroup } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { isOpenAfter, passed, timed } from './clock.ts';

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);

/** `count` strings that tell where they were pushed. */
function names(stem: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${stem}${i}`);
}

describe('pop', { concurrency: 24 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  /** A queue with `perPartition` messages in each of the partitions, pushed in the order given. */
  async function queueWith(perPartition: number, ...partitions: string[]): Promise<string> {
    const queue = freshName('q');
    for (const partition of partitions) await broker.client.pushAll(queue, partition, names(partition, perPartition));
    return queue;
  }

  // Contract 4.3; checklist 24
  it('answers messages in the documented shape', async () => {
    const queue = freshName('q');
    const [stored] = await broker.client.push([
      { queue, partition: 'customer-42', transactionId: 't', payload: { orderId: 9137 } },
    ]);
    const group = freshName('g');
    const { body } = await broker.client.popAnswer(queue, { group, mode: 'all' });
    const [message] = body.messages;
    assert.match(body.leaseId, uuid7);
    assert.match(body.partitionId, /^\d+$/);
    assert.deepEqual(body, {
      success: true,
      queue,
      partition: 'customer-42',
      partitionId: body.partitionId,
      leaseId: body.leaseId,
      consumerGroup: group,
      messages: [message],
      partitionsClaimed: 1,
    });
    assert.deepEqual(message, {
      id: stored.message_id,
      transactionId: 't',
      traceId: null,
      data: { orderId: 9137 },
      producerSub: null,
      createdAt: message.createdAt,
      partitionId: body.partitionId,
      partition: 'customer-42',
      leaseId: body.leaseId,
      consumerGroup: group,
      deliveryAttempt: 1,
      offset: 0,
    });
  });

  // Contract 1.4, 4.2
  it('serves a pop that names no group as queue mode', async () => {
    const queue = await queueWith(1, 'p');
    const { body } = await broker.client.popAnswer(queue);
    assert.equal(body.consumerGroup, queueModeGroup);
    assert.equal(body.messages[0].consumerGroup, queueModeGroup);
    assert.deepEqual(await broker.client.pop(queue, { group: queueModeGroup }), []);
  });

  // Checklist 7; contract 4.6
  it('answers an empty pop at once, parks a waiting one, and wakes it with a push', async () => {
    const queue = freshName('q');
    const empty = await timed(broker.client.popAnswer(queue));
    assert.equal(empty.result.status, 204);
    assert.equal(empty.result.bytes.length, 0);
    assert.ok(empty.tookMs < 1000);

    const parked = broker.client.pop(queue, { waitMs: 20_000 });
    assert.ok(await isOpenAfter(parked, 300));
    await broker.client.pushAll(queue, 'p', ['a']);
    const { result, tookMs } = await timed(parked);
    assert.deepEqual(dataOf(result), ['a']);
    assert.ok(tookMs < 500, `woken after ${tookMs} ms`);
  });

  // Contract 4.6
  it('ends a wait with 204 after its timeout and not before', async () => {
    const { result, tookMs } = await timed(broker.client.popAnswer(freshName('q'), { waitMs: 700 }));
    assert.equal(result.status, 204);
    assert.ok(tookMs >= 690 && tookMs < 1700, `ended after ${tookMs} ms`);
  });

  // Checklist 8; contract 4.2, 4.3
  it('gives one partition unless asked for more, and counts batch over all partitions of the call', async () => {
    const queue = await queueWith(4, 'a', 'b', 'c');
    const one = await broker.client.popAnswer(queue, { group: 'one', mode: 'all', batch: 100 });
    assert.deepEqual(dataOf(one.body.messages), names('a', 4));
    assert.equal(one.body.partitionsClaimed, 1);

    const many = await broker.client.popAnswer(queue, { group: 'many', mode: 'all', batch: 10, partitions: 3 });
    assert.deepEqual(dataOf(many.body.messages), [...names('a', 4), ...names('b', 4), ...names('c', 2)]);
    assert.equal(many.body.partitionsClaimed, 3);
    assert.equal(many.body.partition, 'a');
    assert.equal(new Set(many.body.messages.map((message) => message.leaseId)).size, 1);
    assert.equal(new Set(many.body.messages.map((message) => message.partitionId)).size, 3);

    const few = await broker.client.popAnswer(queue, { group: 'few', mode: 'all', batch: 4, partitions: 3 });
    assert.deepEqual(dataOf(few.body.messages), names('a', 4));
    assert.equal(few.body.partitionsClaimed, 1);
  });

  // Contract 4.2: default batch 200
  it('gives at most 200 messages when no batch is named', async () => {
    const queue = await queueWith(250, 'p');
    assert.deepEqual(dataOf(await broker.client.pop(queue)), names('p', 200));
  });

  // Contract 4.2: partitions is clamped to 1..64 and ignored when pinned
  it('claims at most 64 partitions in a call and only the named one when pinned', async () => {
    const queue = freshName('q');
    await broker.client.push(names('p', 80).map((partition) => ({ queue, partition, payload: partition })));
    const wide = await broker.client.popAnswer(queue, { group: 'wide', mode: 'all', partitions: 1000, batch: 1000 });
    assert.equal(wide.body.partitionsClaimed, 64);
    const none = await broker.client.popAnswer(queue, { group: 'none', mode: 'all', partitions: 0, batch: 1000 });
    assert.equal(none.body.partitionsClaimed, 1);
    const pinned = await broker.client.popAnswer(queue, { group: 'pin', mode: 'all', partitions: 9, partition: 'p7' });
    assert.deepEqual(dataOf(pinned.body.messages), ['p7']);
  });

  // Contract 4.4: wildcard order is FIFO by readiness
  it('serves ready partitions in the order in which they became ready', async () => {
    const queue = await queueWith(4, 'a', 'b', 'c');
    const order: string[] = [];
    for (let i = 0; i < 12; i++) {
      const messages = await broker.client.pop(queue, { batch: 1 });
      order.push(messages[0].partition);
      await broker.client.ack(messages);
    }
    // A released partition goes behind all that were ready before its release.
    assert.equal(order.join(''), 'abcabcabcabc');

    // Becoming ready again counts anew: what was drained by a pinned pop has lost its place.
    await broker.client.pushAll(queue, 'b', ['b4']);
    await broker.client.ack(await broker.client.pop(queue, { partition: 'b' }));
    await broker.client.pushAll(queue, 'c', ['c4']);
    await broker.client.pushAll(queue, 'b', ['b5']);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { partitions: 2 })), ['c4', 'b5']);
  });

  // Contract 4.4.6
  it('begins and ends a run inside an append', async () => {
    const queue = await queueWith(5, 'p');
    await broker.client.pushAll(queue, 'p', names('q', 5));
    const got: unknown[][] = [];
    for (const batch of [2, 2, 4, 10]) {
      const messages = await broker.client.pop(queue, { batch });
      got.push(dataOf(messages));
      await broker.client.ack(messages);
    }
    assert.deepEqual(got, [
      ['p0', 'p1'],
      ['p2', 'p3'],
      ['p4', 'q0', 'q1', 'q2'],
      ['q3', 'q4'],
    ]);
  });

  // Checklist 9; contract 1.2
  it('gives a leased partition to no other consumer of the group, and all of it to another group', async () => {
    const queue = await queueWith(3, 'p');
    const group = freshName('g');
    assert.equal((await broker.client.pop(queue, { group, mode: 'all', batch: 1 })).length, 1);
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'all' }), []);
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'all', partition: 'p' }), []);
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'all', autoAck: true }), []);
    assert.equal((await broker.client.pop(queue, { group: freshName('g'), mode: 'all' })).length, 3);
    assert.equal((await broker.client.pop(queue)).length, 3);
  });

  // Checklist 18; contract 4.2, 4.4.8
  it('leases for leaseSeconds when sent, else for the leaseTime of the queue, and redelivers afterwards', async () => {
    const queue = await queueWith(2, 'p');
    await broker.client.configure(queue, { leaseTime: 1 });
    const long = freshName('g');
    const short = freshName('g');
    const ignored = freshName('g');
    const [kept] = await broker.client.pop(queue, { group: long, mode: 'all', leaseSeconds: 30 });
    const [lost] = await broker.client.pop(queue, { group: short, mode: 'all' });
    await broker.client.pop(queue, { group: ignored, mode: 'all', leaseSeconds: 0 });
    await passed(1200);
    assert.deepEqual(await broker.client.pop(queue, { group: long }), []);
    const again = await broker.client.pop(queue, { group: short });
    assert.deepEqual(
      again.map((message) => [message.data, message.deliveryAttempt]),
      [
        ['p0', 2],
        ['p1', 2],
      ],
    );
    assert.notEqual(again[0].leaseId, lost.leaseId);
    assert.equal((await broker.client.pop(queue, { group: ignored })).length, 2, 'leaseSeconds=0 counts as absent');
    assert.equal((await broker.client.ackOne(kept)).success, true);
  });

  // Contract 4.4.7
  it('counts a delivery attempt only for the same first offset', async () => {
    const queue = await queueWith(3, 'p');
    const attempts: number[][] = [];
    for (let i = 0; i < 3; i++) {
      const messages = await broker.client.pop(queue, { batch: 2, leaseSeconds: i < 2 ? 1 : 30 });
      attempts.push(messages.map((message) => message.deliveryAttempt));
      if (i < 2) await passed(1150);
      else await broker.client.ack(messages);
    }
    const rest = await broker.client.pop(queue);
    attempts.push(rest.map((message) => message.deliveryAttempt));
    assert.deepEqual(attempts, [[1, 1], [2, 2], [3, 3], [1]]);
  });

  // Checklist 19; contract 4.5
  it('commits on delivery with autoAck or commitOnDelivery: no lease id, never again', async () => {
    const queue = await queueWith(4, 'p');
    const first = await broker.client.popAnswer(queue, { autoAck: true, batch: 2 });
    assert.equal(first.body.leaseId, '');
    assert.deepEqual(
      first.body.messages.map((message) => [message.data, message.leaseId, message.deliveryAttempt]),
      [
        ['p0', '', 1],
        ['p1', '', 1],
      ],
    );
    const second = await broker.client.request<{ leaseId: string; messages: Message[] }>(
      'GET',
      `${popPath(queue)}?commitOnDelivery=true`,
    );
    assert.equal(second.body.leaseId, '');
    assert.deepEqual(dataOf(second.body.messages), ['p2', 'p3']);
    assert.deepEqual(await broker.client.pop(queue), []);
    const row = await broker.client.queueDetail(queue);
    assert.equal(row.partitions[0].stats.pending, 0);
  });

  // Checklist 20; contract 4.7
  it('starts a group of mode new behind the backlog, but gives it all of a partition created later', async () => {
    const queue = await queueWith(3, 'old');
    const group = freshName('g');
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'new' }), []);
    await broker.client.pushAll(queue, 'born later', ['b0', 'b1']);
    await broker.client.pushAll(queue, 'old', ['old3']);
    const messages = await broker.client.pop(queue, { group, partitions: 10 });
    assert.deepEqual(dataOf(messages).sort(), ['b0', 'b1', 'old3']);
    assert.equal((await broker.client.pop(queue, { mode: 'new' })).length, 4, 'queue mode ignores the hint');
  });

  // Contract 4.2: the spellings of new; anything else is all
  it('understands the spellings of mode new and takes every other word as all', async () => {
    const queue = await queueWith(1, 'p');
    for (const mode of ['new', 'NEW', 'new-only', 'New_Only', 'newonly']) {
      assert.deepEqual(await broker.client.pop(queue, { group: freshName('g'), mode }), [], mode);
    }
    for (const mode of ['all', 'ALL', 'from_beginning', 'earliest', 'nonsense']) {
      assert.equal((await broker.client.pop(queue, { group: freshName('g'), mode })).length, 1, mode);
    }
  });

  // Contract 4.7: the registration decides, later hints do not
  it('keeps the mode of the first contact', async () => {
    const queue = await queueWith(2, 'p');
    const late = freshName('g');
    const early = freshName('g');
    assert.deepEqual(await broker.client.pop(queue, { group: late, mode: 'new' }), []);
    assert.deepEqual(await broker.client.pop(queue, { group: late, mode: 'all' }), []);
    assert.equal((await broker.client.pop(queue, { group: early, mode: 'all', batch: 1, autoAck: true })).length, 1);
    assert.equal((await broker.client.pop(queue, { group: early, mode: 'new', from: 'now' })).length, 1);
  });

  // Contract 4.7: no hint = the server default, which is new
  it('registers a named group without a hint as new', async () => {
    const queue = await queueWith(2, 'p');
    const group = freshName('g');
    assert.deepEqual(await broker.client.pop(queue, { group }), []);
    await broker.client.pushAll(queue, 'p', ['fresh']);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group })), ['fresh']);
  });

  // Checklist 21; contract 4.7
  it('starts a group with subscriptionFrom at the first append at or after that time', async () => {
    const queue = freshName('q');
    for (const name of names('p', 4)) await broker.client.pushAll(queue, 'p', [`${name}a`, `${name}b`]);
    const stamps = (await broker.client.pop(queue)).map((message) => message.createdAt);
    const at = await broker.client.pop(queue, { group: freshName('g'), from: stamps[4] });
    assert.deepEqual(dataOf(at), ['p2a', 'p2b', 'p3a', 'p3b']);

    // One microsecond later the append itself is excluded, and with it all its records.
    const [, head, micros] = /^(.*\.)(\d{6})Z$/.exec(stamps[4]) ?? [];
    if (micros !== '999999') {
      const after = `${head}${String(Number(micros) + 1).padStart(6, '0')}Z`;
      const behind = await broker.client.pop(queue, { group: freshName('g'), from: after });
      assert.deepEqual(dataOf(behind), ['p3a', 'p3b']);
    }
    const all = await broker.client.pop(queue, { group: freshName('g'), from: '2001-01-01T00:00:00Z' });
    assert.equal(all.length, 8);
    const now = await broker.client.pop(queue, { group: freshName('g'), from: 'now' });
    assert.deepEqual(now, []);
  });

  // Contract 4.2: unparsable subscriptionFrom is ignored, so that the mode decides
  it('ignores a subscriptionFrom it cannot read', async () => {
    const queue = await queueWith(2, 'p');
    for (const from of ['yesterday', '', '2026-13-45T99:00:00Z']) {
      assert.equal((await broker.client.pop(queue, { group: freshName('g'), mode: 'all', from })).length, 2, from);
      assert.equal((await broker.client.pop(queue, { group: freshName('g'), mode: 'new', from })).length, 0, from);
    }
  });

  // Contract 4.7: a future T is re-evaluated until it is reached
  it('gives a group that starts in the future only what is pushed after that time', async () => {
    const queue = await queueWith(2, 'p');
    const group = freshName('g');
    const from = new Date(Date.now() + 2000).toISOString();
    assert.deepEqual(await broker.client.pop(queue, { group, from }), []);
    await broker.client.pushAll(queue, 'p', ['too early']);
    assert.deepEqual(await broker.client.pop(queue, { group }), []);
    await passed(2100);
    await broker.client.pushAll(queue, 'p', ['in time']);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group })), ['in time']);
  });

  // Contract 4.7: a pinned pop does not register
  it('does not register a group by a pinned pop, and seeds it from the request', async () => {
    const queue = await queueWith(2, 'p', 'other');
    const tail = freshName('g');
    assert.deepEqual(await broker.client.pop(queue, { group: tail, partition: 'p', mode: 'new' }), []);
    await broker.client.pushAll(queue, 'p', ['p2']);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group: tail, partition: 'p' })), ['p2']);
    // Not registered by the above: the wildcard pop is the first contact and may still choose.
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group: tail, mode: 'all' })), names('other', 2));

    const start = freshName('g');
    assert.equal((await broker.client.pop(queue, { group: start, partition: 'p', mode: 'all' })).length, 3);
  });

  // Checklist 23; contract 4.7
  it('creates an unknown queue on a wildcard pop and nothing on a pinned one', async () => {
    const queue = freshName('q');
    assert.equal((await broker.client.popAnswer(queue, { partition: 'p' })).status, 204);
    assert.equal(await broker.client.queueExists(queue), false);
    assert.equal((await broker.client.popAnswer(queue)).status, 204);
    const detail = await broker.client.queueDetail(queue);
    assert.equal(detail.options.leaseTime, 60);
    assert.deepEqual(detail.partitions, []);
    assert.equal((await broker.client.popAnswer(queue, { partition: 'p' })).status, 204);
    assert.deepEqual((await broker.client.queueDetail(queue)).partitions, []);
  });

  // Contract 4.7: registration by the pop that creates the queue
  it('registers the group of the pop that creates a queue', async () => {
    const queue = freshName('q');
    const group = freshName('g');
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'new' }), []);
    await broker.client.pushAll(queue, 'p', ['first ever']);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group })), ['first ever']);
  });

  // Contract 4.7: a parked pinned pop notices the partition appear
  it('wakes a parked pinned pop when its queue and partition appear', async () => {
    const queue = freshName('q');
    const parked = broker.client.pop(queue, { partition: 'p', waitMs: 20_000 });
    const group = freshName('g');
    const parkedGroup = broker.client.pop(queue, { partition: 'p', group, mode: 'all', waitMs: 20_000 });
    assert.ok(await isOpenAfter(Promise.race([parked, parkedGroup]), 300));
    await broker.client.pushAll(queue, 'elsewhere', ['x']);
    assert.ok(await isOpenAfter(Promise.race([parked, parkedGroup]), 200));
    await broker.client.pushAll(queue, 'p', ['a']);
    const { result, tookMs } = await timed(Promise.all([parked, parkedGroup]));
    assert.deepEqual(result.map(dataOf), [['a'], ['a']]);
    assert.ok(tookMs < 500, `woken after ${tookMs} ms`);
  });

  // Checklist 22; contract 4.4.4
  it('holds appends for delayedProcessing and wakes a parked pop when the hold ends', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { delayedProcessing: 1 });
    const startedAt = performance.now();
    await broker.client.pushAll(queue, 'p', ['a', 'b']);
    assert.deepEqual(await broker.client.pop(queue), []);
    await passed(500);
    await broker.client.pushAll(queue, 'p', ['later']);
    const parked = await broker.client.pop(queue, { waitMs: 10_000 });
    const tookMs = performance.now() - startedAt;
    assert.deepEqual(dataOf(parked), ['a', 'b'], 'the run stops at the first append still held');
    assert.ok(tookMs >= 990 && tookMs < 2000, `delivered after ${tookMs} ms`);
    await broker.client.ack(parked);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { waitMs: 10_000 })), ['later']);
  });

  // Checklist 22; contract 4.4.5
  it('holds a partition for windowBuffer after its newest append and wakes a parked pop at its end', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { windowBuffer: 1 });
    await broker.client.pushAll(queue, 'p', ['a']);
    const parked = broker.client.pop(queue, { waitMs: 10_000 });
    await passed(400);
    const pushedAt = performance.now();
    await broker.client.pushAll(queue, 'p', ['b']);
    assert.deepEqual(dataOf(await parked), ['a', 'b']);
    const tookMs = performance.now() - pushedAt;
    assert.ok(tookMs >= 990 && tookMs < 2000, `delivered ${tookMs} ms after the last push`);
  });

  // Contract 4.6: a lease expiry and a release wake waiters
  it('wakes a parked pop when a lease ends by itself and when an ack releases it', async () => {
    const queue = await queueWith(2, 'p');
    const startedAt = performance.now();
    const [held] = await broker.client.pop(queue, { batch: 1, leaseSeconds: 1 });
    const [again] = await broker.client.pop(queue, { batch: 1, waitMs: 10_000 });
    const tookMs = performance.now() - startedAt;
    assert.deepEqual([again.data, again.deliveryAttempt], ['p0', 2]);
    assert.ok(tookMs >= 990 && tookMs < 2300, `redelivered after ${tookMs} ms`);
    assert.notEqual(again.leaseId, held.leaseId);

    const parked = broker.client.pop(queue, { batch: 1, waitMs: 10_000 });
    assert.ok(await isOpenAfter(parked, 200));
    await broker.client.ack([again]);
    const woken = await timed(parked);
    assert.deepEqual(dataOf(woken.result), ['p1']);
    assert.ok(woken.tookMs < 500, `woken after ${woken.tookMs} ms`);
  });

  // Contract 4.6: one waiter per claimable partition
  it('answers one waiter per claimable partition and leaves the others parked', async () => {
    const queue = freshName('q');
    const parked = Array.from({ length: 5 }, () => timed(broker.client.pop(queue, { waitMs: 2000 })));
    assert.ok(await isOpenAfter(Promise.race(parked), 200));
    await broker.client.push([
      { queue, partition: 'a', payload: 'a' },
      { queue, partition: 'b', payload: 'b' },
    ]);
    const answers = await Promise.all(parked);
    const served = answers.filter((answer) => answer.result.length > 0);
    assert.deepEqual(served.flatMap((answer) => dataOf(answer.result)).sort(), ['a', 'b']);
    for (const answer of answers) {
      if (answer.result.length === 0) assert.ok(answer.tookMs >= 1990, `an empty answer after ${answer.tookMs} ms`);
    }
  });

  // Contract 4.1
  it('refuses a discover pop without labels and serves one with them', async () => {
    const refused = await broker.client.request('GET', '/api/v1/pop');
    assert.equal(refused.status, 400);
    assert.deepEqual(refused.body as unknown, {
      success: false,
      error: 'namespace or task is required',
      messages: [],
    });

    const namespace = freshName('ns');
    const task = freshName('task');
    const both = freshName('q');
    await broker.client.configure(both, {}, { namespace, task });
    await broker.client.configure(`${both}-ns`, {}, { namespace });
    await broker.client.configure(`${both}-task`, {}, { task });
    for (const queue of [both, `${both}-ns`, `${both}-task`]) await broker.client.pushAll(queue, 'p', [queue]);
    const found = async (labels: { namespace?: string; task?: string }) =>
      dataOf(await broker.client.discover(labels, { group: freshName('g'), mode: 'all', partitions: 10 })).sort();
    assert.deepEqual(await found({ namespace, task }), [both]);
    assert.deepEqual(await found({ namespace }), [both, `${both}-ns`]);
    assert.deepEqual(await found({ task }), [both, `${both}-task`]);
    assert.deepEqual(await found({ namespace: freshName('none') }), []);
  });

  // Contract 4.2, 4.3: discover never waits, leases for 60 s, has no queue on top
  it('answers a discover pop at once, without a queue name, and leases for 60 seconds', async () => {
    const namespace = freshName('ns');
    const waited = await timed(broker.client.discover({ namespace }, { waitMs: 10_000 }));
    assert.deepEqual(waited.result, []);
    assert.ok(waited.tookMs < 1000);

    const queue = freshName('q');
    await broker.client.configure(queue, { leaseTime: 1 }, { namespace });
    await broker.client.pushAll(queue, 'p', ['a']);
    const answer = await broker.client.request<{ queue: string; messages: Message[] }>(
      'GET',
      `/api/v1/pop?namespace=${namespace}`,
    );
    assert.equal(answer.body.queue, '');
    assert.equal(answer.body.messages.length, 1);
    await passed(1300);
    assert.deepEqual(await broker.client.discover({ namespace }), []);
    assert.equal((await broker.client.ack(answer.body.messages))[0].success, true);
  });

  // Contract 4.8
  it('gives a conflating group only the newest record of each partition and commits all of it by one ack', async () => {
    const queue = await queueWith(3, 'a', 'b');
    const group = freshName('g');
    const first = await broker.client.popAnswer(queue, { group, mode: 'all', conflation: true, batch: 10 });
    assert.equal(first.body.conflation, true);
    assert.equal(first.body.conflationConflict, undefined);
    assert.deepEqual(
      first.body.messages.map((message) => [message.data, message.offset]),
      [
        ['a2', 2],
        ['b2', 2],
      ],
    );
    const results = await broker.client.ack(first.body.messages);
    assert.ok(results.every((result) => result.success && result.leaseReleased));
    const second = await broker.client.popAnswer(queue, { group, conflation: true });
    assert.equal(second.status, 200);
    assert.equal(second.body.conflation, true);
    assert.deepEqual(second.body.messages, []);
    await broker.client.pushAll(queue, 'a', ['a3', 'a4']);
    const third = await broker.client.pop(queue, { group });
    assert.deepEqual(dataOf(third), ['a4'], 'the stored registration wins over an absent parameter');
  });

  // Contract 4.8
  it('serves a group registered without conflation in full and reports the conflict', async () => {
    const queue = await queueWith(3, 'p');
    const group = freshName('g');
    assert.equal((await broker.client.pop(queue, { group, mode: 'all', batch: 1, autoAck: true })).length, 1);
    const conflict = await broker.client.popAnswer(queue, { group, conflation: true });
    assert.equal(conflict.body.conflationConflict, true);
    assert.equal(conflict.body.conflation, undefined);
    assert.deepEqual(dataOf(conflict.body.messages), ['p1', 'p2']);
    const empty = await broker.client.popAnswer(queue, { group, conflation: true });
    assert.equal(empty.status, 200);
    assert.equal(empty.body.conflationConflict, true);
    assert.deepEqual(empty.body.messages, []);
  });

  // Contract 4.8
  it('gives at most 64 messages to a conflating pop', async () => {
    const queue = freshName('q');
    await broker.client.push(names('p', 100).map((partition) => ({ queue, partition, payload: partition })));
    const options = { group: freshName('g'), mode: 'all', conflation: true };
    assert.equal((await broker.client.pop(queue, { ...options, batch: 500 })).length, 64);
    assert.equal((await broker.client.pop(queue, { ...options, batch: 5 })).length, 5);
  });

  // Contract 4.8
  it('refuses conflation without a group and with commit on delivery, naming both parameters', async () => {
    const queue = await queueWith(1, 'p');
    for (const [query, other] of [
      ['conflation=true', /consumerGroup/],
      ['conflation=true&consumerGroup=g&autoAck=true', /autoAck|commitOnDelivery/],
    ] as const) {
      const answer = await broker.client.request<ErrorBody & { success: boolean; messages: unknown[] }>(
        'GET',
        `${popPath(queue)}?${query}`,
      );
      assert.equal(answer.status, 400);
      assert.equal(answer.body.success, false);
      assert.deepEqual(answer.body.messages, []);
      assert.match(answer.body.error, /conflation/);
      assert.match(answer.body.error, other);
    }
  });

  // Contract 4.9
  it('sizes a pop that asks for autopilot, keeps explicit numbers, and echoes what it used', async () => {
    const queue = await queueWith(3, 'a', 'b', 'c');
    const options = { mode: 'all', autopilot: true };
    const sized = await broker.client.popAnswer(queue, { ...options, group: freshName('g') });
    assert.ok(sized.body.autopilot !== undefined);
    assert.ok(sized.body.autopilot.batch >= 100 && sized.body.autopilot.batch <= 1000);
    assert.ok(sized.body.autopilot.partitions >= 1 && sized.body.autopilot.partitions <= 64);
    const kept = await broker.client.popAnswer(queue, { ...options, group: freshName('g'), batch: 2, partitions: 3 });
    assert.deepEqual(kept.body.autopilot, { partitions: 3, batch: 2 });
    assert.equal(kept.body.messages.length, 2);

    const group = freshName('g');
    const conflated = await broker.client.popAnswer(queue, { ...options, group, conflation: true });
    assert.equal(conflated.body.autopilot, undefined, 'ignored with conflation');
    const pinned = await broker.client.popAnswer(queue, { ...options, group: freshName('g'), partition: 'a' });
    assert.equal(pinned.body.autopilot, undefined, 'wildcard route only');
    const unasked = await broker.client.popAnswer(queue, { mode: 'all', group: freshName('g') });
    assert.equal(unasked.body.autopilot, undefined);
  });

  // Contract 2 and 4.2: badly typed parameters; 4.10: the shape of refusals
  it('refuses badly typed parameters with 400 and clamps numbers out of bounds', async () => {
    const queue = await queueWith(3, 'p');
    for (const query of [
      'batch=abc',
      'batch=1.5',
      'batch=%2210%22',
      'partitions=x',
      'wait=maybe',
      'wait=1',
      'timeout=soon',
      'timeout=NaN',
      'leaseSeconds=long',
      'autoAck=yes',
      'conflation=2',
      'autopilot=on',
    ]) {
      const answer = await broker.client.request('GET', `${popPath(queue)}?${query}`);
      assert.equal(answer.status, 400, query);
    }
    const one = await broker.client.pop(queue, { group: freshName('g'), mode: 'all', batch: 0 });
    assert.equal(one.length, 1);
    const all = await broker.client.pop(queue, { group: freshName('g'), mode: 'all', batch: 1_000_000_000 });
    assert.equal(all.length, 3);
  });

  // Contract 4.6: a claim that could not be delivered is handed back
  it('hands back the claim of a client that is gone', async () => {
    const queue = freshName('q');
    for (let round = 0; round < 20; round++) {
      const gone = new AbortController();
      const parked = broker.client.pop(queue, { waitMs: 20_000, leaseSeconds: 60, signal: gone.signal });
      assert.ok(await isOpenAfter(parked, 20));
      gone.abort();
      await assert.rejects(parked);
    }
    const next = broker.client.pop(queue, { waitMs: 5000 });
    await broker.client.pushAll(queue, 'p', ['a']);
    const { result, tookMs } = await timed(next);
    assert.deepEqual(
      result.map((message) => [message.data, message.deliveryAttempt]),
      [['a', 1]],
    );
    assert.ok(tookMs < 1000);
  });
});

describe('pop on a server whose default mode is all', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start({ args: ['--default-subscription-mode', 'all'] });
  });
  after(() => broker.dispose());

  // Contract 4.2: subscriptionMode's default is the server's
  it('registers a named group without a hint as all, and mode new still skips the backlog', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', names('p', 3));
    assert.equal((await broker.client.pop(queue, { group: freshName('g') })).length, 3);
    assert.deepEqual(await broker.client.pop(queue, { group: freshName('g'), mode: 'new' }), []);
  });

  // Setting of the behaviours: DEFAULT_SUBSCRIPTION_MODE is the contract's name of the same switch
  it('takes the default from DEFAULT_SUBSCRIPTION_MODE as well', async () => {
    const other = await BrokerProcess.start({ env: { DEFAULT_SUBSCRIPTION_MODE: 'all' } });
    try {
      const queue = freshName('q');
      await other.client.pushAll(queue, 'p', ['a']);
      assert.equal((await other.client.pop(queue, { group: freshName('g') })).length, 1);
    } finally {
      await other.dispose();
    }
  });
});
