/** Contract 12 and what is ours beside it: replay, purge, delete and redrive of dead letters. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type DeadLetter, freshName } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { eventually } from './clock.ts';

interface ReplayBody {
  readonly success: boolean;
  readonly result: 'moved' | 'duplicate' | 'gone';
  readonly queue: string;
  readonly partition: string;
  readonly consumerGroup: string;
  readonly dlqId: string;
  readonly originalTransactionId: string;
  readonly replayedAs: Record<string, unknown> & { readonly message_id: string; readonly offset: number };
  readonly dlqRowRemoved: boolean;
  readonly error?: string;
  readonly code?: string;
  readonly reason?: string;
}

interface DeleteBody {
  readonly success: boolean;
  readonly deleted?: number;
  readonly error?: string;
  readonly code?: string;
  readonly message?: string;
}

interface Redrive {
  readonly id: string;
  readonly state: string;
  readonly moved: number;
  readonly duplicates: number;
  readonly failed: number;
  readonly endedAt: string | null;
  readonly lastError: string | null;
}

describe('dead letters', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start({ env: { LANEMQ_ENCRYPTION_KEY: 'ab'.repeat(32) } });
  });
  after(() => broker.dispose());

  /** Pushes payloads to one partition and files each as a dead letter of the group. */
  async function file(
    queue: string,
    partition: string,
    payloads: readonly unknown[],
    group?: string,
  ): Promise<DeadLetter[]> {
    const items = payloads.map((payload, i) => ({ queue, partition, transactionId: `${partition}-t${i}`, payload }));
    for (let i = 0; i < items.length; i += 1000) await broker.client.push(items.slice(i, i + 1000));
    return giveUp(queue, payloads.length, group);
  }

  async function giveUp(queue: string, count: number, group?: string): Promise<DeadLetter[]> {
    for (let filed = 0; filed < count; ) {
      const messages = await broker.client.pop(queue, {
        batch: 1000,
        partitions: 64,
        ...(group === undefined ? {} : { group, mode: 'all' }),
      });
      assert.ok(messages.length > 0);
      const results = await broker.client.ackItems(
        group ?? null,
        messages.map(({ transactionId, partitionId, leaseId }) => ({
          transactionId,
          partitionId,
          leaseId,
          status: 'dlq',
          error: `boom ${transactionId}`,
        })),
      );
      assert.ok(results.every(({ dlq }) => dlq));
      filed += messages.length;
    }
    return rowsOf(queue, group);
  }

  async function rowsOf(queue: string, group?: string): Promise<DeadLetter[]> {
    const { messages } = await broker.client.deadLetters({
      queue,
      limit: '1000',
      ...(group === undefined ? {} : { consumerGroup: group }),
    });
    return messages as DeadLetter[];
  }

  const replay = (id: string, json?: unknown) =>
    broker.client.request<ReplayBody>('POST', `/api/v1/dlq/${id}/replay`, json === undefined ? {} : { json });
  const addressOf = (row: { partitionId: string; transactionId: string }) =>
    `/api/v1/messages/${row.partitionId}/${encodeURIComponent(row.transactionId)}`;
  const remove = (path: string) => broker.client.request<DeleteBody>('DELETE', path);
  const redrive = (json: unknown) =>
    broker.client.request<{ redrive: Redrive; matched: number; error: string; code: string }>(
      'POST',
      '/api/v1/dlq/redrive',
      { json },
    );

  async function ended(id: string): Promise<Redrive> {
    let last: Redrive | undefined;
    await eventually(
      async () => {
        const answer = await broker.client.request<{ redrive: Redrive }>('GET', `/api/v1/dlq/redrive/${id}`);
        assert.equal(answer.status, 200);
        last = answer.body.redrive;
        return last.state !== 'running';
      },
      30_000,
      'the redrive ends',
    );
    return last as Redrive;
  }

  // Contract 12.2; checklist 38; S-017
  it('moves a replayed message to the end of its partition, once, with a clean count', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { retryLimit: 1, retryDelay: 0 });
    await broker.client.push([
      { queue, partition: 'p', transactionId: 't1', payload: { n: 1e3 }, headers: { trace: 'x-1' } },
    ]);
    for (let i = 0; i < 2; i++) {
      const [message] = await broker.client.pop(queue, { waitMs: 5000 });
      await broker.client.ackOne(message, 'failed', 'boom');
    }
    const [row] = await rowsOf(queue);
    assert.deepEqual([row.transactionId, row.retryCount, row.errorMessage], ['t1', 1, 'boom']);
    const answer = await replay(row.id);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, {
      success: true,
      result: 'moved',
      queue,
      partition: 'p',
      consumerGroup: row.consumerGroup,
      dlqId: row.id,
      originalTransactionId: 't1',
      replayedAs: {
        index: 0,
        message_id: answer.body.replayedAs.message_id,
        transaction_id: `dlq:${row.id}`,
        queueName: queue,
        status: 'queued',
        offset: 1,
      },
      dlqRowRemoved: true,
    });
    assert.deepEqual(await rowsOf(queue), []);
    const [again] = await broker.client.pop(queue);
    assert.deepEqual(
      [again.transactionId, again.deliveryAttempt, again.data, again.headers, again.id],
      [`dlq:${row.id}`, 1, { n: 1e3 }, { trace: 'x-1' }, answer.body.replayedAs.message_id],
    );
    // The fresh budget is whole.
    await broker.client.ackOne(again, 'failed');
    assert.equal((await broker.client.pop(queue, { waitMs: 5000 })).length, 1);
    const [push] = await broker.client.push([{ queue, partition: 'p', transactionId: 't1', payload: 2 }]);
    assert.equal(push.status, 'duplicate');
    const second = await replay(row.id);
    assert.equal(second.status, 404);
    assert.deepEqual(second.body, { success: false, result: 'gone', error: 'Message not found', code: 'not_found' });
  });

  // Contract 12.2
  it('replays to another destination, and refuses one that is empty', async () => {
    const queue = freshName('q');
    const other = freshName('other');
    const [third, second, first] = await file(queue, 'p', ['a', 'b', 'c']);
    for (const json of [{ queue: '' }, { partition: '  ' }, { queue: 7 }, [], 'x']) {
      const answer = await replay(first.id, json);
      assert.equal(answer.status, 400, JSON.stringify(json));
      assert.equal(answer.body.success, false);
      assert.equal(typeof answer.body.error, 'string');
    }
    assert.equal((await rowsOf(queue)).length, 3);
    const moved = await replay(first.id, { queue: ` ${other} `, partition: ' x ' });
    assert.deepEqual([moved.body.queue, moved.body.partition, moved.body.replayedAs.offset], [other, 'x', 0]);
    assert.equal((await replay(second.id, {})).body.queue, queue);
    assert.equal((await replay(third.id, { queue: null, partition: 'p2' })).body.partition, 'p2');
    assert.deepEqual(
      (await broker.client.pop(other)).map(({ data, partition }) => [data, partition]),
      [['a', 'x']],
    );
  });

  // Contract 12.2: the destination holds it already
  it('keeps the row when the destination has the replayed message already', async () => {
    const queue = freshName('q');
    const [row] = await file(queue, 'p', ['a']);
    await broker.client.push([{ queue, partition: 'p', transactionId: `dlq:${row.id}`, payload: 'early' }]);
    const { status, body } = await replay(row.id);
    assert.equal(status, 200);
    assert.deepEqual(
      [body.result, body.replayedAs.message_id, body.replayedAs.offset, body.replayedAs['status'], body.dlqRowRemoved],
      ['duplicate', '00000000-0000-0000-0000-000000000000', 1, 'duplicate', false],
    );
    assert.equal((await rowsOf(queue)).length, 1);
  });

  // Contract 12.2: a refused push
  it('keeps the row when the destination refuses the push', async () => {
    const queue = freshName('q');
    const full = freshName('full');
    await broker.client.configure(full, { maxSize: 1 });
    await broker.client.push([{ queue: full, payload: 1 }]);
    const [row] = await file(queue, 'p', ['a']);
    const { status, body } = await replay(row.id, { queue: full });
    assert.equal(status, 409);
    assert.deepEqual(
      [body.success, body.code, body.reason, body.dlqRowRemoved],
      [false, 'queue_full', 'queue_full', false],
    );
    assert.match(body.error ?? '', /maxSize/);
    const long = await replay(row.id, { partition: 'p'.repeat(500) });
    assert.deepEqual([long.status, long.body.reason], [409, 'name_too_long']);
    assert.equal((await rowsOf(queue)).length, 1);
  });

  // Contract 12.2, 12.3: by the message's address
  it('finds dead letters by partition and transactionId, also of messages pushed without one', async () => {
    const queue = freshName('q');
    await broker.client.push([
      { queue, partition: 'p', transactionId: 'a/b ü', payload: 'a' },
      { queue, partition: 'p', payload: 'minted' },
    ]);
    await giveUp(queue, 2, 'g1');
    const rows = await giveUp(queue, 2, 'g2');
    const all = await rowsOf(queue);
    assert.equal(all.length, 4);
    const minted = rows.find(({ data }) => data === 'minted') as DeadLetter;
    const named = rows.find(({ data }) => data === 'a') as DeadLetter;
    const moved = await broker.client.request<ReplayBody>('POST', `${addressOf(named)}/retry`);
    assert.deepEqual([moved.status, moved.body.consumerGroup, moved.body.dlqId], [200, 'g2', named.id]);
    assert.equal((await rowsOf(queue)).length, 3);
    assert.deepEqual((await remove(addressOf(minted))).body, {
      success: true,
      partitionId: minted.partitionId,
      transactionId: minted.transactionId,
      deleted: 2,
    });
    assert.equal((await remove(addressOf(named))).body.deleted, 1);
    const none = await remove(addressOf(named));
    assert.equal(none.status, 404);
    assert.deepEqual(
      [none.body.success, none.body.error, none.body.code, typeof none.body.message],
      [false, 'Message not found', 'not_found', 'string'],
    );
    for (const address of ['x/t', '999999/t', `${named.partitionId}/other`]) {
      assert.equal((await remove(`/api/v1/messages/${address}`)).status, 404);
      assert.equal((await broker.client.request('POST', `/api/v1/messages/${address}/retry`)).status, 404);
    }
    // Live messages are untouched: what was replayed is still there.
    assert.equal((await broker.client.pop(queue, { group: 'g1' })).length, 1);
  });

  // Contract 2: both forms of a partition id
  it('takes the UUID of a partition, as lists of messages show it, wherever it takes its number', async () => {
    const queue = freshName('q');
    const rows = await file(queue, 'p', ['a', 'b']);
    const listed = await broker.client.request<{ messages: { partitionId: string; transactionId: string }[] }>(
      'GET',
      `/api/v1/messages?queue=${queue}`,
    );
    const [{ partitionId }] = listed.body.messages;
    assert.notEqual(partitionId, rows[0].partitionId);
    const retried = await broker.client.request<ReplayBody>('POST', `/api/v1/messages/${partitionId}/p-t0/retry`);
    assert.deepEqual([retried.status, retried.body.originalTransactionId], [200, 'p-t0']);
    const removed = await remove(`/api/v1/messages/${partitionId}/p-t1`);
    assert.deepEqual(
      [removed.status, removed.body],
      [200, { success: true, partitionId, transactionId: 'p-t1', deleted: 1 }],
    );
    const [message] = await broker.client.pop(queue);
    const [ack] = await broker.client.ackItems(null, [
      { transactionId: message.transactionId, partitionId, leaseId: message.leaseId, status: 'completed' },
    ]);
    assert.deepEqual([ack.success, ack.leaseReleased], [true, true]);
    // A UUID that names a message is no partition.
    assert.equal((await remove(`/api/v1/messages/${message.id}/p-t1`)).status, 404);
    const [refused] = await broker.client.ackItems(null, [
      { transactionId: message.transactionId, partitionId: message.id, status: 'completed' },
    ]);
    assert.equal(refused.error, 'partitionId is not a partition id');
  });

  // Contract 12.3; checklist 38
  it('deletes the dead letters of a queue or of one group of it', async () => {
    const queue = freshName('q');
    const other = freshName('q');
    await file(other, 'p', ['x']);
    await file(queue, 'p', ['a', 'b'], 'g1');
    await giveUp(queue, 2, 'g2');
    const answer = await remove(`/api/v1/dlq?queue=${queue}&consumerGroup=g1`);
    assert.deepEqual([answer.status, answer.body], [200, { success: true, queue, consumerGroup: 'g1', deleted: 2 }]);
    assert.deepEqual(
      (await rowsOf(queue)).map(({ consumerGroup }) => consumerGroup),
      ['g2', 'g2'],
    );
    assert.deepEqual((await remove(`/api/v1/dlq?queue=${queue}`)).body, {
      success: true,
      queue,
      consumerGroup: null,
      deleted: 2,
    });
    assert.equal((await remove(`/api/v1/dlq?queue=${freshName('none')}`)).body.deleted, 0);
    const unnamed = await remove('/api/v1/dlq');
    assert.deepEqual([unnamed.status, unnamed.body.success, unnamed.body.error], [400, false, 'queue is required']);
    assert.equal((await rowsOf(other)).length, 1);
    assert.equal((await broker.client.queueRow(queue))?.messages.deadLetter, 0);
  });

  it('replays between encrypted and plain queues as the destination demands', async () => {
    const sealed = freshName('sealed');
    const plain = freshName('plain');
    await broker.client.configure(sealed, { encryptionEnabled: true });
    const [row] = await file(sealed, 'p', [{ secret: 1 }]);
    assert.deepEqual(row.data, { secret: 1 });
    assert.equal((await replay(row.id, { queue: plain })).status, 200);
    assert.deepEqual((await broker.client.pop(plain))[0].data, { secret: 1 });
    const [back] = await file(plain, 'p2', [{ secret: 2 }]);
    assert.equal((await replay(back.id, { queue: sealed, partition: 'p' })).status, 200);
    assert.deepEqual((await broker.client.pop(sealed))[0].data, { secret: 2 });
  });

  // S-018, as far as there is no retention: the row shows all there is, after a restart too
  it('keeps rows, replays and purges over a kill and a stop', async () => {
    const mine = await BrokerProcess.start();
    try {
      await mine.client.push(['a', 'b', 'c'].map((payload) => ({ queue: 'q', partition: 'p', payload })));
      const messages = await mine.client.pop('q');
      await mine.client.ack(messages, 'dlq');
      const { messages: rows } = await mine.client.deadLetters({ queue: 'q' });
      assert.equal(rows.length, 3);
      await mine.client.request('POST', `/api/v1/dlq/${rows[1].id}/replay`);
      await mine.killAndRestart();
      assert.deepEqual((await mine.client.deadLetters({ queue: 'q' })).messages, [rows[0], rows[2]]);
      assert.equal((await mine.client.request('POST', `/api/v1/dlq/${rows[1].id}/replay`)).status, 404);
      assert.deepEqual(
        (await mine.client.pop('q')).map(({ data }) => data),
        ['b'],
      );
      await mine.client.request('DELETE', '/api/v1/dlq?queue=q');
      await mine.restart();
      assert.equal((await mine.client.deadLetters({ queue: 'q' })).total, 0);
    } finally {
      await mine.dispose();
    }
  });

  it('refuses to replay an encrypted payload without the key, and keeps the row', async () => {
    const key = { LANEMQ_ENCRYPTION_KEY: 'cd'.repeat(32) };
    const mine = await BrokerProcess.start({ env: key });
    await mine.client.configure('q', { encryptionEnabled: true });
    await mine.client.push([{ queue: 'q', payload: 'secret' }]);
    await mine.client.ackOne((await mine.client.pop('q'))[0], 'dlq');
    const [row] = (await mine.client.deadLetters({ queue: 'q' })).messages;
    await mine.stop();
    const keyless = await BrokerProcess.start({ dataFolder: mine.dataFolder });
    try {
      const answer = await keyless.client.request<ReplayBody>('POST', `/api/v1/dlq/${row.id}/replay`, {
        json: { queue: 'plain' },
      });
      assert.deepEqual([answer.status, answer.body.reason], [409, 'encryption_key_missing']);
      assert.match(answer.body.error ?? '', /LANEMQ_ENCRYPTION_KEY/);
      assert.equal((await keyless.client.queueRow('q'))?.messages.deadLetter, 1);
    } finally {
      await keyless.dispose();
      await mine.dispose();
    }
  });

  it('redrives what a filter names, in the order of failure, and counts it first when asked to', async () => {
    const queue = freshName('q');
    const count = sized(300, 100_000);
    await file(
      queue,
      'p',
      Array.from({ length: count }, (_, i) => i),
      'g1',
    );
    await giveUp(queue, count, 'g2');
    const filter = { queue, consumerGroup: 'g1', error: 'boom p-t1' };
    const expected = Array.from({ length: count }, (_, i) => i).filter((i) => String(i).startsWith('1'));
    const dry = await redrive({ ...filter, dryRun: true });
    assert.deepEqual([dry.status, dry.body.matched], [200, expected.length]);
    assert.equal((await redrive({ ...filter, max: 5, dryRun: true })).body.matched, 5);
    assert.equal((await redrive({ ...filter, to: '2020-01-01T00:00:00Z', dryRun: true })).body.matched, 0);
    const started = await redrive({ ...filter, destination: { queue: `${queue}-again`, partition: 'x' } });
    assert.equal(started.status, 202);
    const job = await ended(started.body.redrive.id);
    assert.deepEqual([job.state, job.moved, job.failed, job.lastError], ['done', expected.length, 0, null]);
    const { total } = await broker.client.deadLetters({ queue, consumerGroup: 'g1' });
    assert.equal(total, count - expected.length);
    const again = await broker.client.pop(`${queue}-again`, { batch: 10_000 });
    assert.deepEqual(
      again.map(({ data }) => data),
      expected,
    );
    const rest = await ended((await redrive({ queue })).body.redrive.id);
    assert.deepEqual([rest.state, rest.moved], ['done', 2 * count - expected.length]);
    assert.deepEqual(await rowsOf(queue), []);
  });

  it('redrives at most N, at a pace, and stops when it is cancelled', async () => {
    const queue = freshName('q');
    await file(
      queue,
      'p',
      Array.from({ length: 40 }, (_, i) => i),
    );
    const few = await ended((await redrive({ queue, max: 7 })).body.redrive.id);
    assert.deepEqual([few.state, few.moved], ['done', 7]);
    const slowly = (await redrive({ queue, perSecond: 2 })).body.redrive;
    await eventually(async () => (await rowsOf(queue)).length < 33, 5000, 'it has begun');
    const cancelled = await broker.client.request<{ redrive: Redrive }>('DELETE', `/api/v1/dlq/redrive/${slowly.id}`);
    assert.equal(cancelled.body.redrive.state, 'cancelled');
    assert.ok((await rowsOf(queue)).length >= 28);
    const list = await broker.client.request<{ redrives: Redrive[] }>('GET', '/api/v1/dlq/redrive');
    assert.ok(list.body.redrives.some(({ id }) => id === slowly.id));
    assert.equal((await broker.client.request('GET', '/api/v1/dlq/redrive/none')).status, 404);
    for (const json of [
      {},
      { queue, max: 0 },
      { queue, from: 'x' },
      { queue, dryRun: 1 },
      { queue, consumerGrop: 'g' },
      { queue, destination: 'x' },
    ]) {
      assert.equal((await redrive(json)).status, 400, JSON.stringify(json));
    }
  });

  it('waits with a redrive while the destination is full', async () => {
    const queue = freshName('q');
    const full = freshName('full');
    await broker.client.configure(full, { maxSize: 2 });
    await file(queue, 'p', [0, 1, 2]);
    const { id } = (await redrive({ queue, destination: { queue: full } })).body.redrive;
    await eventually(async () => (await rowsOf(queue)).length === 1, 5000, 'two are moved');
    for (const message of await broker.client.pop(full)) await broker.client.ackOne(message);
    const job = await ended(id);
    assert.deepEqual([job.state, job.moved], ['done', 3]);
    assert.match(job.lastError ?? '', /maxSize/);
  });
});
