/**
 * Behaviours that client programs rely on, Part 1: queues, pushes, pops, leases, order, acks, retries, dead letters,
 * groups, discovery and producer identity. Each promise must hold whatever a server's default subscription mode is, so
 * everything here runs against a broker of each.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type AckResult, ackOf, ackWithoutLease, freshName, type Message, type PopOptions } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { isOpenAfter, passed, timed } from './clock.ts';

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);

function numbered(stem: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${stem}${i}`);
}

for (const defaultMode of ['new', 'all']) {
  describe(`behaviours with the default subscription mode ${defaultMode}`, { concurrency: 40 }, () => {
    let broker: BrokerProcess;
    before(async () => {
      broker = await BrokerProcess.start({
        args: ['--default-subscription-mode', defaultMode],
        env: { QUEEN_ENCRYPTION_KEY: '00112233445566778899aabbccddeeff'.repeat(2) },
      });
    });
    after(() => broker.dispose());

    /** A fresh group that asks for everything, as the setting of the behaviours has it. */
    function allGroup(): PopOptions & { group: string } {
      return { group: freshName('g'), mode: 'all' };
    }

    /** Pops and acks until a pop gives nothing. */
    async function drain(queue: string, options: PopOptions): Promise<Message[]> {
      const all: Message[] = [];
      for (;;) {
        const messages = await broker.client.pop(queue, options);
        if (messages.length === 0) return all;
        all.push(...messages);
        await broker.client.ack(messages);
      }
    }

    // B-QUE-1
    it('configures a queue without options, also twice', async () => {
      const queue = freshName('q');
      assert.equal((await broker.client.configure(queue)).configured, true);
      assert.equal((await broker.client.configure(queue)).configured, true);
    });

    // B-QUE-2
    it('gives every option back with the value and type it was sent with', async () => {
      const queue = freshName('q');
      const options = {
        leaseTime: 30,
        retryLimit: 3,
        retryDelay: 1000,
        priority: 5,
        maxSize: 1000,
        ttl: 36,
        delayedProcessing: 1,
        windowBuffer: 100,
        retentionEnabled: false,
        retentionSeconds: 0,
        completedRetentionSeconds: 1,
        maxWaitTimeSeconds: 10,
        deadLetterQueue: true,
        dlqAfterMaxRetries: true,
        encryptionEnabled: true,
      };
      const answered = (await broker.client.configure(queue, options)).options as unknown as Record<string, unknown>;
      for (const [name, value] of Object.entries(options)) assert.strictEqual(answered[name], value, name);
    });

    // B-QUE-4
    it('answers the delete of an existing queue with deleted', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      assert.equal((await broker.client.deleteQueue(queue)).deleted, true);
    });

    // B-PSH-1
    it('queues one item of a configured queue and gives exactly it to a waiting pop', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      const [result] = await broker.client.push([{ queue, transactionId: 'mine', payload: { n: 1 } }]);
      assert.deepEqual([result.status, result.transaction_id], ['queued', 'mine']);
      const messages = await broker.client.pop(queue, { waitMs: 5000 });
      assert.deepEqual(
        messages.map((message) => [message.transactionId, message.data]),
        [['mine', { n: 1 }]],
      );
    });

    // B-PSH-2
    it('queues an item for a queue and a partition nobody has named before', async () => {
      const queue = freshName('q');
      const [result] = await broker.client.push([{ queue, partition: 'new', payload: 'a' }]);
      assert.equal(result.status, 'queued');
      assert.deepEqual(dataOf(await broker.client.pop(queue, { partition: 'new' })), ['a']);
    });

    // B-PSH-3
    it('answers the same transactionId in the same partition as duplicate', async () => {
      const queue = freshName('q');
      for (const partition of [undefined, 'named']) {
        const item = { queue, transactionId: 't', payload: 1, ...(partition === undefined ? {} : { partition }) };
        assert.equal((await broker.client.push([item]))[0].status, 'queued');
        assert.equal((await broker.client.push([item]))[0].status, 'duplicate');
      }
    });

    // B-PSH-4
    it('names the stored message in the answer to a duplicate, also twice in one call', async () => {
      const queue = freshName('q');
      const item = { queue, transactionId: 't', payload: 1 };
      const [first] = await broker.client.push([item]);
      const both = await broker.client.push([item, item]);
      assert.deepEqual(
        both.map((result) => [result.status, result.message_id]),
        [
          ['duplicate', first.message_id],
          ['duplicate', first.message_id],
        ],
      );
    });

    // B-PSH-6
    it('takes an empty list of items as a success with an empty list', async () => {
      assert.deepEqual(await broker.client.push([]), []);
    });

    // B-PSH-7
    it('delivers null as a data key of null and an empty object as one', async () => {
      const queue = freshName('q');
      await broker.client.push([
        { queue, payload: null },
        { queue, payload: {} },
      ]);
      const messages = await broker.client.pop(queue);
      assert.ok('data' in messages[0] && messages[0].data === null);
      assert.deepEqual(messages[1].data, {});
    });

    // B-PSH-9
    it('holds messages for delayedProcessing and then gives exactly them', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue, { delayedProcessing: 2 });
      await broker.client.pushAll(queue, 'p', ['a']);
      assert.deepEqual(await broker.client.pop(queue), []);
      await passed(2500);
      assert.deepEqual(dataOf(await broker.client.pop(queue, { waitMs: 5000 })), ['a']);
    });

    // B-PSH-10
    it('gives back in clear and at once what was pushed to an encrypted queue', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue, { encryptionEnabled: true });
      const payload = { secret: 'ü🦉', list: [1, null, '"'] };
      await broker.client.push([
        { queue, payload },
        { queue, payload: null },
      ]);
      const messages = await broker.client.pop(queue);
      assert.deepEqual(dataOf(messages), [payload, null]);
      await broker.client.ack(messages, 'dlq');
      const page = await broker.client.deadLetters({ queue });
      const rows = [...page.messages].sort((a, b) => a.offset - b.offset);
      assert.deepEqual(
        rows.map((row) => row.data),
        [payload, null],
      );
    });

    // B-PSH-11
    it('never leaves a message that cannot be popped or acked because of a traceId', async () => {
      const queue = freshName('q');
      const answer = await broker.client.request('POST', '/api/v1/push', {
        json: { items: [{ queue, payload: 'a', traceId: 'not a uuid' }] },
      });
      if (answer.status === 400) return;
      assert.equal(answer.status, 201);
      const messages = await broker.client.pop(queue);
      assert.deepEqual(dataOf(messages), ['a']);
      assert.equal((await broker.client.ack(messages))[0].success, true);
    });

    // B-POP-1
    it('gives nothing, at once and without an error, for an empty or unknown queue', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      for (const name of [queue, freshName('unknown')]) {
        const { result, tookMs } = await timed(broker.client.popAnswer(name));
        assert.equal(result.status, 204);
        assert.ok(tookMs < 1000);
      }
    });

    // B-POP-2
    it('answers a waiting pop of a queue that holds messages at once, in order and at most batch', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a']);
      const { result, tookMs } = await timed(broker.client.pop(queue, { waitMs: 10_000 }));
      assert.deepEqual(dataOf(result), ['a']);
      assert.ok(tookMs < 1000);
      await broker.client.ack(result);
      await broker.client.pushAll(queue, 'p', numbered('m', 10));
      assert.deepEqual(dataOf(await broker.client.pop(queue, { batch: 4, waitMs: 10_000 })), numbered('m', 4));
    });

    // B-POP-3
    it('answers an open pop well under a second after the push, and an idle one at its timeout', async () => {
      const queue = freshName('q');
      const idle = timed(broker.client.pop(freshName('q'), { waitMs: 1500 }));
      const open = broker.client.pop(queue, { waitMs: 20_000 });
      assert.ok(await isOpenAfter(open, 2000));
      await broker.client.pushAll(queue, 'p', ['a']);
      const { result, tookMs } = await timed(open);
      assert.deepEqual(dataOf(result), ['a']);
      assert.ok(tookMs < 900, `answered ${tookMs} ms after the push`);
      const { result: nothing, tookMs: waitedMs } = await idle;
      assert.deepEqual(nothing, []);
      assert.ok(waitedMs >= 1490 && waitedMs < 3000, `ended after ${waitedMs} ms`);
    });

    // B-POP-5
    it('gives the messages of three partitions under one lease id', async () => {
      const queue = freshName('q');
      for (const partition of ['a', 'b', 'c']) await broker.client.pushAll(queue, partition, numbered(partition, 5));
      const messages = await broker.client.pop(queue, { batch: 100, partitions: 3 });
      assert.equal(messages.length, 15);
      assert.equal(new Set(messages.map((message) => message.partitionId)).size, 3);
      assert.equal(new Set(messages.map((message) => message.leaseId)).size, 1);
    });

    // B-POP-7
    it('gives only the messages of the partition that is named', async () => {
      const queue = freshName('q');
      for (const partition of ['a', 'b']) await broker.client.pushAll(queue, partition, numbered(partition, 100));
      assert.deepEqual(dataOf(await broker.client.pop(queue, { partition: 'b', batch: 100 })), numbered('b', 100));
    });

    // B-LSE-1
    it('delivers again what was not acked within its lease, also to a pop that was waiting already', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'a', ['a']);
      const leasedAt = performance.now();
      const [first] = await broker.client.pop(queue, { leaseSeconds: 1 });
      const waiting = broker.client.pop(queue, { waitMs: 10_000 }).then((messages) => ({
        messages,
        tookMs: performance.now() - leasedAt,
      }));
      const other = freshName('q');
      await broker.client.pushAll(other, 'b', ['b']);
      await broker.client.pop(other, { leaseSeconds: 1 });
      await passed(2000);
      assert.deepEqual(dataOf(await broker.client.pop(other)), ['b']);
      const { messages, tookMs } = await waiting;
      assert.deepEqual(
        messages.map((message) => [message.id, message.deliveryAttempt]),
        [[first.id, 2]],
      );
      assert.ok(tookMs >= 990 && tookMs <= 2500, `delivered again after ${tookMs} ms`);
    });

    // B-LSE-6
    it('lets a slow handler keep its lease by extending it, and renews nothing once it is acked', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a']);
      const messages = await broker.client.pop(queue, { leaseSeconds: 2 });
      for (let i = 0; i < 4; i++) {
        await passed(700);
        const askedAt = Date.now();
        const extended = await broker.client.extend(messages[0].leaseId, 2);
        assert.equal(extended.success, true);
        assert.ok(Date.parse(extended.newExpiresAt ?? '') > askedAt);
      }
      assert.equal((await broker.client.ack(messages))[0].success, true);
      const late = await broker.client.extend(messages[0].leaseId, 1);
      assert.deepEqual([late.success, late.newExpiresAt], [false, null]);
      assert.equal(typeof late.error, 'string');
      assert.notEqual(late.error, '');
    });

    // B-ORD-1
    it('delivers single pushes and large blocks in exactly the order of the pushes, each once', async () => {
      const queue = freshName('q');
      for (const name of numbered('m', 100)) await broker.client.pushAll(queue, 'p', [name]);
      const oneByOne: unknown[] = [];
      const single = allGroup();
      for (let i = 0; i < 100; i++) {
        const messages = await broker.client.pop(queue, { ...single, batch: 1 });
        oneByOne.push(...dataOf(messages));
        await broker.client.ack(messages);
      }
      assert.deepEqual(oneByOne, numbered('m', 100));
      assert.deepEqual(dataOf(await broker.client.pop(queue, { ...allGroup(), batch: 100 })), numbered('m', 100));

      const large = freshName('q');
      const all = numbered('n', 10_000);
      for (let i = 0; i < 10_000; i += 1000) await broker.client.pushAll(large, 'p', all.slice(i, i + 1000));
      assert.deepEqual(dataOf(await drain(large, { ...allGroup(), batch: 1000 })), all);
    });

    // B-ORD-2
    it('starts the handlers of ten consumers strictly in order, never two at a time on one partition', async () => {
      const queue = freshName('q');
      const all = numbered('m', 100);
      await broker.client.pushAll(queue, 'p', all);
      const group = allGroup();
      const started: unknown[] = [];
      let holders = 0;
      const consume = async (): Promise<void> => {
        while (started.length < 100) {
          const messages = await broker.client.pop(queue, { ...group, batch: 1, waitMs: 300 });
          if (messages.length === 0) continue;
          holders++;
          assert.equal(holders, 1);
          started.push(messages[0].data);
          await passed(1);
          holders--;
          await broker.client.ack(messages);
        }
      };
      await Promise.all(Array.from({ length: 10 }, consume));
      assert.deepEqual(started, all);
    });

    // B-ACK-1
    it('answers the ack of a delivered message with an array of one success', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a']);
      const messages = await broker.client.pop(queue);
      const answer = await broker.client.request<AckResult[]>('POST', '/api/v1/ack', { json: ackOf(messages[0]) });
      assert.equal(answer.status, 200);
      assert.deepEqual(
        answer.body.map((row) => row.success),
        [true],
      );
    });

    // B-ACK-2
    it('settles everything before an acked message in its partition', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', numbered('m', 5));
      const messages = await broker.client.pop(queue, { leaseSeconds: 2 });
      assert.equal((await broker.client.ackOne(messages[4])).success, true);
      await passed(2300);
      assert.deepEqual(await broker.client.pop(queue), []);
    });

    // B-ACK-4
    it('takes an ack without a lease id after the lease and refuses one with the old id', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a', 'b']);
      const messages = await broker.client.pop(queue, { leaseSeconds: 1 });
      await passed(1300);
      assert.equal((await broker.client.ack(messages))[0].success, false);
      assert.equal((await broker.client.ackItems(null, [ackWithoutLease(messages[0])]))[0].success, true);
      assert.deepEqual(dataOf(await broker.client.pop(queue)), ['b']);
    });

    // B-ACK-5
    it('brings back a failed message and all behind it, at once and in order', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', numbered('m', 5));
      const messages = await broker.client.pop(queue);
      await broker.client.ackItems(
        null,
        messages.map((message, i) => ackOf(message, i === 1 ? 'failed' : 'completed')),
      );
      assert.deepEqual(dataOf(await broker.client.pop(queue)), ['m1', 'm2', 'm3', 'm4']);
    });

    // B-ACK-7
    it('tells late acks below the cursor apart from the ack that is still due', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['1', '2', '3']);
      const messages = await broker.client.pop(queue);
      await broker.client.ack(messages.slice(0, 2));
      const failed = await broker.client.ackOne(messages[0], 'failed');
      assert.equal(failed.success, false);
      assert.match(failed.error ?? '', /committed/);
      const completed = await broker.client.ackOne(messages[0]);
      assert.deepEqual([completed.success, completed.noop], [true, true]);
      const last = await broker.client.ackOne(messages[2]);
      assert.deepEqual([last.success, last.noop], [true, false]);
    });

    // B-ACK-8
    it('refuses acks of what was never pushed and leaves the lease as it is', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a', 'b']);
      const messages = await broker.client.pop(queue);
      for (const status of ['completed', 'failed']) {
        const [result] = await broker.client.ackItems(null, [
          { ...ackOf(messages[0], status), transactionId: 'never pushed' },
        ]);
        assert.equal(result.success, false);
        assert.match(result.error ?? '', /unresolv/);
      }
      assert.ok((await broker.client.ack(messages)).every((result) => result.success));
    });

    // B-RTY-1
    it('delivers a batch three times when it fails twice and then succeeds', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue, { retryLimit: 3 });
      await broker.client.pushAll(queue, 'p', numbered('m', 100));
      const options = allGroup();
      for (const status of ['failed', 'failed', 'completed']) {
        const messages = await broker.client.pop(queue, options);
        assert.deepEqual(dataOf(messages), numbered('m', 100));
        await broker.client.ack(messages, status);
      }
      assert.deepEqual(await broker.client.pop(queue, options), []);
      assert.equal((await broker.client.deadLetters({ queue })).messages.length, 0);
    });

    // B-RTY-1
    it('handles four of five messages once and the poisonous one twice with retryLimit 1', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue, { retryLimit: 1 });
      await broker.client.pushAll(queue, 'p', ['m0', 'm1', 'poison', 'm3', 'm4']);
      const options = allGroup();
      const handled: unknown[] = [];
      for (;;) {
        const messages = await broker.client.pop(queue, { ...options, batch: 1 });
        if (messages.length === 0) break;
        handled.push(messages[0].data);
        await broker.client.ackOne(messages[0], messages[0].data === 'poison' ? 'failed' : 'completed', 'poisoned');
      }
      assert.deepEqual(handled, ['m0', 'm1', 'poison', 'poison', 'm3', 'm4']);
      const page = await broker.client.deadLetters({ queue });
      assert.deepEqual(
        page.messages.map((row) => row.data),
        ['poison'],
      );
    });

    // B-RTY-2
    // B-RTY-3
    // B-DLQ-1
    // B-DLQ-3
    it('retries for free on retry, and files exactly one dead letter at the fourth failed, unconfigured', async () => {
      const queue = freshName('q');
      await broker.client.push([{ queue, partition: 'p', transactionId: 't', payload: { order: 7 } }]);
      const options = allGroup();
      for (let i = 0; i < 6; i++) {
        const messages = await broker.client.pop(queue, options);
        assert.equal(messages.length, 1);
        await broker.client.ackOne(messages[0], 'retry');
      }
      assert.equal((await broker.client.deadLetters({ queue })).total, 0);
      for (let i = 0; i < 4; i++) {
        const messages = await broker.client.pop(queue, options);
        assert.equal(messages.length, 1, `delivery ${i + 1} of those that fail`);
        assert.equal((await broker.client.ackOne(messages[0], 'failed', 'it broke')).dlq, i === 3);
      }
      assert.deepEqual(await broker.client.pop(queue, options), []);
      const page = await broker.client.deadLetters({ queue });
      assert.equal(page.total, 1);
      assert.equal(page.messages.length, 1);
      assert.deepEqual(page.messages[0].data, { order: 7 });
      assert.match(page.messages[0].errorMessage, /it broke/);
    });

    // B-DLQ-2
    it('files a message at once on dlq and does not deliver it to that group again', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue, { retryLimit: 10 });
      await broker.client.pushAll(queue, 'p', ['a', 'b']);
      const options = allGroup();
      const [message] = await broker.client.pop(queue, { ...options, batch: 1 });
      assert.equal((await broker.client.ackOne(message, 'dlq', 'poison')).dlq, true);
      assert.deepEqual(dataOf(await broker.client.pop(queue, options)), ['b']);
      assert.deepEqual(dataOf(await broker.client.pop(queue, allGroup())), ['a', 'b']);
    });

    // B-DLQ-4
    it('lists no dead letters for a fresh queue, and accepts every filter', async () => {
      const queue = freshName('q');
      await broker.client.configure(queue);
      for (const filter of [
        {},
        { consumerGroup: 'g' },
        { limit: '5', offset: '0' },
        { from: '2026-01-01T00:00:00Z', to: '2026-12-31T23:59:59.5+02:00' },
      ]) {
        const page = await broker.client.deadLetters({ queue, ...filter });
        assert.deepEqual([page.total, page.messages], [0, []]);
      }
    });

    // B-GRP-1
    it('gives each group everything, and takes nothing from others or from queue mode', async () => {
      const queue = freshName('q');
      const all = numbered('m', 100);
      await broker.client.pushAll(queue, 'p', all);
      for (const options of [allGroup(), allGroup()]) {
        assert.deepEqual(dataOf(await drain(queue, options)), all);
      }
      assert.deepEqual(dataOf(await drain(queue, {})), all);
    });

    // B-GRP-2
    it('gives a group of mode all or from_beginning the backlog, and keeps the mode of the first contact', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', numbered('m', 5));
      for (const mode of ['all', 'from_beginning']) {
        const group = freshName('g');
        assert.equal((await broker.client.pop(queue, { group, mode, batch: 2, autoAck: true })).length, 2);
        assert.equal((await broker.client.pop(queue, { group, mode: 'new', batch: 2, autoAck: true })).length, 2);
        assert.equal((await broker.client.pop(queue, { group, autoAck: true })).length, 1);
      }
    });

    // B-GRP-3
    it('gives a new group only what comes after it, also when later pops name no mode', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', numbered('old', 5));
      const everything = allGroup();
      const byMode = freshName('g');
      const byTime = freshName('g');
      assert.equal((await drain(queue, everything)).length, 5);
      assert.deepEqual(await broker.client.pop(queue, { group: byMode, mode: 'new' }), []);
      assert.deepEqual(await broker.client.pop(queue, { group: byTime, from: 'now' }), []);
      await broker.client.pushAll(queue, 'p', numbered('fresh', 3));
      assert.deepEqual(dataOf(await drain(queue, { group: byMode })), numbered('fresh', 3));
      assert.deepEqual(dataOf(await drain(queue, { group: byTime })), numbered('fresh', 3));
      assert.deepEqual(dataOf(await drain(queue, everything)), numbered('fresh', 3));
    });

    // B-GRP-4
    it('gives a new group the very first message of a partition born later, and not the backlog', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'old', numbered('old', 3));
      const group = freshName('g');
      assert.deepEqual(await broker.client.pop(queue, { group, mode: 'new' }), []);
      await broker.client.pushAll(queue, 'born later', ['first']);
      assert.deepEqual(dataOf(await drain(queue, { group })), ['first']);
    });

    // B-GRP-4
    it('starts a new group on thousands of partitions with a backlog without giving any of it', async () => {
      const queue = freshName('q');
      const count = 5000;
      const group = freshName('g');
      const items = numbered('p', count).map((partition) => ({ queue, partition, payload: 'old' }));
      await broker.client.push(items);
      const first = await timed(broker.client.pop(queue, { group, mode: 'new', partitions: 64, batch: 1000 }));
      assert.deepEqual(first.result, []);
      assert.ok(first.tookMs < 10_000, `the first pop took ${first.tookMs} ms`);
      await broker.client.push(items.map((item) => ({ ...item, payload: 'fresh' })));
      const got = await drain(queue, { group, partitions: 64, batch: 1000 });
      assert.equal(got.length, count);
      assert.equal(new Set(got.map((message) => message.partition)).size, count);
      assert.ok(got.every((message) => message.data === 'fresh'));
    });

    // B-GRP-5
    it('gives the backlog in queue mode although the pop says new', async () => {
      const queue = freshName('q');
      await broker.client.pushAll(queue, 'p', ['a', 'b']);
      assert.deepEqual(dataOf(await broker.client.pop(queue, { mode: 'new' })), ['a', 'b']);
    });

    // B-DSC-1
    // B-DSC-2
    it('labels a queue from its dotted name and gives its messages to a group that pops by namespace', async () => {
      const namespace = freshName('a');
      const queue = `${namespace}.b.c`;
      await broker.client.pushAll(queue, 'p', ['x', 'y']);
      const row = await broker.client.queueRow(queue);
      assert.deepEqual([row?.namespace, row?.task], [namespace, 'b']);
      assert.deepEqual(dataOf(await broker.client.discover({ namespace }, allGroup())), ['x', 'y']);
    });

    // B-AUT-1
    it('delivers producerSub as null with auth off, whatever the item carried', async () => {
      const queue = freshName('q');
      await broker.client.request('POST', '/api/v1/push', {
        json: { items: [{ queue, payload: 1, producerSub: 'somebody' }] },
      });
      const [message] = await broker.client.pop(queue);
      assert.strictEqual(message.producerSub, null);
    });
  });
}

describe('behaviours at size', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  /** Drains `count` messages of a group with ten consumers; answers them in the order of handling, per partition. */
  async function drainByTen(
    queue: string,
    count: number,
    options: PopOptions,
  ): Promise<{ byPartition: Map<string, unknown[]>; longestGapMs: number }> {
    const byPartition = new Map<string, unknown[]>();
    let handled = 0;
    let longestGapMs = 0;
    let lastMs = performance.now();
    const consume = async (): Promise<void> => {
      while (handled < count) {
        const messages = await broker.client.pop(queue, { ...options, waitMs: 500 });
        for (const message of messages) {
          const list = byPartition.get(message.partition) ?? [];
          byPartition.set(message.partition, list);
          list.push(message.data);
        }
        if (messages.length === 0) continue;
        longestGapMs = Math.max(longestGapMs, performance.now() - lastMs);
        lastMs = performance.now();
        handled += messages.length;
        await broker.client.ack(messages);
      }
    };
    await Promise.all(Array.from({ length: 10 }, consume));
    assert.equal(handled, count);
    return { byPartition, longestGapMs };
  }

  // B-PRF-1
  it('drains thousands of partitions one message at a time without a long pause', async () => {
    const queue = freshName('q');
    const count = sized(1500, 5000);
    await broker.client.push(numbered('p', count).map((partition) => ({ queue, partition, payload: partition })));
    const { byPartition, longestGapMs } = await drainByTen(queue, count, { group: 'g', mode: 'all', batch: 1 });
    assert.equal(byPartition.size, count);
    assert.ok(longestGapMs < 2500, `nothing came for ${longestGapMs} ms`);
  });

  // B-PRF-2
  it('drains many messages by ten consumers, each once and in order, from one partition and from ten', async () => {
    const count = sized(10_000, 100_000);
    for (const partitions of [1, 10]) {
      const queue = freshName('q');
      const expected = new Map<string, unknown[]>();
      for (let i = 0; i < count; i += 100) {
        const partition = `p${(i / 100) % partitions}`;
        const payloads = numbered(`${i}:`, 100);
        expected.set(partition, [...(expected.get(partition) ?? []), ...payloads]);
        await broker.client.pushAll(queue, partition, payloads);
      }
      const { byPartition } = await drainByTen(queue, count, { group: 'g', mode: 'all', batch: 100 });
      assert.deepEqual(byPartition, expected);
    }
  });
});
