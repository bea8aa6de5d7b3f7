/** Field scenarios C: what a transactionId is held against, and for how long. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { freshName, type PushResult } from './broker-client.ts';
import { BrokerProcess, sized } from './broker-process.ts';
import { passed } from './clock.ts';

describe('dedup in the field', { concurrency: 16 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-020
  it('answers duplicate with the original id while the original is consumed, leased, dead or delayed', async () => {
    const states: Record<string, (queue: string) => Promise<unknown>> = {
      consumed: async (queue) => broker.client.ack(await broker.client.pop(queue)),
      leased: (queue) => broker.client.pop(queue, { leaseSeconds: 60 }),
      dead: async (queue) => broker.client.ack(await broker.client.pop(queue), 'dlq'),
      delayed: (queue) => broker.client.configure(queue, { delayedProcessing: 3600 }),
    };
    for (const [state, bring] of Object.entries(states)) {
      const queue = freshName(state);
      await broker.client.configure(queue, { dedupWindowSeconds: 300 });
      const [original] = await broker.client.push([{ queue, partition: 'p', transactionId: 't1', payload: 'm1' }]);
      await bring(queue);
      const [repeat] = await broker.client.push([{ queue, partition: 'p', transactionId: 't1', payload: 'other' }]);
      assert.deepEqual(
        [repeat.status, repeat.message_id, repeat.offset],
        ['duplicate', original.message_id, original.offset],
        state,
      );
      assert.deepEqual(await broker.client.pop(queue), [], state);
    }
  });

  // S-022
  it('runs the window from the accepted original; a duplicate does not prolong it', async () => {
    const queue = freshName('q');
    await broker.client.configure(queue, { dedupWindowSeconds: 3 });
    const startedAt = performance.now();
    const statuses: string[] = [];
    for (const atMs of [0, 1500, 2500, 3500, 4500, 6000]) {
      await passed(Math.max(0, startedAt + atMs - performance.now()));
      const [result] = await broker.client.push([{ queue, partition: 'p', transactionId: 't1', payload: 1 }]);
      statuses.push(result.status);
    }
    assert.deepEqual(statuses, ['queued', 'duplicate', 'duplicate', 'queued', 'duplicate', 'duplicate']);
  });

  // S-023, delete of the queue
  it('forgets the ids of a queue that was deleted', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['t1']);
    await broker.client.deleteQueue(queue);
    assert.equal((await broker.client.pushAll(queue, 'p', ['t1']))[0].status, 'queued');
    assert.equal((await broker.client.pushAll(queue, 'p', ['t1']))[0].status, 'duplicate');
  });

  // S-024
  it('keeps the first content of an id and marks the second push as duplicate', async () => {
    const queue = freshName('q');
    const [first] = await broker.client.push([{ queue, transactionId: 't1', payload: { v: 1 } }]);
    const [second] = await broker.client.push([{ queue, transactionId: 't1', payload: { v: 2 } }]);
    assert.deepEqual([second.status, second.message_id], ['duplicate', first.message_id]);
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => message.data),
      [{ v: 1 }],
    );
  });

  // S-025
  it('compares ids byte for byte: no trimming, case folding or normalising', async () => {
    const queue = freshName('q');
    const ids = ['a', 'a ', ' a', 'A', 'a\u0000', '\u00e9', 'e\u0301', 'x'.repeat(255), 'x'.repeat(256), 'null', '0'];
    const push = (transactionId: unknown) =>
      broker.client.request<PushResult[]>('POST', '/api/v1/push', {
        json: { items: [{ queue, partition: 'p', transactionId, payload: transactionId }] },
      });
    for (const [offset, id] of ids.entries()) {
      const answer = await push(id);
      assert.deepEqual(
        [answer.body[0].status, answer.body[0].offset, answer.body[0].transaction_id],
        ['queued', offset, id],
      );
    }
    for (const [offset, id] of ids.entries()) {
      const answer = await push(id);
      assert.deepEqual([answer.body[0].status, answer.body[0].offset], ['duplicate', offset], JSON.stringify(id));
    }
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => message.transactionId),
      ids,
    );
    // The delivered ids are the ones that settle the messages.
    assert.ok((await broker.client.ack(messages)).every((result) => result.success));
  });

  // S-025: escapes are another spelling of the same id
  it('takes an escaped spelling of an id as the same id', async () => {
    const queue = freshName('q');
    const push = (spelling: string) =>
      broker.client.request<PushResult[]>('POST', '/api/v1/push', {
        bytes: `{"items":[{"queue":${JSON.stringify(queue)},"transactionId":${spelling},"payload":1}]}`,
      });
    assert.equal((await push('"a/é\\u00fc"')).body[0].status, 'queued');
    assert.equal((await push('"\\u0061\\/\\u00E9ü"')).body[0].status, 'duplicate');
    const messages = await broker.client.pop(queue);
    assert.equal(messages[0].transactionId, 'a/éü');
  });

  // S-025: "" and null count as missing; anything else that is no string is refused
  it('mints an id for a missing, null or empty one, and refuses ids that are no strings', async () => {
    const queue = freshName('q');
    for (const item of [{}, { transactionId: null }, { transactionId: '' }]) {
      const pair = await broker.client.push([
        { queue, payload: 1, ...item },
        { queue, payload: 1, ...item },
      ]);
      for (const result of pair) {
        assert.deepEqual([result.status, result.transaction_id], ['queued', result.message_id]);
      }
      assert.notEqual(pair[0].message_id, pair[1].message_id);
    }
    for (const transactionId of [0, 1, true, false, {}, [], ['a']]) {
      const answer = await broker.client.request('POST', '/api/v1/push', {
        json: { items: [{ queue, payload: 1, transactionId }] },
      });
      assert.equal(answer.status, 400, JSON.stringify(transactionId));
      assert.equal(answer.body.code, 'bad_body');
    }
    assert.equal((await broker.client.pop(queue)).length, 6);
  });
});

describe('dedup under a crowd', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // S-021
  it('stores one message when a hundred push the same id at once, also when half of them hang up', async () => {
    const queue = freshName('q');
    const rounds = sized(25, 1000);
    const stored: string[] = [];
    for (let round = 0; round < rounds; round++) {
      const transactionId = `t${round}`;
      const answers = await Promise.all(
        Array.from({ length: 100 }, async (_, i): Promise<PushResult | null> => {
          const cut = i % 2 === 0;
          const gone = new AbortController();
          const pushing = broker.client.request<PushResult[]>('POST', '/api/v1/push', {
            json: { items: [{ queue, partition: 'p', transactionId, payload: transactionId }] },
            signal: gone.signal,
          });
          if (cut) setImmediate(() => gone.abort());
          try {
            const answer = await pushing;
            assert.equal(answer.status, 201);
            return answer.body[0];
          } catch (error) {
            if (!cut) throw error;
            return null;
          }
        }),
      );
      const seen = answers.filter((answer) => answer !== null);
      assert.ok(seen.length >= 50);
      assert.ok(seen.filter((answer) => answer.status === 'queued').length <= 1);
      assert.ok(seen.every((answer) => answer.status === 'queued' || answer.status === 'duplicate'));
      const ids = new Set(seen.map((answer) => `${answer.message_id} ${answer.offset}`));
      assert.equal(ids.size, 1);
      assert.equal(seen[0].offset, round);
      stored.push(seen[0].message_id);
    }
    const messages = await broker.client.pop(queue, { batch: 2000 });
    assert.deepEqual(
      messages.map((message) => message.id),
      stored,
    );
  });
});
