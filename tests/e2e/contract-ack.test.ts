/** Contract sections 5 and 6 and checklist 10 to 18: acks, their effect on a cursor, and lease extension. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  type AckItem,
  type AckResult,
  ackOf,
  ackWithoutLease,
  type ExtendBody,
  freshName,
  type Message,
} from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { passed } from './clock.ts';

const leaseGone = 'invalid or expired lease';
const stale = /unresolvable.*committed.*stale/;

const dataOf = (messages: readonly Message[]): unknown[] => messages.map((message) => message.data);
const deliveredOf = (messages: readonly Message[]): unknown[] =>
  messages.map((message) => [message.data, message.deliveryAttempt]);

describe('ack', { concurrency: 32 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  /** A queue with messages "0", "1", … in partition p, and a first delivery of them to queue mode. */
  async function leased(
    count: number,
    options: Readonly<Record<string, unknown>> = {},
    leaseSeconds = 30,
  ): Promise<{ queue: string; messages: Message[] }> {
    const queue = freshName('q');
    await broker.client.configure(queue, options);
    await broker.client.pushAll(
      queue,
      'p',
      Array.from({ length: count }, (_, i) => String(i)),
    );
    const messages = await broker.client.pop(queue, { leaseSeconds });
    assert.equal(messages.length, count);
    return { queue, messages };
  }

  /** Acks messages of one delivery by index: `{0: 'completed', 1: 'failed'}`. */
  function ackByIndex(messages: readonly Message[], statuses: Readonly<Record<number, string>>): Promise<AckResult[]> {
    const items = Object.entries(statuses).map(([index, status]) =>
      ackOf(messages[Number(index)], status, status === 'completed' ? undefined : `${status} ${index}`),
    );
    return broker.client.ackItems(null, items);
  }

  async function deadLettersOf(queue: string): Promise<unknown[]> {
    const page = await broker.client.deadLetters({ queue });
    return page.messages.map((row) => row.data).sort();
  }

  // Contract 5.2
  it('answers an array in the documented shape, also on the single route', async () => {
    const { messages } = await leased(2);
    const answer = await broker.client.request<AckResult[]>('POST', '/api/v1/ack', {
      json: { ...ackOf(messages[0], 'completed'), error: null, consumerGroup: null },
    });
    assert.equal(answer.status, 200);
    const row = { transactionId: '0', success: true, error: null, leaseReleased: false, dlq: false, noop: false };
    assert.deepEqual(answer.body, [{ index: 0, ...row }]);
    const batch = await broker.client.request<AckResult[]>('POST', '/api/v1/ack/batch', {
      json: { acknowledgments: [ackOf(messages[1])], consumerGroup: null },
    });
    assert.deepEqual(batch.body, [{ index: 0, ...row, transactionId: '1', leaseReleased: true }]);
  });

  // Contract 5.1: one handler serves both routes
  it('serves a batch on the single route and a single item on the batch route', async () => {
    const { messages } = await leased(3);
    const batch = await broker.client.request<AckResult[]>('POST', '/api/v1/ack', {
      json: { acknowledgments: [ackOf(messages[0]), ackOf(messages[1])] },
    });
    assert.deepEqual(
      batch.body.map((row) => [row.index, row.success]),
      [
        [0, true],
        [1, true],
      ],
    );
    const single = await broker.client.request<AckResult[]>('POST', '/api/v1/ack/batch', { json: ackOf(messages[2]) });
    assert.deepEqual(
      single.body.map((row) => [row.success, row.leaseReleased]),
      [[true, true]],
    );
  });

  // Contract 5.1: consumerGroup is read from the top level
  it('acks for the group named on top and leaves other groups alone', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const one = await broker.client.pop(queue, { group: 'one', mode: 'all' });
    const two = await broker.client.pop(queue, { group: 'two', mode: 'all' });
    assert.equal((await broker.client.ackItems('two', [ackOf(one[0])]))[0].error, leaseGone);
    assert.equal((await broker.client.ackItems('none such', [ackWithoutLease(one[0])]))[0].success, false);
    assert.equal((await broker.client.ackItems('one', [ackOf(one[0])]))[0].success, true);
    assert.equal((await broker.client.ackItems('two', [ackOf(two[0])]))[0].success, true);
  });

  // Contract 5.1: status
  it('reads a status without regard to case, and an absent or unknown one as completed', async () => {
    const { queue, messages } = await leased(5, { retryLimit: 0 });
    const statuses = ['COMPLETED', undefined, 'donee', 'Success', 'DLQ'];
    const results = await broker.client.ackItems(
      null,
      messages.map((message, i) => ackOf(message, statuses[i])),
    );
    assert.deepEqual(
      results.map((result) => [result.success, result.dlq]),
      [
        [true, false],
        [true, false],
        [true, false],
        [true, false],
        [true, true],
      ],
    );
    assert.deepEqual(await deadLettersOf(queue), ['4']);
  });

  // Contract 5.2: per-item errors
  it('reports per item what is wrong with it and settles the others', async () => {
    const { queue, messages } = await leased(2);
    const partitionId = messages[0].partitionId;
    const leaseId = messages[0].leaseId;
    const results = await broker.client.ackItems(null, [
      { transactionId: '0', partitionId: 'p', leaseId },
      { transactionId: '0', partitionId: '999999999', leaseId },
      { transactionId: '0', partitionId, leaseId: '01a0fcd6-2cdf-7000-a9bb-2f832df96c36' },
      { transactionId: '0', partitionId, leaseId: 'no lease at all' },
      { transactionId: 'never pushed', partitionId, leaseId },
      { transactionId: '0', partitionId, leaseId },
    ]);
    assert.deepEqual(
      results.map((result) => [result.index, result.success]),
      [
        [0, false],
        [1, false],
        [2, false],
        [3, false],
        [4, false],
        [5, true],
      ],
    );
    assert.equal(results[0].error, 'partitionId is not a partition id');
    assert.equal(results[1].error, 'no partition');
    assert.equal(results[2].error, leaseGone);
    assert.equal(results[3].error, leaseGone);
    assert.match(results[4].error ?? '', stale);
    assert.equal(results[5].error, null);
    assert.deepEqual(await broker.client.pop(queue), [], 'the lease goes on');
    assert.equal((await broker.client.ackOne(messages[1])).leaseReleased, true);
  });

  // Contract 5.2: wrong ids are per-item errors, not a 4xx
  it('answers items with missing or mistyped ids per item', async () => {
    const { messages } = await leased(1);
    const answer = await broker.client.request<AckResult[]>('POST', '/api/v1/ack/batch', {
      json: {
        acknowledgments: [{ transactionId: '0' }, { partitionId: messages[0].partitionId }, {}, ackOf(messages[0])],
      },
    });
    assert.equal(answer.status, 200);
    assert.deepEqual(
      answer.body.map((row) => row.success),
      [false, false, false, true],
    );
  });

  // Contract 5.2: whole-request failure
  it('refuses a body that is not JSON with bad_body', async () => {
    for (const bytes of ['', '{', 'ack', '[1,']) {
      const answer = await broker.client.request('POST', '/api/v1/ack', { bytes });
      assert.equal(answer.status, 400, bytes);
      assert.equal(answer.body.code, 'bad_body');
    }
  });

  // Contract 5.3.1
  it('calls every item stale for a group that has no cursor in the partition', async () => {
    const { messages } = await leased(1);
    const [result] = await broker.client.ackItems('never popped', [ackWithoutLease(messages[0])]);
    assert.equal(result.success, false);
    assert.match(result.error ?? '', stale);
  });

  // Contract 5.4: no signal, C < batchEnd; checklist 11; worked example 2
  it('keeps the lease while the rest of the batch is out, and redelivers only that rest, as attempt 2', async () => {
    const { queue, messages } = await leased(3, {}, 2);
    const [result] = await ackByIndex(messages, { 1: 'completed' });
    assert.deepEqual([result.success, result.leaseReleased], [true, false]);
    assert.deepEqual(await broker.client.pop(queue), []);
    const again = await broker.client.pop(queue, { waitMs: 5000 });
    assert.deepEqual(deliveredOf(again), [['2', 2]]);
  });

  // Contract 5.4: no signal, C >= batchEnd; checklist 10; worked example 1
  it('settles everything below an acked message and releases the lease at the end of the batch', async () => {
    const { queue, messages } = await leased(3);
    const [result] = await ackByIndex(messages, { 2: 'completed' });
    assert.deepEqual([result.success, result.leaseReleased], [true, true]);
    assert.deepEqual(await broker.client.pop(queue), []);
    await broker.client.pushAll(queue, 'p', ['next']);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['next', 1]]);
  });

  // Contract 5.4: all delivered ids completed
  it('releases the lease when all delivered messages are completed, in whatever order they are named', async () => {
    const { queue, messages } = await leased(3);
    const results = await broker.client.ackItems(
      null,
      [2, 0, 1].map((i) => ackOf(messages[i])),
    );
    assert.ok(results.every((result) => result.success && result.leaseReleased && !result.noop));
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Contract 5.4: failed with budget left; checklist 12; worked example 3
  it('redelivers a failed message and everything behind it, also what was acked completed behind it', async () => {
    const { queue, messages } = await leased(3);
    const results = await ackByIndex(messages, { 0: 'completed', 1: 'failed', 2: 'completed' });
    assert.ok(results.every((result) => result.success && result.leaseReleased && !result.dlq));
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1', '2']);
    assert.deepEqual(await deadLettersOf(queue), []);
  });

  // Contract 5.4; worked examples 4 and 5
  it('redelivers the whole batch as attempt 2 after its head failed, and after its head asked for a retry', async () => {
    for (const status of ['failed', 'retry']) {
      const { queue, messages } = await leased(3);
      const [result] = await ackByIndex(messages, { 0: status });
      assert.deepEqual([result.success, result.leaseReleased, result.dlq], [true, true, false]);
      assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [
        ['0', 2],
        ['1', 2],
        ['2', 2],
      ]);
    }
  });

  // Contract 5.4: the budget; checklist 13
  it('files a message at the fourth failed with retryLimit 3', async () => {
    const { queue, messages } = await leased(2, { retryLimit: 3 });
    let delivered = messages;
    const filed: boolean[] = [];
    for (let i = 0; i < 4; i++) {
      if (i > 0) delivered = await broker.client.pop(queue);
      assert.equal(delivered[0].deliveryAttempt, i + 1);
      filed.push((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq);
    }
    assert.deepEqual(filed, [false, false, false, true]);
    assert.deepEqual(await deadLettersOf(queue), ['0']);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['1', 1]]);
    const page = await broker.client.deadLetters({ queue });
    assert.equal(page.messages[0].retryCount, 3);
  });

  // Contract 5.4: retryLimit 0 files on the first failed
  it('files a message at the first failed with retryLimit 0', async () => {
    const { queue, messages } = await leased(1, { retryLimit: 0 });
    assert.equal((await ackByIndex(messages, { 0: 'failed' }))[0].dlq, true);
    assert.deepEqual(await deadLettersOf(queue), ['0']);
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Contract 5.4: budget exhausted, DLQ off
  it('drops a message whose budget is spent when both dead-letter switches are off', async () => {
    const { queue, messages } = await leased(3, {
      retryLimit: 0,
      deadLetterQueue: false,
      dlqAfterMaxRetries: false,
    });
    const results = await ackByIndex(messages, { 0: 'failed', 1: 'failed' });
    assert.deepEqual(
      results.map((result) => [result.success, result.dlq, result.leaseReleased]),
      [
        [true, false, true],
        [true, false, true],
      ],
    );
    assert.deepEqual(await deadLettersOf(queue), []);
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['2']);
  });

  // Contract 5.4: either switch is enough
  it('files a message whose budget is spent when one dead-letter switch is on', async () => {
    for (const options of [{ deadLetterQueue: false }, { dlqAfterMaxRetries: false }]) {
      const { queue, messages } = await leased(1, { retryLimit: 0, ...options });
      await ackByIndex(messages, { 0: 'failed' });
      assert.deepEqual(await deadLettersOf(queue), ['0']);
    }
  });

  // Contract 5.4: retry leaves the budget alone; checklist 13
  it('redelivers after retry any number of times without touching the budget', async () => {
    const { queue, messages } = await leased(1, { retryLimit: 1 });
    let delivered = messages;
    for (let i = 0; i < 6; i++) {
      await ackByIndex(delivered, { 0: 'retry' });
      delivered = await broker.client.pop(queue);
      assert.deepEqual(deliveredOf(delivered), [['0', i + 2]]);
    }
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, false);
    delivered = await broker.client.pop(queue);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, true);
  });

  // Contract 5.4: retry commits what is completed below it and settles nothing above
  it('commits below a retry and settles nothing above it', async () => {
    const { queue, messages } = await leased(4, { retryLimit: 0 });
    const results = await ackByIndex(messages, { 0: 'completed', 1: 'retry', 2: 'completed', 3: 'dlq' });
    assert.ok(results.every((result) => result.success && !result.dlq && result.leaseReleased));
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1', '2', '3']);
    assert.deepEqual(await deadLettersOf(queue), []);
  });

  // Contract 5.4: dlq files at once; checklist 14; worked example 6
  it('files a message at once on dlq and settles the completed ones behind it', async () => {
    const { queue, messages } = await leased(3, { retryLimit: 50 });
    const results = await ackByIndex(messages, { 0: 'completed', 1: 'dlq', 2: 'completed' });
    assert.deepEqual(
      results.map((result) => [result.success, result.dlq, result.leaseReleased]),
      [
        [true, false, true],
        [true, true, true],
        [true, false, true],
      ],
    );
    assert.deepEqual(await deadLettersOf(queue), ['1']);
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Worked example 7; checklist 13
  it('redelivers after an ended lease as attempt 2, never charging the budget', async () => {
    const { queue } = await leased(3, { retryLimit: 0 }, 1);
    const second = await broker.client.pop(queue, { waitMs: 5000, leaseSeconds: 1 });
    assert.deepEqual(deliveredOf(second), [
      ['0', 2],
      ['1', 2],
      ['2', 2],
    ]);
    const third = await broker.client.pop(queue, { waitMs: 5000, leaseSeconds: 1 });
    assert.equal(third[0].deliveryAttempt, 3);
    assert.deepEqual(await deadLettersOf(queue), []);
  });

  // Contract 5.4: a signal on a cursor that holds no lease
  it('gives a failure no effect when the cursor holds no lease, and still commits what is completed below', async () => {
    const { queue, messages } = await leased(3, { retryLimit: 0 });
    await ackByIndex(messages, { 0: 'retry' });
    const results = await broker.client.ackItems(null, [
      ackWithoutLease(messages[0], 'completed'),
      ackWithoutLease(messages[1], 'failed'),
      ackWithoutLease(messages[2], 'dlq'),
    ]);
    assert.ok(results.every((result) => result.success && !result.dlq));
    assert.deepEqual(await deadLettersOf(queue), []);
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1', '2']);
  });

  // Contract 5.4: an expired lease still in the row does count
  it('charges a failure that names no lease after the lease ended', async () => {
    const { queue, messages } = await leased(2, { retryLimit: 0 }, 1);
    await passed(1150);
    const [result] = await broker.client.ackItems(null, [ackWithoutLease(messages[0], 'failed')]);
    assert.deepEqual([result.success, result.dlq, result.leaseReleased], [true, true, true]);
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1']);
    assert.deepEqual(await deadLettersOf(queue), ['0']);
  });

  // Contract 5.4: settle above: failed behind a failed that spent the budget
  it('files further failed messages behind one whose budget is spent', async () => {
    const { queue, messages } = await leased(4, { retryLimit: 0 });
    const results = await ackByIndex(messages, { 0: 'failed', 1: 'failed', 3: 'failed' });
    assert.deepEqual(
      results.map((result) => result.dlq),
      [true, true, false],
    );
    assert.deepEqual(await deadLettersOf(queue), ['0', '1']);
    // 2 was not mentioned and nothing completed lies above it: it and what follows comes back.
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [
      ['2', 1],
      ['3', 1],
    ]);
  });

  // Contract 5.4: settle above: dlq, completed and un-mentioned records
  it('walks up from a filed message: dlq is filed, completed and what lies below completed is committed', async () => {
    const { queue, messages } = await leased(6, { retryLimit: 5 });
    const results = await ackByIndex(messages, { 0: 'dlq', 1: 'dlq', 3: 'completed' });
    assert.deepEqual(
      results.map((result) => result.dlq),
      [true, true, false],
    );
    assert.deepEqual(await deadLettersOf(queue), ['0', '1']);
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['4', '5']);
  });

  // Contract 5.4: settle above stops at retry
  it('stops walking up from a filed message at a retry', async () => {
    const { queue, messages } = await leased(4);
    const results = await ackByIndex(messages, { 0: 'dlq', 1: 'completed', 2: 'retry', 3: 'completed' });
    assert.ok(results.every((result) => result.success && result.leaseReleased));
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['2', '3']);
    assert.deepEqual(await deadLettersOf(queue), ['0']);
  });

  // Contract 5.4: settle above stops at a failed with budget left and keeps the retry count
  it('stops at a failed message with budget left behind a dlq and keeps the retry count from before', async () => {
    const { queue, messages } = await leased(2, { retryLimit: 2 });
    await ackByIndex(messages, { 0: 'failed' });
    let delivered = await broker.client.pop(queue);
    const results = await ackByIndex(delivered, { 0: 'dlq', 1: 'failed' });
    assert.deepEqual(
      results.map((result) => result.dlq),
      [true, false],
    );
    // One failure is on the books: the third in all files the message.
    delivered = await broker.client.pop(queue);
    assert.deepEqual(dataOf(delivered), ['1']);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, false);
    delivered = await broker.client.pop(queue);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, true);
    assert.deepEqual(await deadLettersOf(queue), ['0', '1']);
  });

  // Contract 5.4: the budget belongs to (partition, group) and starts again with a completed batch
  it('starts the budget again after a completed batch and after a filed message', async () => {
    const { queue, messages } = await leased(2, { retryLimit: 1 });
    await ackByIndex(messages, { 0: 'failed' });
    let delivered = await broker.client.pop(queue, { batch: 1 });
    await ackByIndex(delivered, { 0: 'completed' });
    delivered = await broker.client.pop(queue);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, false, 'reset by the completed batch');
    delivered = await broker.client.pop(queue);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, true);
    await broker.client.pushAll(queue, 'p', ['2']);
    delivered = await broker.client.pop(queue);
    assert.equal((await ackByIndex(delivered, { 0: 'failed' }))[0].dlq, false, 'reset by the filed message');
  });

  // Contract 5.4: several items on one offset
  it('lets dlq win over failed, failed over retry and retry over completed on one message', async () => {
    const cases: [string[], boolean, string[]][] = [
      [['failed', 'dlq', 'completed'], true, ['1']],
      [['retry', 'failed'], true, ['1']],
      [['completed', 'retry'], false, ['0', '1']],
      [['retry', 'completed'], false, ['0', '1']],
    ];
    for (const [statuses, filed, rest] of cases) {
      const { queue, messages } = await leased(2, { retryLimit: 0 });
      await broker.client.ackItems(
        null,
        statuses.map((status) => ackOf(messages[0], status)),
      );
      assert.deepEqual(await deadLettersOf(queue), filed ? ['0'] : [], statuses.join());
      assert.deepEqual(dataOf(await broker.client.pop(queue)), rest, statuses.join());
    }
  });

  // Contract 5.4: resolve = the lowest offset in the span
  it('resolves a transactionId that stands twice in the batch to the first of them', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { dedupWindowSeconds: 0 });
    for (const transactionId of ['t', 'x', 't']) {
      await broker.client.push([{ queue, partition: 'p', transactionId, payload: transactionId }]);
    }
    const messages = await broker.client.pop(queue, { leaseSeconds: 2 });
    const [first] = await broker.client.ackItems(null, [ackOf(messages[2])]);
    assert.deepEqual([first.success, first.leaseReleased], [true, false]);
    const rest = await broker.client.pop(queue, { waitMs: 5000 });
    assert.deepEqual(dataOf(rest), ['x', 't']);
    // Now the second one is the lowest in the span.
    assert.deepEqual((await broker.client.ackItems(null, [ackOf(rest[1])]))[0].leaseReleased, true);
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Checklist 15; contract 5.4, below the cursor
  it('answers a late completed as noop and a late failure as committed', async () => {
    const { messages } = await leased(3);
    await ackByIndex(messages, { 1: 'completed' });
    for (const status of ['failed', 'retry', 'dlq']) {
      const [late] = await ackByIndex(messages, { 0: status });
      assert.deepEqual([late.success, late.dlq], [false, false]);
      assert.match(late.error ?? '', /committed/i);
    }
    const results = await ackByIndex(messages, { 0: 'completed', 2: 'completed' });
    assert.deepEqual(
      results.map((result) => [result.success, result.noop, result.leaseReleased]),
      [
        [true, true, true],
        [true, false, true],
      ],
    );
  });

  // Contract 5.4, below: consumed records are found without a lease too
  it('answers a completed for a record consumed long ago as noop when it names no lease', async () => {
    const queue = freshName('q');
    const count = 5000;
    const ids = Array.from({ length: count }, (_, i) => `t${i}`);
    await broker.client.pushAll(queue, 'p', ids);
    const messages = await broker.client.pop(queue, { batch: count });
    await broker.client.ack([messages[count - 1]]);
    const [first] = await broker.client.ackItems(null, [ackWithoutLease(messages[0])]);
    assert.deepEqual([first.success, first.noop], [true, true]);
  });

  // Checklist 16; contract 5.3.2, 5.3.3
  it('refuses an ended lease without moving the cursor, and takes an ack that names none', async () => {
    const { queue, messages } = await leased(2, {}, 1);
    await passed(1150);
    const [refused] = await ackByIndex(messages, { 1: 'completed' });
    assert.deepEqual([refused.success, refused.error], [false, leaseGone]);
    assert.equal((await broker.client.queueDetail(queue)).partitions[0].stats.pending, 2);
    for (const leaseId of [null, '', undefined]) {
      const item: AckItem = { transactionId: '0', partitionId: messages[0].partitionId };
      const sent = leaseId === undefined ? item : { ...item, leaseId };
      assert.equal((await broker.client.ackItems(null, [sent]))[0].success, true);
    }
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1']);
  });

  // Checklist 17; contract 5.5
  it('answers a repeated full ack under the same lease with success', async () => {
    const { queue, messages } = await leased(3);
    const first = await broker.client.ack(messages);
    const second = await broker.client.ack(messages);
    assert.ok(first.every((result) => result.success && result.leaseReleased));
    assert.ok(second.every((result) => result.success && result.leaseReleased && result.error === null));
    // Also when somebody else holds the partition by then, whose lease it leaves alone.
    await broker.client.pushAll(queue, 'p', ['next']);
    const [next] = await broker.client.pop(queue);
    assert.ok((await broker.client.ack(messages)).every((result) => result.success));
    assert.deepEqual(await broker.client.pop(queue), []);
    assert.equal((await broker.client.ackOne(next)).success, true);
  });

  // Contract 5.5: only what is at or below the cursor
  it('answers the repeat of a partly failed ack with success only for what it settled', async () => {
    const { queue, messages } = await leased(3);
    await ackByIndex(messages, { 0: 'completed', 1: 'failed', 2: 'completed' });
    const repeat = await ackByIndex(messages, { 0: 'completed', 1: 'failed', 2: 'completed' });
    assert.deepEqual(
      repeat.map((result) => [result.success, result.error]),
      [
        [true, null],
        [false, leaseGone],
        [false, leaseGone],
      ],
    );
    assert.deepEqual(dataOf(await broker.client.pop(queue)), ['1', '2']);
  });

  // Contract 5.4: nack scope is one partition; 5.2: leaseReleased is per target
  it('treats the partitions of one lease apart', async () => {
    const queue = freshName('q');
    for (const partition of ['a', 'b', 'c']) {
      await broker.client.pushAll(queue, partition, [`${partition}0`, `${partition}1`]);
    }
    const messages = await broker.client.pop(queue, { partitions: 3 });
    const results = await broker.client.ackItems(null, [
      ackOf(messages[0], 'failed'),
      ackOf(messages[2], 'completed'),
      ackOf(messages[4], 'completed'),
      ackOf(messages[5], 'completed'),
      ackOf(messages[1], 'completed'),
    ]);
    assert.deepEqual(
      results.map((result) => [result.success, result.leaseReleased]),
      [
        [true, true],
        [true, false],
        [true, true],
        [true, true],
        [true, true],
      ],
    );
    assert.deepEqual(dataOf(await broker.client.pop(queue, { partitions: 3 })), ['a0', 'a1']);
    assert.equal((await broker.client.ackOne(messages[3])).success, true, 'b is still held under the lease');
  });

  // Contract 5.3: items are grouped by (partition, leaseId)
  it('settles the items under the live lease although others of the call name a dead one', async () => {
    const { queue, messages } = await leased(2, {}, 1);
    const again = await broker.client.pop(queue, { waitMs: 5000 });
    const results = await broker.client.ackItems(null, [ackOf(messages[0]), ackOf(again[0]), ackOf(messages[1])]);
    assert.deepEqual(
      results.map((result) => [result.success, result.error]),
      [
        [false, leaseGone],
        [true, null],
        [false, leaseGone],
      ],
    );
    assert.equal((await broker.client.ackOne(again[1])).leaseReleased, true);
  });

  // Contract 5.4: conflated lease, no signal
  it('commits the whole range of a conflated lease by an ack of its one message', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['0', '1', '2']);
    const group = freshName('g');
    const messages = await broker.client.pop(queue, { group, mode: 'all', conflation: true });
    assert.deepEqual(dataOf(messages), ['2']);
    assert.deepEqual((await broker.client.ackOne(messages[0])).leaseReleased, true);
    assert.deepEqual(await broker.client.pop(queue, { group }), []);
  });

  // Contract 5.4: conflated lease with a signal
  it('brings back the newest message of a conflated lease that failed', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['0', '1', '2']);
    const group = freshName('g');
    const [message] = await broker.client.pop(queue, { group, mode: 'all', conflation: true });
    assert.equal((await broker.client.ackOne(message, 'failed')).success, true);
    assert.deepEqual(dataOf(await broker.client.pop(queue, { group })), ['2']);
  });

  // Contract 5.4: DLQ error text
  it('keeps with a dead letter its own text, else the first signal text of the target, else a default', async () => {
    const { queue, messages } = await leased(3, { retryLimit: 0 });
    await broker.client.ackItems(null, [
      ackOf(messages[0], 'dlq', 'the first'),
      ackOf(messages[1], 'dlq'),
      ackOf(messages[2], 'dlq', 'the third'),
    ]);
    const { queue: other, messages: silent } = await leased(1, { retryLimit: 0 });
    await broker.client.ackItems(null, [{ ...ackOf(silent[0], 'failed'), error: null }]);
    const rows = [
      ...(await broker.client.deadLetters({ queue })).messages,
      ...(await broker.client.deadLetters({ queue: other })).messages,
    ];
    const texts = rows.sort((a, b) => a.offset - b.offset).map((row) => row.errorMessage);
    assert.deepEqual(texts.sort(), ['Retries exhausted', 'the first', 'the first', 'the third']);
  });

  // Contract 5.3.4: with a lease the span ends with the leased batch
  it('does not let an ack under a lease reach beyond the leased batch', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['0', '1', '2', '3']);
    const messages = await broker.client.pop(queue, { batch: 2 });
    const beyond = { transactionId: '3', partitionId: messages[0].partitionId };
    const [fenced] = await broker.client.ackItems(null, [{ ...beyond, leaseId: messages[0].leaseId }]);
    assert.match(fenced.error ?? '', stale);
    const [unfenced] = await broker.client.ackItems(null, [beyond]);
    assert.match(unfenced.error ?? '', stale);
    assert.ok((await broker.client.ack(messages)).every((result) => result.success));
    // Without a lease in the row it reaches to the end of the partition.
    const [free] = await broker.client.ackItems(null, [beyond]);
    assert.equal(free.success, true);
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Contract 5.4: one ack call over many partitions and a large batch
  it('settles a thousand messages over many partitions in one call', async () => {
    const queue = freshName('q');
    const items = Array.from({ length: 1000 }, (_, i) => ({ queue, partition: `p${i % 50}`, payload: i }));
    await broker.client.push(items);
    const messages = await broker.client.pop(queue, { partitions: 64, batch: 1000 });
    assert.equal(messages.length, 1000);
    const results = await broker.client.ack(messages);
    assert.ok(results.every((result, i) => result.index === i && result.success && result.leaseReleased));
    assert.deepEqual(await broker.client.pop(queue, { partitions: 64 }), []);
  });

  // Contract 6; checklist 18
  it('extends every live lease with the id, never shortens, and answers the earliest new expiry', async () => {
    const queue = freshName('q');
    for (const partition of ['a', 'b']) await broker.client.pushAll(queue, partition, [partition]);
    const messages = await broker.client.pop(queue, { partitions: 2, leaseSeconds: 2 });
    const askedAt = Date.now();
    const extended = await broker.client.extend(messages[0].leaseId, 20);
    assert.equal(extended.leaseId, messages[0].leaseId);
    assert.deepEqual([extended.success, extended.renewed], [true, 2]);
    assert.equal(extended.expiresAt, extended.newExpiresAt);
    assert.equal(extended.lease_expires_at, extended.newExpiresAt);
    const expiresAt = Date.parse(extended.newExpiresAt ?? '');
    assert.ok(expiresAt >= askedAt + 19_900 && expiresAt <= Date.now() + 20_100);

    const shortened = await broker.client.extend(messages[0].leaseId, 1);
    assert.deepEqual([shortened.success, shortened.newExpiresAt], [true, extended.newExpiresAt]);
    await passed(2200);
    assert.deepEqual(await broker.client.pop(queue, { partitions: 2 }), []);
    assert.ok((await broker.client.ack(messages)).every((result) => result.success));
  });

  // Contract 6: missing, empty or unreadable body = 60; minimum 1
  it('extends by 60 seconds when the body says nothing it can read', async () => {
    const { messages } = await leased(1, {}, 5);
    const path = `/api/v1/lease/${messages[0].leaseId}/extend`;
    for (const parts of [
      {},
      { bytes: '' },
      { json: {} },
      { bytes: 'soon' },
      { json: { seconds: 'many' } },
      { json: { seconds: null } },
    ]) {
      const askedAt = Date.now();
      const answer = await broker.client.request<ExtendBody>('POST', path, parts);
      assert.equal(answer.status, 200);
      const gained = Date.parse(answer.body.newExpiresAt ?? '') - askedAt;
      assert.ok(gained > 59_000 && gained < 62_000, `${JSON.stringify(parts)} gained ${gained} ms`);
    }
    const { messages: other } = await leased(1, {}, 1);
    for (const seconds of [0, -5]) {
      const askedAt = Date.now();
      const { newExpiresAt } = await broker.client.extend(other[0].leaseId, seconds);
      const gained = Date.parse(newExpiresAt ?? '') - askedAt;
      assert.ok(gained > 900 && gained <= 2000, `seconds ${seconds} gained ${gained} ms`);
    }
  });

  // Contract 6; checklist 18
  it('renews nothing for an unknown, ended or settled lease, and cannot revive one', async () => {
    const { queue, messages } = await leased(1, {}, 1);
    const { messages: settled } = await leased(1);
    await broker.client.ack(settled);
    await passed(1150);
    for (const leaseId of [
      '01a0fcd6-2cdf-7000-a9bb-2f832df96c36',
      'nonsense',
      messages[0].leaseId,
      settled[0].leaseId,
    ]) {
      const body = await broker.client.extend(leaseId, 10);
      assert.deepEqual(
        [body.leaseId, body.success, body.renewed, body.newExpiresAt, body.expiresAt, body.lease_expires_at],
        [leaseId, false, 0, null, null, null],
      );
    }
    assert.deepEqual(deliveredOf(await broker.client.pop(queue)), [['0', 2]]);
  });

  // Contract 6: an extended lease really ends later, and wakes a waiter then
  it('redelivers at the extended expiry and not at the first', async () => {
    const { queue, messages } = await leased(1, {}, 1);
    const askedAt = performance.now();
    await broker.client.extend(messages[0].leaseId, 2);
    assert.deepEqual(deliveredOf(await broker.client.pop(queue, { waitMs: 10_000 })), [['0', 2]]);
    assert.ok(performance.now() - askedAt >= 1990);
  });
});
