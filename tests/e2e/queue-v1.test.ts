/** queue/v1: enqueue, poll, commit over a real broker, with restarts. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { BrokerProcess } from './broker-process.ts';
import { EdgeClient, type Refused } from './edge-client.ts';

describe('queue/v1', () => {
  let broker: BrokerProcess;
  let client: EdgeClient;
  before(async () => {
    broker = await BrokerProcess.start();
    client = new EdgeClient(broker);
  });
  after(() => broker.dispose());

  const call: EdgeClient['call'] = (...request) => client.call(...request);
  const newQueue = (partitions: number, more?: object): Promise<string> => client.newQueue(partitions, more);

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

  it('spreads ten thousand keys as the contract says', async () => {
    const queue = await newQueue(30);
    const counts = new Array<number>(30).fill(0);
    for (let from = 0; from < 10_000; from += 1000) {
      const messages = Array.from({ length: 1000 }, (_, i) => ({ key: `key-${from + i}`, seq: 1 }));
      for (const { partition } of (await client.enqueue(queue, messages)).results) counts[partition]++;
    }
    assert.deepEqual([Math.min(...counts), Math.max(...counts)], [302, 383]);
    const { depth, byPartition } = await client.get(`${queue}/depth`);
    assert.equal(depth, 10_000);
    assert.deepEqual(
      byPartition.map((each: { depth: number }) => each.depth),
      counts,
    );
  });

  it('gives descriptors in every condition, and keeps what a disabled queue holds', async () => {
    const queue = await newQueue(3);
    const descriptor = await client.get(queue);
    const { namespace } = descriptor;
    await client.enqueue(queue, [{ key: 'k', seq: 1 }]);
    for (const action of ['enable', 'enable', 'disable', 'disable']) {
      assert.deepEqual(await client.send('PUT', `${queue}/${action}`), descriptor);
      assert.deepEqual(await client.get(queue), descriptor);
      assert.deepEqual(await client.get(`${queue}/partitions`), { namespace, queue: 'q', partitions: 3 });
    }
    await client.send('PUT', `${queue}/enable`);
    assert.equal((await client.get(`${queue}/depth`)).depth, 1);
    const again = await call('POST', queue.slice(0, -2), '{"queue":"default","storage":"datastore://ns/d"}');
    assert.equal(again.json.partitions, 30);
    await client.send('PUT', `${queue}/disable`);
    assert.equal((await call('DELETE', queue)).text, '');
    assert.equal((await call('GET', queue)).status, 404);
    // Its rows are gone with it.
    await client.send('POST', queue.slice(0, -2), { queue: 'q', storage: 'datastore://ns/q', partitions: 3 });
    assert.equal((await client.get(`${queue}/depth`)).depth, 0);
  });

  it('reads parameters as strictly as the contract asks', async () => {
    const queue = await newQueue(1);
    await client.enqueue(
      queue,
      [-5, 10, 20].map((seq) => ({ key: 'k', seq })),
    );
    const poll = `${queue}/partitions/0/poll`;
    const seqs = async (query: string): Promise<number[]> =>
      (await client.get(`${poll}?${query}`)).messages.map((each: { seq: number }) => each.seq);
    assert.deepEqual(await seqs('limit=&offset=&until='), [-5, 10, 20]);
    assert.deepEqual(await seqs('unknown=1'), [-5, 10, 20]);
    assert.deepEqual(await seqs('offset=0'), [10, 20]);
    assert.deepEqual(await seqs('offset=-5&until=10'), [10]);
    assert.deepEqual(await seqs('offset=10&until=10'), []);
    assert.deepEqual(await client.get(`${poll}?offset=15&until=10`), {
      messages: [],
      offset: 15,
      hasNext: false,
      watermark: '3',
    });
    assert.deepEqual((await client.get(`${poll}?limit=1&until=10`)).hasNext, true);
    assert.deepEqual((await client.get(`${poll}?limit=2&until=10`)).hasNext, false);
    assert.deepEqual((await client.get(`${poll}?offset=9223372036854775807`)).messages, []);
    assert.deepEqual((await client.send('DELETE', `${queue}/partitions/0/messages?offset=-6`)).committed, 0);
    assert.deepEqual((await client.send('DELETE', `${queue}/partitions/0/messages?offset=-5`)).committed, 1);
    const refusedValues = ['x', '0x10', '1.5', '1e3', ' 1', '+1', '9223372036854775808', '-9223372036854775809'];
    for (const value of refusedValues) {
      for (const name of ['offset', 'until', 'limit']) {
        await client.refused(['GET', `${poll}?${name}=${encodeURIComponent(value)}`, undefined, 400, name]);
      }
      const commit = `${queue}/partitions/0/messages?offset=${encodeURIComponent(value)}`;
      await client.refused(['DELETE', commit, undefined, 400, 'offset']);
    }
  });

  it('refuses each request that its contract refuses, with its status, its body and no effect', async () => {
    const queue = await newQueue(2);
    const queues = queue.slice(0, -2);
    const namespace = queues.split('/')[4];
    const table = `/graph/v3/databases/${namespace}/tables`;
    const schema = {
      type: 'IMMUTABLE_EDGE',
      source: { type: 'LONG' },
      target: { type: 'STRING' },
      direction: 'OUT',
      indexes: [],
    };
    await client.send('POST', table, { table: 'plain', schema, storage: 'datastore://ns/plain' });
    const disabled = await newQueue(2);
    await client.send('PUT', `${disabled}/disable`);
    const storage = '"storage":"datastore://ns/q"';
    const messages = (text: string): string => `{"messages":[${text}]}`;
    const one = messages('{"key":"k","seq":1}');
    const creations: Refused[] = [
      ['POST', queues, `{"queue":"q",${storage}}`, 409, 'exists'],
      ['POST', queues, `{"queue":"plain",${storage}}`, 409, 'exists'],
      ['POST', queues.replace(namespace, 'nowhere'), `{"queue":"n",${storage}}`, 400, 'ddl create failed'],
      ...['0', '-1', '10001', 'null', '"30"', '30.5'].map((count): Refused => {
        return ['POST', queues, `{"queue":"n",${storage},"partitions":${count}}`, 400, 'partitions must be'];
      }),
      ...['""', '" "', '"a/b"', '"1a"', '"a b"', `"${'a'.repeat(65)}"`, 'null', '7'].map((name): Refused => {
        return ['POST', queues, `{"queue":${name},${storage}}`, 400, 'queue must'];
      }),
      ['POST', queues, '{"queue":"n"}', 400, 'storage must'],
      ['POST', queues, '{"queue":"n","storage":null}', 400, 'storage must'],
      ...['other', 'datastore://', 'datastore://ns', 'datastore://ns/a/b', 'datastore://NS/q', 'DATASTORE://ns/q'].map(
        (uri): Refused => ['POST', queues, `{"queue":"n","storage":"${uri}"}`, 400, 'storage must'],
      ),
      ['POST', queues, `{"queue":"n",${storage},"dedupWindowMs":0}`, 400, 'dedupWindowMs must'],
      ['POST', queues, `{"queue":"n",${storage},"dedupWindowMs":"1"}`, 400, 'dedupWindowMs must'],
      ['POST', queues, '[]', 400, 'JSON object'],
      ['POST', queues, 'x', 400, 'JSON object'],
    ];
    const enqueues: Refused[] = [
      [messages('{"key":"a","seq":1},{"key":null,"seq":1}'), 'messages[1].key is missing'],
      [messages('{"seq":1}'), 'key is missing'],
      [messages('{"key":1,"seq":1}'), 'key must be a string'],
      [messages('{"key":true,"seq":1}'), 'key must be a string'],
      [messages('{"key":"a"}'), 'seq must be'],
      [messages('{"key":"a","seq":null}'), 'seq must be'],
      [messages('{"key":"a","seq":"1"}'), 'seq must be'],
      [messages('{"key":"a","seq":1.5}'), 'seq must be'],
      [messages('{"key":"a","seq":12.0}'), 'seq must be'],
      [messages('{"key":"a","seq":1e3}'), 'seq must be'],
      [messages('{"key":"a","seq":9223372036854775808}'), 'seq must be'],
      [messages('{"key":"a","seq":-9223372036854775809}'), 'seq must be'],
      [messages('{"key":"a","seq":1,"dedupId":7}'), 'dedupId must be'],
      [messages('{"key":"a","seq":1,"dedupId":""}'), 'dedupId must be'],
      [messages('{"key":"a","seq":1,"dedupId":"\\ud800"}'), 'half of a surrogate pair'],
      [messages('7'), 'messages[0] is not an object'],
      ['{"messages":null}', 'messages must be an array'],
      ['{}', 'messages must be an array'],
      ['[]', 'messages must be an array'],
      ['x', 'invalid JSON'],
      ['', ''],
    ].map(([body, part]): Refused => ['POST', `${queue}/messages`, body, 400, part]);
    const poll = `${queue}/partitions/0/poll`;
    const commit = `${queue}/partitions/0/messages`;
    const reads: Refused[] = [
      ...['0', '-1', '1001', '2147483647'].map((limit): Refused => {
        return [
          'GET',
          `${queue}x/partitions/0/poll?limit=${limit}`,
          undefined,
          400,
          `limit must be in 1..1000, got ${limit}`,
        ];
      }),
      ['GET', `${poll}?limit=2147483648`, undefined, 400, 'limit must be an integer of 32 bits'],
      ['GET', `${poll}?limit=1&limit=1`, undefined, 400, 'given twice'],
      ['GET', `${poll}?offset=1&after=1,${'0'.repeat(26)}`, undefined, 400, 'exclude each other'],
      ['GET', `${poll}?after=1`, undefined, 400, 'the id of after'],
      ['GET', `${poll}?after=1,${'0'.repeat(26)},1`, undefined, 400, 'the id of after'],
      ['GET', `${poll}?after=x,${'0'.repeat(26)}`, undefined, 400, 'the seq of after'],
      ['GET', `${poll}?waitMs=30001`, undefined, 400, 'waitMs must be in 0..30000'],
      ['GET', `${poll}?waitMs=-1`, undefined, 400, 'waitMs must be in 0..30000'],
      ['GET', `${poll}?longs=number`, undefined, 400, 'longs must be'],
      ['DELETE', commit, undefined, 400, 'offset is required'],
      ['DELETE', `${commit}?offset=`, undefined, 400, 'offset is required'],
      ['DELETE', `${commit}?offset=1&offset=2`, undefined, 400, 'given twice'],
      ['DELETE', `${commit}?offset=1&watermark=x`, undefined, 400, 'watermark'],
      ['DELETE', `${commit}?offset=1&id=x`, undefined, 400, 'id must be the id of a message'],
    ];
    for (const [text, part] of [
      ['2', 'partition must be in 0..1, got 2'],
      ['-1', 'partition must be in 0..1, got -1'],
      ['x', 'partition must be an integer'],
      ['1.0', 'partition must be an integer'],
      ['2147483648', 'partition must be an integer'],
    ]) {
      reads.push(['GET', `${queue}/partitions/${text}/poll`, undefined, 400, part]);
      reads.push(['DELETE', `${queue}/partitions/${text}/messages?offset=1`, undefined, 400, part]);
    }
    /** Every route of a queue, by what it is asked of. */
    const everyRoute = (of: string, status: number, part: string): Refused[] => [
      ['POST', `${of}/messages`, one, status, part],
      ['GET', `${of}/partitions/0/poll`, undefined, status, part],
      ['DELETE', `${of}/partitions/0/messages?offset=1`, undefined, status, part],
      ['DELETE', `${of}/messages`, undefined, status, part],
    ];
    const descriptors = (of: string, status: number, part: string): Refused[] => [
      ['GET', of, undefined, status, part],
      ['DELETE', of, undefined, status, part],
      ['PUT', `${of}/enable`, undefined, status, part],
      ['PUT', `${of}/disable`, undefined, status, part],
      ['GET', `${of}/partitions`, undefined, status, part],
      ['GET', `${of}/depth`, undefined, status, part],
    ];
    const conditions: Refused[] = [
      ...everyRoute(`${queues}/missing`, 404, 'no queue'),
      ...descriptors(`${queues}/missing`, 404, 'no queue'),
      ...everyRoute(`${queues}/plain`, 400, 'is not a queue/v1 table'),
      ...descriptors(`${queues}/plain`, 400, 'is not a queue/v1 table'),
      ...everyRoute(disabled, 409, 'queue is disabled'),
      ['DELETE', queue, undefined, 409, 'queue is enabled'],
      ['GET', queues.replace(namespace, 'nowhere'), undefined, 404, 'no namespace'],
      ['PATCH', queue, undefined, 405, 'is not a method'],
      ['GET', `${queue}/nothing`, undefined, 404, 'there is no'],
      ['GET', `${queues}/%ff`, undefined, 400, 'percent-encoding'],
    ];
    for (const refused of [...creations, ...enqueues, ...reads, ...conditions]) await client.refused(refused);
    await client.refused(['POST', `${queue}/messages`, one, 415, 'Content-Type'], 'text/plain');
    await client.refused(['POST', queues, `{"queue":"n",${storage}}`, 415, 'Content-Type'], 'text/plain');
    const many = messages(new Array(1001).fill('{"key":"k","seq":1}').join(','));
    await client.refused(['POST', `${queue}/messages`, many, 413, 'more than 1000 messages']);
    const large = messages(`{"key":"k","seq":1,"value":"${'x'.repeat(256 * 1024)}"}`);
    await client.refused(['POST', `${queue}/messages`, large, 413, 'value has more than']);
    const huge = messages(`{"key":"k","seq":1,"other":"${'x'.repeat(4 * 1024 * 1024)}"}`);
    await client.refused(['POST', `${queue}/messages`, huge, 413, '']);
    assert.deepEqual(await client.enqueue(queue, []), { accepted: 0, results: [] });
    assert.equal((await client.get(`${queue}/depth`)).depth, 0);
    assert.equal((await client.get(queues)).count, 1);
    assert.deepEqual(await client.get(poll), { messages: [], offset: null, hasNext: false, watermark: '0' });
  });

  it('counts a message once, however many commits come at the same time', async () => {
    const queue = await newQueue(1);
    await client.enqueue(
      queue,
      Array.from({ length: 500 }, (_, seq) => ({ key: 'k', seq })),
    );
    const commits = Array.from({ length: 20 }, (_, i) =>
      client.send('DELETE', `${queue}/partitions/0/messages?offset=${i * 25 + 24}`),
    );
    const counts: number[] = (await Promise.all(commits)).map(({ committed }) => committed);
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      500,
    );
    assert.equal((await client.get(`${queue}/depth`)).depth, 0);
  });
});

describe('what queue/v1 has beside its contract', () => {
  let broker: BrokerProcess;
  let client: EdgeClient;
  before(async () => {
    broker = await BrokerProcess.start();
    client = new EdgeClient(broker);
  });
  after(() => broker.dispose());

  it('takes and gives numbers of 64 bits as strings', async () => {
    const queue = await client.newQueue(1);
    const seqs = ['-9223372036854775808', '9007199254740993', '9223372036854775807'];
    const mixed = [...seqs.map((seq) => ({ key: 'k', seq })), { key: 'k', seq: 7 }];
    assert.equal((await client.enqueue(queue, mixed, '?longs=string')).accepted, 4);
    const page = await client.get(`${queue}/partitions/0/poll?longs=string`);
    assert.deepEqual(
      page.messages.map((each: { seq: string }) => each.seq),
      [seqs[0], '7', seqs[1], seqs[2]],
    );
    assert.equal(page.offset, '9223372036854775807');
    assert.equal(
      (await client.get(`${queue}/partitions/0/poll?longs=string&offset=${page.offset}`)).offset,
      page.offset,
    );
    const { byPartition } = await client.get(`${queue}/depth?longs=string`);
    assert.deepEqual([byPartition[0].firstSeq, byPartition[0].lastSeq], [seqs[0], seqs[2]]);
  });

  it('pages behind a message, and commits up to one, inside a run of one seq', async () => {
    const queue = await client.newQueue(1);
    const values = Array.from({ length: 10 }, (_, i) => i);
    const poll = `${queue}/partitions/0/poll`;
    await client.enqueue(
      queue,
      values.map((value) => ({ key: 'k', seq: 5, value })),
    );
    const got: number[] = [];
    let after = `-9223372036854775808,${'0'.repeat(26)}`;
    for (let hasNext = true; hasNext; ) {
      const page = await client.get(`${poll}?limit=3&after=${after}`);
      got.push(...page.messages.map((each: { value: number }) => each.value));
      after = `${page.offset},${page.lastId}`;
      hasNext = page.hasNext;
    }
    assert.deepEqual(got, values);
    const empty = await client.get(`${poll}?after=${after}`);
    assert.deepEqual([empty.messages, `${empty.offset},${empty.lastId}`], [[], after]);
    const { messages } = await client.get(poll);
    const commit = `${queue}/partitions/0/messages?offset=5&id=${messages[3].id}`;
    assert.equal((await client.send('DELETE', commit)).committed, 4);
    assert.equal((await client.send('DELETE', commit)).committed, 0);
    assert.equal((await client.get(poll)).messages[0].value, 4);
  });

  it('asks for the compound cursor when a run of one seq is too long for a page', async () => {
    const queue = await client.newQueue(1);
    const messages = Array.from({ length: 1000 }, () => ({ key: 'k', seq: 5 }));
    for (let i = 0; i < 10; i++) await client.enqueue(queue, messages);
    assert.equal((await client.get(`${queue}/partitions/0/poll?limit=1`)).messages.length, 10_000);
    await client.enqueue(queue, [{ key: 'k', seq: 5 }]);
    await client.refused(['GET', `${queue}/partitions/0/poll`, undefined, 409, 'seq run too long']);
    const first = await client.get(`${queue}/partitions/0/poll?limit=1000&after=0,${'0'.repeat(26)}`);
    assert.deepEqual([first.messages.length, first.hasNext], [1000, true]);
  });

  it('waits for a message, for its due time, and not longer than asked', async () => {
    const queue = await client.newQueue(1);
    const poll = `${queue}/partitions/0/poll`;
    const waiting = client.get(`${poll}?waitMs=30000&until=5`);
    await client.enqueue(queue, [{ key: 'k', seq: 9 }]);
    await client.enqueue(queue, [{ key: 'k', seq: 4, value: 'in range' }]);
    assert.equal((await waiting).messages[0].value, 'in range');
    await client.send('DELETE', `${queue}/messages`);
    const dueMs = Date.now() + 700;
    await client.enqueue(queue, [{ key: 'k', seq: dueMs, value: 'due' }]);
    assert.deepEqual((await client.get(`${poll}?until=now`)).messages, []);
    assert.equal((await client.get(`${poll}?until=now&waitMs=20000`)).messages[0].value, 'due');
    assert.ok(Date.now() >= dueMs - 5);
    const began = Date.now();
    assert.deepEqual((await client.get(`${poll}?offset=${dueMs}&waitMs=300`)).messages, []);
    assert.ok(Date.now() - began >= 290);
  });

  it('answers a known dedupId with the message it first stood for', async () => {
    const queue = await client.newQueue(4, { dedupWindowMs: 60_000 });
    const first = await client.enqueue(queue, [{ key: 'a', seq: 1, dedupId: 'x' }]);
    const second = await client.enqueue(queue, [
      { key: 'b', seq: 2, dedupId: 'x' },
      { key: 'b', seq: 3, dedupId: 'y', value: 'kept' },
      { key: 'c', seq: 4, dedupId: 'y' },
      { key: 'c', seq: 5 },
    ]);
    assert.equal(second.accepted, 2);
    const statuses = second.results.map((each: { status: string }) => each.status);
    assert.deepEqual(statuses, ['DUPLICATE', 'CREATED', 'DUPLICATE', 'CREATED']);
    assert.equal(second.results[0].id, first.results[0].id);
    assert.equal(second.results[0].partition, first.results[0].partition);
    assert.equal(second.results[2].id, second.results[1].id);
    await broker.killAndRestart();
    const third = await client.enqueue(queue, [{ key: 'z', seq: 9, dedupId: 'y' }]);
    assert.deepEqual([third.accepted, third.results[0].id], [0, second.results[1].id]);
    assert.equal((await client.get(`${queue}/depth`)).depth, 3);
  });

  it('lists queues with their depth and lag, and purges one', async () => {
    const queue = await client.newQueue(2);
    const queues = queue.slice(0, -2);
    await client.enqueue(
      queue,
      [5, 3, 8].map((seq) => ({ key: 'k', seq })),
    );
    const { count, queues: rows } = await client.get(queues);
    assert.equal(count, 1);
    assert.deepEqual(Object.keys(rows[0]), ['namespace', 'queue', 'partitions', 'storage', 'active', 'depth', 'lagMs']);
    assert.deepEqual([rows[0].depth, rows[0].active], [3, true]);
    const { byPartition } = await client.get(`${queue}/depth`);
    assert.equal(byPartition.length, 1);
    assert.deepEqual([byPartition[0].depth, byPartition[0].firstSeq, byPartition[0].lastSeq], [3, 3, 8]);
    assert.ok(byPartition[0].lagMs >= 0 && byPartition[0].lagMs < 60_000);
    assert.equal((await client.send('DELETE', `${queue}/messages`)).purged, 3);
    assert.equal((await client.send('DELETE', `${queue}/messages`)).purged, 0);
    assert.deepEqual((await client.get(`${queue}/partitions/0/poll`)).messages, []);
  });
});
