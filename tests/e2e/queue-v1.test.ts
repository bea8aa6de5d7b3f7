/** queue/v1: enqueue, poll, commit over a real broker, with restarts. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { freshName } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';

interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  readonly json: any;
}

describe('queue/v1', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  const call = async (method: string, path: string, body?: string): Promise<Answer> => {
    const headers = { 'Content-Type': 'application/json' };
    const init = body === undefined ? { method } : { method, body, headers };
    const response = await fetch(`${broker.url}${path}`, init);
    const text = await response.text();
    return { status: response.status, text, json: text === '' ? null : JSON.parse(text) };
  };

  const newQueue = async (partitions: number): Promise<string> => {
    const namespace = freshName('ns').replaceAll(/[^a-zA-Z0-9_-]/g, '');
    assert.equal((await call('POST', '/graph/v3/databases', JSON.stringify({ database: namespace }))).status, 200);
    const queues = `/queue/v1/namespaces/${namespace}/queues`;
    const request = JSON.stringify({ queue: 'q', storage: 'datastore://ns/q', partitions });
    const { status, json } = await call('POST', queues, request);
    assert.equal(status, 200);
    assert.deepEqual(json, { namespace, queue: 'q', partitions, storage: 'datastore://ns/q' });
    return `${queues}/q`;
  };

  it('places keys as the vectors of the contract say', async () => {
    const queue = await newQueue(30);
    const expected: [string, number][] = [
      ['', 19],
      ['user1', 25],
      ['user-1', 11],
      ['카카오', 3],
      ['\u{1f600}', 16],
      ['a'.repeat(64), 23],
      ['a\ud800b', 11],
      ['\u0000', 20],
    ];
    const messages = expected.map(([key]) => ({ key, seq: 1 }));
    const { json } = await call('POST', `${queue}/messages`, JSON.stringify({ messages }));
    assert.equal(json.accepted, expected.length);
    const found = json.results.map((each: { partition: number }) => each.partition);
    assert.deepEqual(
      found,
      expected.map(([, partition]) => partition),
    );
    const ids: string[] = json.results.map((each: { id: string }) => each.id);
    for (const id of ids) assert.match(id, /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
    assert.deepEqual([...ids].sort(), ids);
  });

  it('returns seq digit for digit and values byte for byte, also after a kill and a stop', async () => {
    const queue = await newQueue(1);
    const seqs = ['-9223372036854775808', '-1', '0', '9007199254740993', '9223372036854775807'];
    const values = ['12345678901234567890', '{"a":1.0,"a":1e400}', 'null', '-0', '"x\\u0041"'];
    const body = `{"messages":[${seqs.map((seq, i) => `{"key":"k","seq":${seq},"value":${values[i]}}`).join(',')}]}`;
    assert.equal((await call('POST', `${queue}/messages`, body)).status, 200);
    const poll = async (): Promise<void> => {
      const { text } = await call('GET', `${queue}/partitions/0/poll`);
      for (const [i, seq] of seqs.entries()) assert.ok(text.includes(`"seq":${seq},"value":${values[i]}}`), text);
      assert.ok(text.includes('"offset":9223372036854775807,"hasNext":false'), text);
    };
    await poll();
    await broker.killAndRestart();
    await poll();
    await broker.restart();
    await poll();
    const { json } = await call('DELETE', `${queue}/partitions/0/messages?offset=0`);
    assert.equal(json.committed, 3);
    await broker.killAndRestart();
    assert.equal((await call('GET', `${queue}/partitions/0/poll`)).json.messages.length, 2);
    const beyond = await call('GET', `${queue}/partitions/0/poll?offset=9223372036854775807&until=5`);
    assert.deepEqual(beyond.json.messages, []);
  });

  it('never splits messages of one seq, and keeps late messages from a commit with a watermark', async () => {
    const queue = await newQueue(1);
    const messages = [1, 5, 5, 5, 9].map((seq) => ({ key: 'k', seq }));
    await call('POST', `${queue}/messages`, JSON.stringify({ messages }));
    const first = (await call('GET', `${queue}/partitions/0/poll?limit=3`)).json;
    assert.deepEqual([first.messages.length, first.offset, first.hasNext], [1, 1, true]);
    const second = (await call('GET', `${queue}/partitions/0/poll?limit=2&offset=1`)).json;
    assert.deepEqual([second.messages.length, second.offset, second.hasNext], [3, 5, true]);
    await call('POST', `${queue}/messages`, JSON.stringify({ messages: [{ key: 'k', seq: 2, value: 'late' }] }));
    const commit = await call('DELETE', `${queue}/partitions/0/messages?offset=5&watermark=${second.watermark}`);
    assert.equal(commit.json.committed, 4);
    const rest = (await call('GET', `${queue}/partitions/0/poll`)).json.messages;
    assert.deepEqual(
      rest.map((each: { seq: number }) => each.seq),
      [2, 9],
    );
    assert.equal((await call('DELETE', `${queue}/partitions/0/messages?offset=9`)).json.committed, 2);
    assert.equal((await call('DELETE', `${queue}/partitions/0/messages?offset=9`)).json.committed, 0);
  });

  it('refuses what the contract refuses, and writes nothing then', async () => {
    const queue = await newQueue(2);
    const bad = [
      '{"messages":[{"key":"a","seq":1},{"key":null,"seq":1}]}',
      '{"messages":[{"key":"a"}]}',
      '{"messages":[{"key":"a","seq":"1"}]}',
      '{"messages":[{"key":"a","seq":1e3}]}',
      '{"messages":[{"key":"a","seq":9223372036854775808}]}',
      '{"messages":null}',
      '[]',
      'x',
    ];
    for (const body of bad) assert.equal((await call('POST', `${queue}/messages`, body)).status, 400, body);
    assert.deepEqual((await call('POST', `${queue}/messages`, '{"messages":[]}')).json, { accepted: 0, results: [] });
    const limit = await call('GET', `${queue}x/partitions/0/poll?limit=1001`);
    assert.deepEqual([limit.status, limit.json.message], [400, 'limit must be in 1..1000, got 1001']);
    const partition = await call('GET', `${queue}/partitions/2/poll`);
    assert.deepEqual([partition.status, partition.json.message], [400, 'partition must be in 0..1, got 2']);
    assert.equal((await call('GET', `${queue}x/partitions/0/poll`)).status, 404);
    assert.equal((await call('DELETE', `${queue}/partitions/0/messages`)).status, 400);
    assert.equal((await call('GET', `${queue}/partitions/0/poll`)).json.offset, null);
    assert.equal((await call('DELETE', queue)).status, 409);
    assert.equal((await call('PUT', `${queue}/disable`)).status, 200);
    assert.equal((await call('GET', `${queue}/partitions/0/poll`)).status, 409);
    assert.equal((await call('DELETE', queue)).status, 204);
    assert.equal((await call('GET', queue)).status, 404);
    assert.equal((await call('DELETE', queue)).status, 404);
  });
});
