/** Contract sections 9.1 to 9.3 and 12.1, checklist 35, 36 and the listing of 38: queues, their options, dead letters. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ackOf, type ErrorBody, freshName, type LanesRow, type Message, type QueueDetail } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Contract 9.1 and 9.2: what a queue configured without options has. */
const defaultOptions = {
  priority: 0,
  leaseTime: 300,
  retryLimit: 3,
  retryDelay: 1000,
  maxSize: 0,
  maxQueueSize: 0,
  ttl: 3600,
  deadLetterQueue: true,
  dlqAfterMaxRetries: true,
  delayedProcessing: 0,
  windowBuffer: 0,
  retentionSeconds: 0,
  completedRetentionSeconds: 0,
  retentionEnabled: false,
  encryptionEnabled: false,
  maxWaitTimeSeconds: 0,
  minPopWaitTime: 0,
  dedupWindowSeconds: 3600,
  retentionSinkHold: '',
  retentionSinkHoldMaxSeconds: 604_800,
  maxLeaseSeconds: 0,
  maxDeliveries: 0,
  maxLeasedPartitions: 0,
  maxPerSecond: 0,
};

describe('queues', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  const configure = (json: unknown) => broker.client.request('POST', '/api/v1/configure', { json });

  // Contract 9.1
  it('answers a configure with every option and no more', async () => {
    const queue = freshName('q');
    const body = await broker.client.configure(queue);
    assert.match(body.queueId, uuid);
    assert.deepEqual(body, {
      configured: true,
      queueId: body.queueId,
      partitionId: null,
      queue,
      namespace: '',
      task: '',
      storage: 'segments',
      options: defaultOptions,
    });
    assert.equal((await broker.client.queueDetail(queue)).id, body.queueId);
  });

  // Checklist 35; contract 9.1
  it('keeps omitted options on merge and resets them on replace', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { leaseTime: 30, retryLimit: 5, retentionEnabled: true });
    const merged = await broker.client.configure(queue, { retryLimit: 7 });
    assert.deepEqual(merged.options, { ...defaultOptions, leaseTime: 30, retryLimit: 7, retentionEnabled: true });
    const replaced = await broker.client.configure(queue, { windowBuffer: 2 }, { mode: 'replace' });
    assert.deepEqual(replaced.options, { ...defaultOptions, windowBuffer: 2 });
    assert.deepEqual((await broker.client.configure(queue, {}, { mode: 'merge' })).options, replaced.options);
  });

  // Checklist 35; contract 9.1
  it('resets an option of null to its default', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { leaseTime: 30, deadLetterQueue: false, retryLimit: 9 });
    const { options } = await broker.client.configure(queue, { leaseTime: null, deadLetterQueue: null });
    assert.deepEqual(options, { ...defaultOptions, retryLimit: 9 });
  });

  // Checklist 35; contract 9.1
  it('refuses unknown modes and options of the wrong type, and changes nothing then', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { leaseTime: 30 });
    const refusals: [Record<string, unknown>, RegExp][] = [
      [{ mode: 'patch' }, /mode must be "merge" or "replace", got/],
      [{ options: { leaseTime: '60' } }, /leaseTime must be an integer/],
      [{ options: { leaseTime: 1.5 } }, /leaseTime must be an integer/],
      [{ options: { retryLimit: true } }, /retryLimit must be an integer/],
      [{ options: { deadLetterQueue: 1 } }, /deadLetterQueue must be a boolean/],
      [{ options: { retentionEnabled: 'true' } }, /retentionEnabled must be a boolean/],
      [{ options: { retryLimit: -1 } }, /retryLimit/],
      [{ options: { retentionSeconds: -1 } }, /retentionSeconds/],
      [{ options: { dedupWindowSeconds: -1 } }, /dedupWindowSeconds/],
      [{ options: { retentionSinkHold: 'a b' } }, /retentionSinkHold/],
      [{ options: { leaseTime: 77, retryLimit: 'x' } }, /retryLimit must be an integer/],
    ];
    for (const [rest, text] of refusals) {
      const answer = await configure({ queue, ...rest });
      assert.equal(answer.status, 400, JSON.stringify(rest));
      assert.equal(answer.body.code, 'bad_request');
      assert.match(answer.body.error, text);
    }
    assert.equal((await broker.client.queueDetail(queue)).options.leaseTime, 30);
    const unknown = freshName('q');
    assert.equal((await configure({ queue: unknown, options: { leaseTime: 'x' } })).status, 400);
    assert.equal(await broker.client.queueExists(unknown), false, 'a refused configure creates no queue');
  });

  // Contract 9.1: queue required, body JSON
  it('refuses a configure without a queue name or without JSON', async () => {
    for (const json of [{}, { queue: '' }, { queue: null }, { queue: 7 }, [], null]) {
      const answer = await configure(json);
      assert.equal(answer.status, 400, JSON.stringify(json));
      assert.equal(answer.body.code, 'bad_request');
    }
    for (const bytes of ['', '{', 'x']) {
      assert.equal((await broker.client.request('POST', '/api/v1/configure', { bytes })).status, 400);
    }
  });

  // Contract 9.1: options from the top level when there is no options object; unknown keys ignored
  it('reads options from the top level when there is no options object, and ignores keys it does not know', async () => {
    const queue = freshName('q');
    const answer = await broker.client.request<{ options: unknown }>('POST', '/api/v1/configure', {
      json: { queue, leaseTime: 11, leasetime: 12, somethingElse: { a: 1 } },
    });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body.options, { ...defaultOptions, leaseTime: 11 });
    assert.deepEqual((await broker.client.configure(queue, { leasetime: 5, nonsense: 'x' })).options, {
      ...defaultOptions,
      leaseTime: 11,
    });
  });

  // Contract 9.1: labels
  it('sets labels when they are sent and leaves them when null or empty', async () => {
    const queue = freshName('dotted.name');
    const created = await broker.client.configure(queue, {}, { namespace: null, task: '' });
    assert.deepEqual([created.namespace, created.task], ['', '']);
    const set = await broker.client.configure(queue, {}, { namespace: 'shop', task: 'orders' });
    assert.deepEqual([set.namespace, set.task], ['shop', 'orders']);
    const kept = await broker.client.configure(queue, {}, { namespace: '', task: null });
    assert.deepEqual([kept.namespace, kept.task], ['shop', 'orders']);
    const partly = await broker.client.configure(queue, {}, { task: 'other', mode: 'replace' });
    assert.deepEqual([partly.namespace, partly.task], ['shop', 'other']);
  });

  // Contract 9.2: maxQueueSize is the same number, minPopWaitTime is clamped
  it('takes maxQueueSize as maxSize and clamps minPopWaitTime to a minute', async () => {
    const queue = freshName('q');
    const { options } = await broker.client.configure(queue, { maxQueueSize: 500, minPopWaitTime: 100_000 });
    assert.deepEqual([options.maxSize, options.maxQueueSize, options.minPopWaitTime], [500, 500, 60_000]);
    const again = await broker.client.configure(queue, { maxSize: 600, minPopWaitTime: -1 });
    assert.deepEqual([again.options.maxSize, again.options.maxQueueSize, again.options.minPopWaitTime], [600, 600, 0]);
  });

  // Contract 3.3, 9.2: the options of a queue made by a push
  it('gives a queue made by a push the defaults but a lease time of 60, and configure keeps that on merge', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const implicit = { ...defaultOptions, leaseTime: 60, retentionSinkHoldMaxSeconds: 0 };
    assert.deepEqual((await broker.client.queueDetail(queue)).options, implicit);
    assert.deepEqual((await broker.client.configure(queue, { retryLimit: 1 })).options, { ...implicit, retryLimit: 1 });
  });

  // Contract 9.3: listing
  it('lists queues newest first with their figures', async () => {
    const older = freshName('q');
    const newer = freshName('q');
    await broker.client.pushAll(older, 'p', ['a', 'b', 'c']);
    await broker.client.pushAll(newer, 'p', ['a']);
    const [leased] = await broker.client.pop(older, { batch: 1 });
    const answer = await broker.client.request<Record<string, unknown>>('GET', '/api/v1/resources/queues');
    for (const key of ['kvRows', 'kvBytes', 'timerRows', 'timerBytes']) assert.equal(typeof answer.body[key], 'number');
    const rows = (await broker.client.queues()).map((row) => row.name);
    assert.ok(rows.indexOf(newer) < rows.indexOf(older), 'newest first');
    const row = await broker.client.queueRow(older);
    assert.ok(row !== undefined);
    assert.match(row.id, uuid);
    assert.deepEqual([row.name, row.queue, row.namespace, row.task, row.partitions], [older, older, older, '', 1]);
    assert.deepEqual(row.messages, { total: 3, pending: 2, processing: 1, completed: 0, deadLetter: 0 });
    assert.equal(row.storage, 'segments');
    assert.equal(typeof row.retainedBytes, 'number');
    assert.deepEqual(Object.keys(row.segments).sort(), ['messages', 'segments']);
    assert.deepEqual(row.options.leaseTime, 60);

    await broker.client.ackOne(leased);
    await broker.client.ack(await broker.client.pop(older, { batch: 1 }), 'dlq');
    const after = await broker.client.queueRow(older);
    assert.equal(after?.messages.deadLetter, 1);
    assert.equal(after?.messages.pending, 1);
    assert.equal(after?.messages.processing, 0);
  });

  // Contract 9.3: the cheap form
  it('lists queues in the cheap form', async () => {
    const queue = freshName('q');
    await broker.client.push(['a', 'b'].map((partition) => ({ queue, partition, payload: 1 })));
    const answer = await broker.client.request<{ queues: LanesRow[]; stats: string }>(
      'GET',
      '/api/v1/resources/queues?stats=lanes',
    );
    assert.equal(answer.body.stats, 'lanes');
    const row = answer.body.queues.find((candidate) => candidate.name === queue);
    assert.deepEqual(Object.keys(row ?? {}).sort(), ['createdAt', 'id', 'name', 'partitions', 'queue']);
    assert.equal(row?.partitions, 2);
  });

  // Contract 9.3: detail
  it('describes a queue and its partitions', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'first', ['a', 'b', 'c']);
    await broker.client.pushAll(queue, 'second', ['d']);
    const messages = await broker.client.pop(queue, { batch: 2 });
    await broker.client.ackOne(messages[0]);
    const answer = await broker.client.request<QueueDetail & Record<string, unknown>>(
      'GET',
      `/api/v1/resources/queues/${queue}`,
    );
    assert.equal(answer.status, 200);
    for (const key of [
      'id',
      'name',
      'namespace',
      'task',
      'createdAt',
      'options',
      'partitions',
      'segments',
      'totals',
      'retainedBytes',
    ]) {
      assert.ok(key in answer.body, key);
    }
    assert.deepEqual(
      answer.body.partitions.map((partition) => partition.name),
      ['first', 'second'],
    );
    const [first] = answer.body.partitions;
    assert.match(first.id, uuid);
    assert.deepEqual(Object.keys(first).sort(), [
      'createdAt',
      'cursor',
      'id',
      'lastActivity',
      'messages',
      'name',
      'newestMessage',
      'oldestMessage',
      'paused',
      'pausedAt',
      'retainedBytes',
      'stats',
    ]);
    assert.deepEqual(first.stats as unknown, {
      total: 3,
      pending: 1,
      processing: 1,
      completed: 1,
      failed: null,
      deadLetter: 0,
    });
    assert.equal(first.cursor.totalConsumed, 1);
  });

  // Contract 9.3
  it('answers 404 for the detail of a queue it does not have', async () => {
    const answer = await broker.client.request('GET', `/api/v1/resources/queues/${freshName('q')}`);
    assert.equal(answer.status, 404);
    assert.equal(answer.body.error, 'Queue not found');
  });

  // Checklist 36; contract 9.3
  it('deletes a queue with everything in it, and answers the second delete without an error', async () => {
    const queue = freshName('q');
    const group = freshName('g');
    await broker.client.configure(queue, { leaseTime: 7, retryLimit: 0 });
    await broker.client.pushAll(queue, 'p', ['a', 'b']);
    await broker.client.ack(await broker.client.pop(queue, { batch: 1 }), 'dlq');
    assert.deepEqual(await broker.client.pop(queue, { group, mode: 'new' }), []);

    assert.deepEqual(await broker.client.deleteQueue(queue), { deleted: true, existed: true, queue });
    assert.deepEqual(await broker.client.deleteQueue(queue), {
      deleted: false,
      existed: false,
      queue,
      message: 'Queue not found, nothing was deleted',
    });
    assert.equal(await broker.client.queueExists(queue), false);
    assert.equal(await broker.client.queueRow(queue), undefined);
    assert.deepEqual((await broker.client.deadLetters({ queue })).messages, []);

    // A queue of that name starts anew: options, offsets, ids, cursors and registrations are forgotten.
    const [again] = await broker.client.pushAll(queue, 'p', ['a']);
    assert.deepEqual([again.status, again.offset], ['queued', 0]);
    assert.equal((await broker.client.queueDetail(queue)).options.leaseTime, 60);
    assert.equal((await broker.client.pop(queue)).length, 1);
    assert.equal((await broker.client.pop(queue, { group, mode: 'all' })).length, 1, 'the registration was forgotten');
  });

  // Contract 1.1: pids are unique over the broker and never reused
  it('gives a deleted and recreated partition a new id', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const [before] = await broker.client.pop(queue);
    const uuidBefore = (await broker.client.queueDetail(queue)).partitions[0].id;
    await broker.client.deleteQueue(queue);
    await broker.client.pushAll(queue, 'p', ['a']);
    const [after] = await broker.client.pop(queue);
    assert.notEqual(after.partitionId, before.partitionId);
    assert.notEqual((await broker.client.queueDetail(queue)).partitions[0].id, uuidBefore);
    const [late] = await broker.client.ack([before]);
    assert.deepEqual([late.success, late.error], [false, 'no partition']);
  });

  /** A queue with `count` dead letters "0", "1", … for each of the groups, filed in that order. */
  async function withDeadLetters(count: number, groups: readonly string[]): Promise<string> {
    const queue = freshName('q');
    await broker.client.pushAll(
      queue,
      'p',
      Array.from({ length: count }, (_, i) => String(i)),
    );
    for (let i = 0; i < count; i++) {
      for (const group of groups) {
        const messages = await broker.client.pop(queue, { group, mode: 'all', batch: 1 });
        await broker.client.ackItems(group, [ackOf(messages[0], 'dlq', `because ${i}`)]);
      }
    }
    return queue;
  }

  // Checklist 38, list; contract 12.1
  it('lists a dead letter in the documented shape', async () => {
    const queue = freshName('q');
    const group = freshName('g');
    const [stored] = await broker.client.push([
      { queue, partition: 'customer-42', transactionId: 't', payload: { orderId: 9137, text: 'ü🦉' } },
    ]);
    const [message] = await broker.client.pop(queue, { group, mode: 'all' });
    await broker.client.ackOne(message, 'dlq', 'boom');
    const page = await broker.client.deadLetters({ queue });
    const [row] = page.messages;
    assert.match(row.id, uuid);
    assert.deepEqual(page, {
      messages: [
        {
          id: row.id,
          queue,
          partition: 'customer-42',
          partitionId: message.partitionId,
          createdAt: message.createdAt,
          consumerGroup: group,
          offset: 0,
          messageId: stored.message_id,
          transactionId: 't',
          data: { orderId: 9137, text: 'ü🦉' },
          payload: { orderId: 9137, text: 'ü🦉' },
          errorMessage: 'boom',
          retryCount: 0,
          failedAt: row.failedAt,
        },
      ],
      total: 1,
      pagination: { limit: 100, offset: 0 },
    });
  });

  // Contract 12.1: newest failure first, pages, group filter
  it('lists dead letters newest first, in pages, by queue and group', async () => {
    const queue = await withDeadLetters(4, ['one', 'two']);
    const first = await broker.client.deadLetters({ queue, consumerGroup: 'one', limit: '3' });
    assert.deepEqual(
      first.messages.map((row) => row.data),
      ['3', '2', '1'],
    );
    assert.deepEqual(first.pagination, { limit: 3, offset: 0 });
    const second = await broker.client.deadLetters({ queue, consumerGroup: 'one', limit: '3', offset: '3' });
    assert.deepEqual(
      second.messages.map((row) => [row.data, row.consumerGroup]),
      [['0', 'one']],
    );
    assert.deepEqual(second.pagination, { limit: 3, offset: 3 });
    assert.equal((await broker.client.deadLetters({ queue })).messages.length, 8);
    assert.equal((await broker.client.deadLetters({ queue, consumerGroup: 'none' })).messages.length, 0);
    const ids = new Set((await broker.client.deadLetters({ queue })).messages.map((row) => row.id));
    assert.equal(ids.size, 8);
  });

  // Contract 12.1: limit 1..1000, other filters ignored
  it('keeps the page between 1 and 1000 rows and ignores filters it does not have', async () => {
    const queue = await withDeadLetters(2, ['one']);
    for (const [limit, rows] of [
      ['0', 1],
      ['5000', 2],
    ] as const) {
      const answer = await broker.client.request<{ messages: unknown[] } & ErrorBody>(
        'GET',
        `/api/v1/dlq?queue=${queue}&limit=${limit}`,
      );
      if (answer.status === 400) assert.equal(typeof answer.body.error, 'string');
      else assert.equal(answer.body.messages.length, rows);
    }
    const page = await broker.client.deadLetters({
      queue,
      partition: 'elsewhere',
      from: '2020-01-01T00:00:00Z',
      to: '2020-01-02T00:00:00Z',
    });
    assert.equal(page.messages.length, 2);
  });

  // Contract 12: a snapshot of the payload, per (message, group)
  it('files a message once per group and keeps it whatever happens to the message', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const popped: Message[] = [];
    for (const group of ['one', 'two']) {
      const [message] = await broker.client.pop(queue, { group, mode: 'all' });
      popped.push(message);
    }
    await broker.client.ackOne(popped[0], 'dlq', 'one says');
    assert.equal((await broker.client.ackOne(popped[1])).success, true);
    const page = await broker.client.deadLetters({ queue });
    assert.deepEqual(
      page.messages.map((row) => [row.consumerGroup, row.errorMessage, row.data]),
      [['one', 'one says', 'a']],
    );
  });
});
