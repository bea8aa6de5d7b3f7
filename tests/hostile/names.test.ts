/** Names that need escaping, and parameters that make no sense: each works everywhere or is refused, never a third thing. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { chooseSeed, SeededRandom } from '../crash/seeded-random.ts';
import { type ErrorBody, freshName } from '../e2e/broker-client.ts';
import { BrokerProcess } from '../e2e/broker-process.ts';
import { RawConnection } from '../e2e/raw-connection.ts';

let broker: BrokerProcess;

before(async () => {
  broker = await BrokerProcess.start();
});

after(async () => {
  await broker.dispose();
});

const oddNames = [
  'a/b',
  'a%2Fb',
  'a%252Fb',
  'a+b',
  'a b',
  ' lead and trail ',
  'a?b#c',
  '.',
  '..',
  '../..',
  'x/../../health',
  '/',
  '//',
  '%',
  '%zz',
  '%00',
  'ü',
  'u\u0308',
  '😀',
  '"quoted"',
  "'single'",
  '<b>&amp;',
  'line\nbreak',
  'carriage\rreturn',
  'tab\t',
  'nul\u0000inside',
  'bell\u0007',
  '\u007f',
  '\u2028',
  '\u202eright to left',
  ':',
  ';a=b',
  '\\',
  '{}',
  '*',
  'partition',
  '__proto__',
  'constructor',
  'null',
  'undefined',
  '0',
  'Default',
];

describe('names', () => {
  // S-073
  it('any name works for queues, partitions, groups and ids on every route when percent-encoded once', async () => {
    const { client } = broker;
    const stem = freshName('n');
    for (const name of oddNames) {
      const queue = `${stem}${name}`;
      const what = JSON.stringify(name);
      const [pushed] = await client.push([{ queue, partition: name, transactionId: name, payload: name }]);
      assert.equal(pushed.status, 'queued', what);
      assert.equal(pushed.queueName, queue);
      assert.equal(pushed.transaction_id, name);
      assert.deepEqual(await client.pop(queue, { partition: `${name}x`, group: name, mode: 'all' }), [], what);
      const [message] = await client.pop<string>(queue, { partition: name, group: name, mode: 'all' });
      assert.ok(message !== undefined, `${what}: the pinned pop finds it`);
      assert.equal(message.data, name);
      assert.equal(message.partition, name);
      assert.equal(message.transactionId, name);
      assert.equal(message.consumerGroup, name);
      const [ack] = await client.ackItems(name, [
        { transactionId: name, partitionId: message.partitionId, leaseId: message.leaseId, status: 'dlq', error: name },
      ]);
      assert.ok(ack.success && ack.dlq, `${what}: dead-lettered`);
      const page = await client.deadLetters<string>({ queue, consumerGroup: name });
      assert.equal(page.messages.length, 1, `${what}: listed as a dead letter`);
      assert.equal(page.messages[0].errorMessage, name);
      assert.equal(page.messages[0].partition, name);
      assert.equal(page.messages[0].data, name);
      const detail = await client.queueDetail(queue);
      assert.equal(detail.name, queue);
      assert.deepEqual(
        detail.partitions.map((partition) => partition.name),
        [name],
        what,
      );
      assert.equal((await client.configure(queue, { leaseTime: 7 })).queue, queue);
      assert.equal((await client.queueDetail(queue)).options.leaseTime, 7, what);
    }
    const listed = new Set((await client.queues()).map((row) => row.name));
    for (const name of oddNames) assert.ok(listed.has(`${stem}${name}`), JSON.stringify(name));
    const metrics = await client.request('GET', '/metrics/prometheus');
    assert.equal(metrics.status, 200);
    for (const line of metrics.bytes.toString().split('\n')) {
      assert.match(
        line,
        /^(#.*|[a-zA-Z_:][\w:]*(\{([a-z_]+="(\\.|[^"\\\n])*",?)*\})? [-+\d.eENnaIif]+|)$/,
        `the metrics line ${line}`,
      );
    }
    for (const name of oddNames) assert.equal((await client.deleteQueue(`${stem}${name}`)).deleted, true, name);
    for (const name of oddNames) assert.equal(await client.queueExists(`${stem}${name}`), false, name);
  });

  // S-073
  it('names made of dots and slashes alone reach their queue and no other route', async () => {
    const { client } = broker;
    for (const name of ['.', '..', '../..', 'x/../../health', '/', '%2e%2e', '..%2f..']) {
      await client.pushAll(name, 'Default', [`in ${name}`]);
      const [message] = await client.pop(name);
      assert.equal(message?.data, `in ${name}`);
      assert.equal((await client.deleteQueue(name)).deleted, true);
    }
  });

  // S-073
  it('a path that is not percent-encoded rightly is refused, and one with too many parts is no route', async () => {
    const cases: readonly (readonly [string, number])[] = [
      ['/api/v1/pop/queue/%', 400],
      ['/api/v1/pop/queue/%zz', 400],
      ['/api/v1/pop/queue/%e9', 400],
      ['/api/v1/pop/queue/%ff%fe', 400],
      ['/api/v1/pop/queue/%c0%80', 400],
      ['/api/v1/pop/queue/%ed%a0%80', 400],
      ['/api/v1/pop/queue/a?consumerGroup=%', 400],
      ['/api/v1/pop/queue/a?consumerGroup=%ff', 400],
      ['/api/v1/pop/queue/a/b', 404],
      ['/api/v1/pop/queue/a/partition/b/c', 404],
      ['/api/v1/pop/queue/a/../../../../health', 404],
      ['/api/v1/../../health', 404],
      ['/api/v1/nothing', 404],
      ['/api', 404],
    ];
    for (const [path, status] of cases) {
      const connection = await RawConnection.open(broker.client.port);
      connection.write(`GET ${path} HTTP/1.1\r\nHost: b\r\n\r\n`);
      const answer = await connection.nextAnswer();
      connection.destroy();
      assert.equal(answer?.status, status, `${path}: ${answer?.body}`);
      const body = JSON.parse(answer.body) as ErrorBody;
      assert.equal(typeof body.error, 'string', path);
    }
  });

  // Contract 2.2
  it('the name budget counts bytes, and one byte more is refused everywhere', async () => {
    const { client } = broker;
    const queue = freshName('budget');
    const room = 411 - queue.length;
    const fits = '😀'.repeat(Math.floor(room / 4)) + 'x'.repeat(room % 4);
    const tooLong = `${fits}x`;
    const [pushed] = await client.push([{ queue, partition: fits, payload: 1 }]);
    assert.equal(pushed.status, 'queued');
    assert.equal((await client.pop(queue, { partition: fits, group: fits, mode: 'all' })).length, 1);
    const refusals = [
      client.request('POST', '/api/v1/push', { json: { items: [{ queue, partition: tooLong, payload: 1 }] } }),
      client.request('POST', '/api/v1/push', { json: { items: [{ queue: 'q'.repeat(412), payload: 1 }] } }),
      client.request('GET', `/api/v1/pop/queue/${queue}/partition/${encodeURIComponent(tooLong)}`),
      client.request('GET', `/api/v1/pop/queue/${queue}?consumerGroup=${encodeURIComponent(tooLong)}`),
      client.request('POST', '/api/v1/ack', {
        json: { transactionId: 'a', partitionId: '1', consumerGroup: 'g'.repeat(412) },
      }),
      client.request('POST', '/api/v1/configure', { json: { queue: 'q'.repeat(412) } }),
    ];
    for (const answer of await Promise.all(refusals)) {
      assert.equal(answer.status, 413, answer.bytes.toString());
      assert.equal(answer.body.code, 'name_too_long');
      assert.match(answer.body.error, /447/);
    }
  });

  // S-025
  it('transactionIds are compared byte for byte, up to 65,535 bytes', async () => {
    const { client } = broker;
    const queue = freshName('ids');
    const ids = [
      'a',
      'a ',
      ' a',
      'A',
      'a\u0000',
      'é',
      'e\u0301',
      'x'.repeat(255),
      'x'.repeat(256),
      '😀'.repeat(16_383),
    ];
    for (const round of ['queued', 'duplicate']) {
      for (const transactionId of ids) {
        const [result] = await client.push([{ queue, transactionId, payload: 1 }]);
        assert.equal(result.status, round, JSON.stringify(transactionId.slice(0, 20)));
      }
    }
    const json = { items: [{ queue, transactionId: 'x'.repeat(65_536), payload: 1 }] };
    const answer = await client.request('POST', '/api/v1/push', { json });
    assert.equal(answer.status, 400);
    assert.equal(answer.body.code, 'bad_body');
    assert.match(answer.body.error, /\b0\b/, 'the item is named');
  });
});

describe('parameters that make no sense', () => {
  // S-076, contract 4.2
  it('pop parameters are clamped, ignored or refused as the contract says', async () => {
    const { client } = broker;
    const queue = freshName('pops');
    await client.pushAll(queue, 'p', ['a', 'b', 'c']);
    const cases: readonly (readonly [string, number])[] = [
      ['batch=0', 200],
      ['batch=-1', 200],
      ['batch=1000000000', 200],
      ['batch=1.5', 400],
      ['batch=%22ten%22', 400],
      ['batch=', 400],
      ['batch=NaN', 400],
      ['batch=1e3', 400],
      ['batch=99999999999999999999999', 200],
      ['partitions=0', 200],
      ['partitions=65', 200],
      ['partitions=-7', 200],
      ['partitions=many', 400],
      ['leaseSeconds=0', 200],
      ['leaseSeconds=-1', 200],
      ['leaseSeconds=x', 400],
      ['wait=yes', 400],
      ['wait=1', 400],
      ['autoAck=perhaps', 400],
      ['timeout=abc', 400],
      ['subscriptionMode=donee', 200],
      ['subscriptionFrom=yesterday', 204],
      ['unknown=parameter&x=y', 200],
      ['conflation=true', 400],
    ];
    for (const [index, [query, status]] of cases.entries()) {
      const mode = query.startsWith('subscription') ? '' : 'subscriptionMode=all&';
      const group = query.startsWith('conflation') ? '' : `consumerGroup=g${index}&${mode}`;
      const answer = await client.request<ErrorBody>('GET', `/api/v1/pop/queue/${queue}?${group}${query}`);
      assert.equal(answer.status, status, `${query}: ${answer.status} ${answer.bytes.toString().slice(0, 200)}`);
      if (status === 400) assert.ok(answer.body.error.includes(query.split('=')[0]), `${query} names the field`);
    }
    const one = await client.pop(queue, { group: 'one', mode: 'all', batch: 0 });
    assert.equal(one.length, 1, 'a batch of 0 counts as 1');
  });

  // S-076, contract 9.1, 9.2
  it('options are stored, ignored or refused, and a refusal changes nothing', async () => {
    const { client } = broker;
    const queue = freshName('options');
    const stored = (await client.configure(queue, { leaseTime: 20, retryLimit: 2 })).options;
    const refused: readonly Record<string, unknown>[] = [
      { leaseTime: '20' },
      { leaseTime: 1.5 },
      { retryLimit: -1 },
      { retryLimit: true },
      { deadLetterQueue: 'yes' },
      { retentionSeconds: -5 },
      { dedupWindowSeconds: -1 },
      { retentionSinkHold: 'a b' },
      { retentionSinkHold: 7 },
      { leaseTime: 99, retryLimit: 'x' },
    ];
    for (const options of refused) {
      const answer = await client.request('POST', '/api/v1/configure', { json: { queue, options } });
      assert.equal(answer.status, 400, `${JSON.stringify(options)}: ${answer.bytes.toString()}`);
      assert.equal(answer.body.code, 'bad_request');
      assert.ok(answer.body.error.includes(Object.keys(options).at(-1) ?? ''), 'the option is named');
    }
    assert.deepEqual((await client.queueDetail(queue)).options, stored);
    const ignored = await client.configure(queue, { leasetime: 5, nonsense: [1] });
    assert.deepEqual(ignored.options, stored, 'unknown options are ignored');
    const mode = await client.request('POST', '/api/v1/configure', { json: { queue, options: {}, mode: 'perhaps' } });
    assert.equal(mode.status, 400);
    assert.match(mode.body.error, /mode must be "merge" or "replace", got/);
    const unnamed = await client.request('POST', '/api/v1/configure', { json: { options: {} } });
    assert.equal(unnamed.status, 400);
  });

  // S-076
  it('whatever the parameters are, an answer is a success or a named error, never a 5xx', async (context) => {
    const seed = chooseSeed('LANEMQ_HOSTILE_SEED');
    context.diagnostic(`repeat with: LANEMQ_HOSTILE_SEED=${seed} node --test dist/tests/hostile/names.test.js`);
    const random = new SeededRandom(seed);
    const { client } = broker;
    const queue = freshName('fuzz');
    await client.pushAll(queue, 'p', [1, 2, 3]);
    const values = [
      ...[
        '0',
        '-1',
        '1.5',
        '1e9',
        '10',
        'NaN',
        '',
        'true',
        'TRUE',
        'null',
        '[]',
        '%00',
        '%F0%9F%98%80',
        '99999999999999999999',
      ],
      ...[
        '1970-01-01T00:00:00Z',
        '275760-09-13T00:00:00Z',
        '-271821-04-20',
        '2026-13-45T99:99:99',
        'now',
        'a'.repeat(600),
      ],
    ];
    const texts = [
      0,
      -1,
      1.5,
      1e9,
      2 ** 53,
      1e300,
      null,
      true,
      '',
      'x',
      [],
      {},
      [[]],
      '\u0000',
      '__proto__',
      'a'.repeat(600),
    ];
    const get = [
      'pop',
      `pop/queue/${queue}`,
      `pop/queue/${queue}/partition/p`,
      'dlq',
      'resources/queues',
      `resources/queues/${queue}`,
    ];
    const names = [
      'batch',
      'partitions',
      'leaseSeconds',
      'consumerGroup',
      'subscriptionMode',
      'subscriptionFrom',
      'autoAck',
      'conflation',
      'autopilot',
      'namespace',
      'task',
      'queue',
      'limit',
      'offset',
      'from',
      'to',
      'partition',
      'stats',
    ];
    const post = ['push', 'ack', 'ack/batch', 'configure', `lease/${queue}/extend`];
    const fields = [
      'items',
      'queue',
      'payload',
      'partition',
      'transactionId',
      'partitionId',
      'leaseId',
      'status',
      'error',
      'acknowledgments',
      'consumerGroup',
      'options',
      'mode',
      'seconds',
      'leaseTime',
      'retryLimit',
      'namespace',
      'traceId',
    ];
    const nonsense = (depth: number): unknown => {
      if (depth === 0 || random.chance(50)) return random.pick(texts);
      if (random.chance(50)) return Array.from({ length: random.integer(4) }, () => nonsense(depth - 1));
      return Object.fromEntries(
        Array.from({ length: random.integer(5) }, () => [random.pick(fields), nonsense(depth - 1)]),
      );
    };
    for (let i = 0; i < 1500; i++) {
      let what: string;
      let answer: Awaited<ReturnType<typeof client.request<ErrorBody>>>;
      if (random.chance(50)) {
        const query = Array.from({ length: random.integer(5) }, () => `${random.pick(names)}=${random.pick(values)}`);
        what = `GET /api/v1/${random.pick(get)}?${query.join('&')}`;
        answer = await client.request<ErrorBody>('GET', what.slice(4));
      } else {
        const path = `/api/v1/${random.pick(post)}`;
        const body = Object.fromEntries(
          Array.from({ length: random.between(1, 5) }, () => [random.pick(fields), nonsense(3)]),
        );
        what = `POST ${path} ${JSON.stringify(body)}`;
        answer = await client.request<ErrorBody>('POST', path, { json: body });
      }
      assert.ok(answer.status < 500, `${what}: ${answer.status} ${answer.bytes.toString().slice(0, 300)}`);
      if (answer.status >= 400) assert.equal(typeof answer.body?.error, 'string', `${what}: a named error`);
      else if (Object(answer.body).success !== false)
        assert.ok(!('error' in Object(answer.body)), `${what}: a success`);
    }
  });
});
