/** Contract section 3 and checklist 1 to 6: pushes. Section 11: dedup, as far as one process can show it. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { freshName, type PushResult } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { passed } from './clock.ts';

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('push', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  /** The answer to a push body that may be wrong in any way. */
  const pushJson = (json: unknown) => broker.client.request('POST', '/api/v1/push', { json });

  // Checklist 1; contract 3.2
  it('answers 201 with an array in input order over interleaved partitions, offsets from 0', async () => {
    const queue = freshName('q');
    const answer = await broker.client.request<PushResult[]>('POST', '/api/v1/push', {
      json: {
        items: ['a', 'b', 'a', 'c', 'b', 'a'].map((partition, i) => ({
          queue,
          partition,
          transactionId: `t${i}`,
          payload: i,
        })),
      },
    });
    assert.equal(answer.status, 201);
    assert.deepEqual(
      answer.body.map((row) => [row.index, row.transaction_id, row.queueName, row.status, row.offset]),
      [0, 0, 1, 0, 1, 2].map((offset, i) => [i, `t${i}`, queue, 'queued', offset]),
    );
    assert.equal(new Set(answer.body.map((row) => row.message_id)).size, 6);
    for (const row of answer.body) {
      assert.match(row.message_id, uuid7);
      assert.deepEqual(Object.keys(row).sort(), [
        'index',
        'message_id',
        'offset',
        'queueName',
        'status',
        'transaction_id',
      ]);
    }
    const popped = await broker.client.pop(queue, { partition: 'a' });
    assert.deepEqual(
      popped.map((message) => [message.offset, message.data, message.id]),
      [0, 2, 5].map((i, offset) => [offset, i, answer.body[i].message_id]),
    );
  });

  // Contract 3.1: transactionId
  it('uses the message id as transactionId when the item has none', async () => {
    const queue = freshName('q');
    const results = await broker.client.push([
      { queue, payload: 1 },
      { queue, payload: 1, transactionId: null },
    ]);
    for (const result of results) assert.equal(result.transaction_id, result.message_id);
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => [message.id, message.transactionId]),
      results.map((result) => [result.message_id, result.message_id]),
    );
  });

  it('delivers headers beside the payload, also after a crash, and no such field without them', async () => {
    const crashing = await BrokerProcess.start();
    const headers = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'x-ü': '"' };
    const items = [
      { queue: 'q', payload: 1, headers, delayMs: 1 },
      { queue: 'q', payload: 2 },
    ];
    await crashing.client.request('POST', '/api/v1/push', { json: { items } });
    await crashing.killAndRestart();
    const messages = await crashing.client.pop('q', { waitMs: 5000 });
    assert.deepEqual(
      messages.map((message) => (message as { headers?: unknown }).headers),
      [headers, undefined],
    );
    await crashing.dispose();
  });

  // Contract 3.1: partition
  it('takes a missing, null or empty partition as Default', async () => {
    const queue = freshName('q');
    const results = await broker.client.push([
      { queue, payload: 0 },
      { queue, partition: null, payload: 1 },
      { queue, partition: '', payload: 2 },
      { queue, partition: 'Default', payload: 3 },
    ]);
    assert.deepEqual(
      results.map((result) => result.offset),
      [0, 1, 2, 3],
    );
    const messages = await broker.client.pop(queue, { partition: 'Default' });
    assert.deepEqual(
      messages.map((message) => message.partition),
      ['Default', 'Default', 'Default', 'Default'],
    );
  });

  // Checklist 2; contract 3.3.2
  it('collapses repeats of a transactionId within one call, also with a window of 0', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { dedupWindowSeconds: 0 });
    const item = { queue, partition: 'p', transactionId: 't', payload: 1 };
    const results = await broker.client.push([item, { ...item, payload: 2 }, { ...item, partition: 'other' }]);
    assert.deepEqual(
      results.map((result) => [result.status, result.offset]),
      [
        ['queued', 0],
        ['duplicate', 0],
        ['queued', 0],
      ],
    );
    assert.equal(results[1].message_id, results[0].message_id);
    assert.notEqual(results[2].message_id, results[0].message_id);

    // With the window at 0 the next call is not held against the stored record.
    const [again] = await broker.client.push([item]);
    assert.deepEqual([again.status, again.offset], ['queued', 1]);
  });

  // Checklist 3; contract 3.2, 11
  it('answers a stored transactionId as duplicate with the original id and offset, per partition', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['first']);
    const [original] = await broker.client.push([{ queue, partition: 'p', transactionId: 't', payload: 1 }]);
    const results = await broker.client.push([
      { queue, partition: 'p', transactionId: 't', payload: 2 },
      { queue, partition: 'p', transactionId: 'new', payload: 3 },
      { queue, partition: 'other', transactionId: 't', payload: 4 },
      { queue: `${queue}-other`, partition: 'p', transactionId: 't', payload: 5 },
    ]);
    assert.deepEqual(
      results.map((result) => [result.status, result.offset]),
      [
        ['duplicate', 1],
        ['queued', 2],
        ['queued', 0],
        ['queued', 0],
      ],
    );
    assert.equal(results[0].message_id, original.message_id);
    const messages = await broker.client.pop(queue, { partition: 'p' });
    assert.deepEqual(
      messages.map((message) => message.data),
      ['first', 1, 3],
    );
  });

  // Contract 3.3.3
  it('writes nothing for a group of which every item is a duplicate', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a', 'b']);
    const repeated = await broker.client.pushAll(queue, 'p', ['a', 'b', 'a']);
    assert.deepEqual(
      repeated.map((result) => [result.status, result.offset]),
      [
        ['duplicate', 0],
        ['duplicate', 1],
        ['duplicate', 0],
      ],
    );
    const [next] = await broker.client.pushAll(queue, 'p', ['c']);
    assert.equal(next.offset, 2);
    assert.equal((await broker.client.queueDetail(queue)).partitions[0].stats.total, 3);
  });

  // Contract 11: the window, from the accepted original
  it('remembers a transactionId for dedupWindowSeconds and not longer', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { dedupWindowSeconds: 2 });
    const item = { queue, partition: 'p', transactionId: 't', payload: 1 };
    const statuses = [(await broker.client.push([item]))[0].status];
    await passed(700);
    statuses.push((await broker.client.push([item]))[0].status);
    await passed(1600);
    statuses.push((await broker.client.push([item]))[0].status);
    assert.deepEqual(statuses, ['queued', 'duplicate', 'queued']);
  });

  // Contract 11: independent of consumption
  it('remembers a transactionId after its message was acked or dead-lettered', async () => {
    const queue = freshName('q');
    const [first] = await broker.client.pushAll(queue, 'p', ['a', 'b']);
    const messages = await broker.client.pop(queue);
    await broker.client.ackItems(null, [
      { transactionId: 'a', partitionId: messages[0].partitionId, leaseId: messages[0].leaseId },
      { transactionId: 'b', partitionId: messages[0].partitionId, leaseId: messages[0].leaseId, status: 'dlq' },
    ]);
    const repeated = await broker.client.pushAll(queue, 'p', ['a', 'b']);
    assert.deepEqual(
      repeated.map((result) => result.status),
      ['duplicate', 'duplicate'],
    );
    assert.equal(repeated[0].message_id, first.message_id);
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Checklist 4
  it('gives back every JSON value as it was pushed', async () => {
    const queue = freshName('q');
    const payloads = [
      null,
      0,
      -1.5,
      '',
      'text with "quotes", \\ and \n',
      [],
      {},
      true,
      false,
      { nested: [{ ключ: 'значение', emoji: '🦉👩‍👩‍👧', 'a"b': [null, [[]]] }] },
      '\u0000\u001f\u2028',
      { a: { a: { a: {} } } },
    ];
    await broker.client.push(payloads.map((payload) => ({ queue, payload })));
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => message.data),
      payloads,
    );
    assert.ok(messages.every((message) => 'data' in message && !('payload' in message)));
  });

  // Checklist 5; contract 3.2
  it('answers an empty list of items with 201 and an empty array', async () => {
    const answer = await pushJson({ items: [] });
    assert.equal(answer.status, 201);
    assert.deepEqual(answer.body, []);
  });

  // Checklist 5; contract 3.4
  it('refuses bodies that are no push with bad_body and stores nothing of them', async () => {
    const queue = freshName('q');
    const good = { queue, payload: 1 };
    const bodies: unknown[] = [
      { items: [good, { queue }] },
      { items: [good, { payload: 1 }] },
      { items: [good, { queue: '', payload: 1 }] },
      { items: [good, { queue: 7, payload: 1 }] },
      { items: [good, { queue, data: 1 }] },
      { items: [good, { queue, partition: 7, payload: 1 }] },
      { items: [good, { queue, transactionId: 7, payload: 1 }] },
      { items: [good, 7] },
      { items: [good, null] },
      { items: [good, [good]] },
      { items: good },
      { items: null },
      {},
      [good],
      null,
      7,
    ];
    for (const body of bodies) {
      const answer = await pushJson(body);
      assert.equal(answer.status, 400, JSON.stringify(body));
      assert.equal(answer.body.code, 'bad_body');
      assert.match(answer.body.error, /^bad push body:/);
    }
    for (const text of ['', ' ', '{', '{"items":[', `{"items":[${JSON.stringify(good)}]`, '{"items":[],}', 'nothing']) {
      const answer = await broker.client.request('POST', '/api/v1/push', { bytes: text });
      assert.equal(answer.status, 400, text);
      assert.equal(answer.body.code, 'bad_body');
    }
    assert.equal(await broker.client.queueExists(queue), false);
  });

  // Contract 2.2, 3.4
  it('accepts a transactionId of 65,535 bytes and refuses a longer one, naming the item', async () => {
    const queue = freshName('q');
    const longest = `${'é'.repeat(32_767)}x`;
    const [stored] = await broker.client.push([{ queue, transactionId: longest, payload: 1 }]);
    assert.equal(stored.transaction_id, longest);
    const refused = await pushJson({
      items: [
        { queue, payload: 1 },
        { queue, payload: 1 },
        { queue, transactionId: `${longest}x`, payload: 1 },
      ],
    });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.code, 'bad_body');
    assert.match(refused.body.error, /\b2\b/);
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => message.transactionId),
      [longest],
    );
    assert.equal((await broker.client.ack(messages))[0].success, true);
  });

  // Contract 3.1: traceId, producerSub and unknown fields
  it('ignores traceId, producerSub and fields it does not know', async () => {
    const queue = freshName('q');
    const answer = await pushJson({
      items: [
        {
          queue,
          payload: 1,
          traceId: '0b7c6a52-6b1c-4b0e-9d4e-0f1a2b3c4d5e',
          producerSub: 'me',
          priority: 9,
          more: {},
        },
      ],
      more: [1, 2],
    });
    assert.equal(answer.status, 201);
    const [message] = await broker.client.pop(queue);
    assert.equal(message.traceId, null);
    assert.equal(message.producerSub, null);
  });

  // Contract 1.2, 3.3.1: one append, one stamp; stamps of a partition rise
  it('gives the records of one push and partition one stamp, and later pushes a greater one', async () => {
    const queue = freshName('q');
    for (let i = 0; i < 20; i++) await broker.client.pushAll(queue, 'p', [`${i}a`, `${i}b`, `${i}c`]);
    const stamps = (await broker.client.pop(queue)).map((message) => message.createdAt);
    assert.equal(stamps.length, 60);
    for (let i = 0; i < 60; i += 3) {
      assert.equal(stamps[i], stamps[i + 1]);
      assert.equal(stamps[i], stamps[i + 2]);
      if (i > 0) assert.ok(stamps[i] > stamps[i - 1], `${stamps[i]} is not after ${stamps[i - 1]}`);
    }
  });

  // Message ids sort as strings in offset order within a partition (B-STR-5 names it)
  it('mints message ids that sort in offset order within a partition', async () => {
    const queue = freshName('q');
    for (let i = 0; i < 20; i++) await broker.client.pushAll(queue, 'p', [`${i}a`, `${i}b`, `${i}c`]);
    const ids = (await broker.client.pop(queue)).map((message) => message.id);
    assert.deepEqual(ids, [...ids].sort());
  });

  // Checklist 6; contract 3.3
  it('creates an unknown queue with a lease time of 60 and labels from its dotted name', async () => {
    const stem = freshName('ns');
    for (const [queue, namespace, task] of [
      [`${stem}.invoices`, stem, 'invoices'],
      [`${stem}-plain`, `${stem}-plain`, ''],
      [`${stem}.b.c`, stem, 'b'],
    ]) {
      await broker.client.push([{ queue, payload: 1 }]);
      const detail = await broker.client.queueDetail(queue);
      assert.deepEqual([detail.namespace, detail.task], [namespace, task]);
      assert.equal(detail.options.leaseTime, 60);
      assert.equal(detail.options.retryLimit, 3);
      assert.equal(detail.options.dedupWindowSeconds, 3600);
    }
    const found = await broker.client.discover({ namespace: stem }, { partitions: 10 });
    assert.equal(found.length, 2);
  });

  // Contract 1.2: visible at once
  it('shows a message to the first pop after its answer', async () => {
    const queue = freshName('q');
    for (let i = 0; i < 50; i++) {
      await broker.client.push([{ queue, payload: i }]);
      const [message] = await broker.client.pop(queue, { autoAck: true });
      assert.equal(message.data, i);
    }
  });

  // Contract 3.3.1: interleaved with other clients, a group stays one run
  it('keeps the records of one push together while others push to the same partition', async () => {
    const queue = freshName('q');
    const writers = Array.from({ length: 16 }, (_, writer) => writer);
    await Promise.all(
      writers.map((writer) =>
        broker.client.pushAll(
          queue,
          'p',
          Array.from({ length: 25 }, (_, i) => `${writer}:${i}`),
        ),
      ),
    );
    const order = (await broker.client.pop<string>(queue, { batch: 1000 })).map((message) => message.data);
    assert.equal(order.length, 400);
    for (let run = 0; run < 400; run += 25) {
      const writer = order[run].split(':')[0];
      assert.deepEqual(
        order.slice(run, run + 25),
        Array.from({ length: 25 }, (_, i) => `${writer}:${i}`),
      );
    }
  });
});
