import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { limits } from '@lanemq/protocol';
import { block, recordFlag } from '../../src/codec/mod.ts';
import { ask, RawClient } from './raw-client.ts';
import { nothing, queued, startServer, type TestServer } from './silent-engine.ts';

const oneItem = '{"items":[{"queue":"q","payload":1}]}';

/** One stored record whose flags say that it is encrypted. */
function encryptedPiece() {
  const bytes = new Uint8Array(64);
  const view = new DataView(bytes.buffer);
  const payload = 4;
  view.setUint32(0, block.headerBytes + block.rowBytes + 1 + payload, true);
  view.setUint32(block.countAt, 1, true);
  view.setUint32(block.tableAt, 1 + payload, true);
  bytes[block.tableAt + block.rowBytes] = recordFlag.encrypted;
  return { bytes, view, at: 0, fromIndex: 0, toIndex: 1 };
}

/** A block with one message that is larger than what is answered whatever clients have left unread. */
function largePiece() {
  const payload = 100_000;
  const bytes = new Uint8Array(block.headerBytes + block.rowBytes + 1 + payload).fill(32);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length, true);
  view.setUint32(block.countAt, 1, true);
  view.setUint32(block.tableAt, 1 + payload, true);
  const dataAt = block.tableAt + block.rowBytes;
  bytes[dataAt] = 0;
  bytes[dataAt + 1] = '7'.charCodeAt(0);
  return { bytes, view, at: 0, fromIndex: 0, toIndex: 1 };
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

describe('routes', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server.close());

  it('answer unknown paths with the JSON 404 that names the path, inside the API and outside', async () => {
    for (const path of [
      '/api/v1/nope',
      '/api',
      '/api/v1/push/x',
      '/health/x',
      '/x',
      '/',
      '//api/v1/push',
      '/api/v1/push/',
    ]) {
      const answer = await ask(server.port, 'GET', `${path}?a=1`);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.headers.get('content-type'), 'application/json');
      assert.deepEqual(JSON.parse(answer.body), { code: 'no_such_route', error: 'not found', path });
    }
  });

  it('answer a wrong method with 405 and the right ones', async () => {
    for (const [method, path, allow] of [
      ['GET', '/api/v1/push', 'POST'],
      ['POST', '/api/v1/pop', 'GET'],
      ['HEAD', '/api/v1/pop/queue/q', 'GET'],
      ['PUT', '/api/v1/resources/queues/q', 'GET, DELETE'],
      ['DELETE', '/health', 'GET'],
    ]) {
      const answer = await ask(server.port, method, path);
      assert.equal(answer.status, 405, path);
      assert.equal(answer.headers.get('allow'), allow);
      if (method !== 'HEAD') assert.equal(JSON.parse(answer.body).code, 'method_not_allowed');
    }
    assert.deepEqual(server.engine.arrived, []);
  });

  it('give names to the engine exactly as they were meant, and reach nothing else with them', async () => {
    for (const name of [
      'a/b',
      'a%2Fb',
      'a+b',
      'a b',
      'a?b#c',
      '..',
      '.',
      'x/../../health',
      'ü',
      '🚚',
      '"<b>\'',
      '\n\t:',
      '\u0000',
      '%',
      '*',
    ]) {
      const encoded = encodeURIComponent(name);
      const client = await RawClient.open(server.port);
      client.write(
        `GET /api/v1/pop/queue/${encoded}/partition/${encoded}?consumerGroup=${encoded} HTTP/1.1\r\nHost: x\r\n\r\n`,
      );
      const { request, reply } = await server.engine.next('pop');
      assert.deepEqual(request.target, { kind: 'partition', queue: name, partition: name });
      assert.equal(request.group, name);
      reply.encode(nothing);
      reply.send(null);
      assert.equal((await client.answer())?.status, 204);
      client.write(`DELETE /api/v1/resources/queues/${encoded} HTTP/1.1\r\nHost: x\r\n\r\n`);
      const deletion = await server.engine.next('delete');
      assert.equal(deletion.queue, name);
      deletion.reply.encode({ existed: true });
      deletion.reply.send(null);
      assert.deepEqual(JSON.parse((await client.answer())?.body ?? ''), { deleted: true, existed: true, queue: name });
      client.destroy();
    }
  });

  it('take names that a client did not encode, as far as HTTP allows them', async () => {
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/a+b:c;d,e@f#g HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.deepEqual((await server.engine.next('pop')).request.target, { kind: 'queue', queue: 'a+b:c;d,e@f#g' });
    client.destroy();
    await server.engine.next('cancel');
    assert.equal((await ask(server.port, 'GET', '/api/v1/pop/queue/zażółć')).status, 400);
  });

  it('refuse what is not percent-encoded UTF-8, a pop in the shape of a pop', async () => {
    for (const name of ['%', '%4', '%zz', '%ff', '%c0%80', '%ed%a0%80']) {
      const pop = await ask(server.port, 'GET', `/api/v1/pop/queue/${name}`);
      assert.equal(pop.status, 400, name);
      const body = JSON.parse(pop.body);
      assert.deepEqual([body.success, body.messages, typeof body.error], [false, [], 'string']);
      const detail = await ask(server.port, 'GET', `/api/v1/resources/queues/${name}`);
      assert.deepEqual([detail.status, JSON.parse(detail.body).code], [400, 'bad_request']);
    }
    assert.deepEqual(server.engine.arrived, []);
  });

  it('take a whole URL as the request target', async () => {
    const answer = await ask(server.port, 'GET', `http://127.0.0.1:${server.port}/health?x=1`);
    assert.equal(answer.status, 200);
  });

  it('refuse a pop without a queue, and name an empty partition Default', async () => {
    const refused = await ask(server.port, 'GET', '/api/v1/pop/queue/');
    assert.equal(refused.status, 400);
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/q/partition/ HTTP/1.1\r\nHost: x\r\n\r\n');
    const { request } = await server.engine.next('pop');
    assert.deepEqual(request.target, { kind: 'partition', queue: 'q', partition: 'Default' });
    client.destroy();
    await server.engine.next('cancel');
  });

  it('answer a pop of nothing with 204, without a body or a length', async () => {
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('pop');
    reply.encode(nothing);
    reply.send(null);
    const answer = await client.answer();
    assert.equal(answer?.status, 204);
    assert.equal(answer.headers.get('content-length'), undefined);
    assert.equal(answer.headers.get('transfer-encoding'), undefined);
    client.destroy();
  });

  it('pass refusals of the engine on with their status, code and delay', async () => {
    for (const [code, status, retryAfter] of [
      ['retry', 503, '1'],
      ['outcome_unknown', 503, '1'],
      ['storage_full', 507, '1'],
      ['name_too_long', 413, undefined],
      ['encryption_key_missing', 409, undefined],
      ['internal', 500, undefined],
    ] as const) {
      const pending = ask(server.port, 'POST', '/api/v1/push', oneItem);
      const { reply } = await server.engine.next('push');
      reply.send({ ok: false, code, message: 'because' });
      const answer = await pending;
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get('retry-after'), retryAfter);
      assert.deepEqual(JSON.parse(answer.body), { error: 'because', code });
    }
  });

  it('tell health by the status, and show the broker in the shape that clients know', async () => {
    const healthy = await ask(server.port, 'GET', '/health');
    assert.equal(healthy.status, 200);
    const body = JSON.parse(healthy.body);
    assert.deepEqual([body.status, body.engine, body.version, body.lanemq], ['healthy', 'raft', '2.6.0', '1.2.3']);
    assert.deepEqual(body.raft, {
      role: 'leader',
      leader: true,
      term: 3,
      applied: 9,
      commit: 7,
      lag: 2,
      storageReady: true,
      clusterVersion: 1,
    });
    assert.equal((await ask(server.port, 'HEAD', '/health')).status, 200);
    const { report } = server.engine;
    server.engine.report = { ...report, state: 'settling', detail: 'reading the log' };
    const settling = await ask(server.port, 'GET', '/health');
    server.engine.report = report;
    assert.equal(settling.status, 503);
    assert.equal(JSON.parse(settling.body).status, 'settling');
  });

  it('show figures as JSON, and as text that Prometheus can parse', async () => {
    const json = await ask(server.port, 'GET', '/metrics');
    const body = JSON.parse(json.body);
    assert.equal(body.turns, 5);
    assert.ok(body.memory.rss > 0 && body.requests.other > 0 && body.uptime >= 0);
    const text = await ask(server.port, 'GET', '/metrics/prometheus');
    assert.match(text.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    const lines = text.body.trimEnd().split('\n');
    for (const line of lines) {
      assert.match(
        line,
        /^(# HELP lanemq_\w+ .+|# TYPE lanemq_\w+ (counter|gauge)|lanemq_\w+(\{status="\d+"\})? [\d.e+]+)$/,
      );
    }
    assert.ok(lines.includes('lanemq_turns_total 5') && lines.includes('lanemq_something_new 6'));
  });

  it('extend a lease by 60 seconds whatever cannot be read, and by 1 at least', async () => {
    for (const [body, seconds] of [
      ['', 60],
      ['{}', 60],
      ['{"seconds":', 60],
      ['[5]', 60],
      ['{"seconds":"5"}', 60],
      ['{"seconds":1.5}', 60],
      [Buffer.from([0xff]), 60],
      ['{"seconds":0}', 1],
      ['{"seconds":-7}', 1],
      ['{"seconds":90}', 90],
      ['{"seconds":1e12}', 604_800],
    ] as const) {
      const pending = ask(server.port, 'POST', '/api/v1/lease/no%2Fid/extend', body);
      const extended = await server.engine.next('extend');
      assert.deepEqual([extended.stamp, extended.seconds], [-1, seconds], textOf(Buffer.from(body)));
      extended.reply.encode({ ok: true, renewed: 0, expiresAtUs: 0 });
      extended.reply.send(null);
      assert.deepEqual(JSON.parse((await pending).body), {
        leaseId: 'no/id',
        success: false,
        renewed: 0,
        newExpiresAt: null,
        expiresAt: null,
        lease_expires_at: null,
        error: 'no live lease with this id: it has ended, or its messages are settled',
      });
    }
  });

  it('recognise the lease ids that they hand out, and answer the new end three times', async () => {
    const client = await RawClient.open(server.port);
    const stamp = 1_790_000_000_123_456;
    client.write('GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('pop');
    reply.encode({ ...nothing, leaseStamp: stamp, conflation: true });
    reply.send(null);
    const { leaseId } = JSON.parse((await client.answer())?.body ?? '');
    client.write(`POST /api/v1/lease/${leaseId}/extend HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`);
    const extended = await server.engine.next('extend');
    assert.equal(extended.stamp, stamp);
    extended.reply.encode({ ok: true, renewed: 2, expiresAtUs: 1_790_000_060_000_001 });
    extended.reply.send(null);
    const at = '2026-09-21T14:14:20.000001Z';
    assert.deepEqual(JSON.parse((await client.answer())?.body ?? ''), {
      leaseId,
      success: true,
      renewed: 2,
      newExpiresAt: at,
      expiresAt: at,
      lease_expires_at: at,
    });
    client.destroy();
  });

  it('clamp the page of dead letters, and hand filters on', async () => {
    for (const [query, filter] of [
      ['', { queue: null, group: null, limit: 100, offset: 0 }],
      ['?queue=a%2Fb&consumerGroup=g&limit=0&offset=-1&partition=p', { queue: 'a/b', group: 'g', limit: 1, offset: 0 }],
      ['?limit=5000&offset=7', { queue: null, group: null, limit: 1000, offset: 7 }],
    ] as const) {
      const pending = ask(server.port, 'GET', `/api/v1/dlq${query}`);
      const { filter: asked, reply } = await server.engine.next('dead letters');
      assert.deepEqual(asked, filter);
      const payload = Buffer.from('{"n":1e400}');
      const row = {
        id: 'd',
        queue: 'a"b',
        partition: 'p',
        pid: 17,
        group: 'g',
        offset: 3,
        messageId: 'm',
        transactionId: 't',
        createdAtUs: 0,
        failedAtUs: 1,
        retryCount: 3,
        error: 'boom',
        payload,
      };
      reply.encode({ rows: [row, row], total: 9 });
      reply.send(null);
      const { body } = await pending;
      assert.ok(body.includes('"data":{"n":1e400},"payload":{"n":1e400}}'), body);
      const page = JSON.parse(body);
      assert.deepEqual([page.total, page.messages.length], [9, 2]);
      assert.deepEqual(page.pagination, { limit: filter.limit, offset: filter.offset });
      const { data: _data, payload: _payload, ...rest } = page.messages[1];
      assert.deepEqual(rest, {
        id: 'd',
        queue: 'a"b',
        partition: 'p',
        partitionId: '17',
        createdAt: '1970-01-01T00:00:00.000000Z',
        consumerGroup: 'g',
        offset: 3,
        messageId: 'm',
        transactionId: 't',
        errorMessage: 'boom',
        retryCount: 3,
        failedAt: '1970-01-01T00:00:00.000001Z',
      });
    }
    assert.equal((await ask(server.port, 'GET', '/api/v1/dlq?limit=ten')).status, 400);
  });
});

describe('bodies', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server.close());

  /** Answers the push that must be on its way and gives its first payload. */
  async function pushed(): Promise<string> {
    const { items, reply } = await server.engine.next('push');
    const payload = textOf(items.bytes.subarray(items.slices[6], items.slices[7]));
    reply.encode(queued(items.count));
    reply.send(null);
    return payload;
  }

  it('are read whatever the content type says, in one piece or in many, with a length or chunked', async () => {
    const client = await RawClient.open(server.port);
    client.write(
      `POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-frames\r\nContent-Length: ${oneItem.length}\r\n\r\n`,
    );
    for (const letter of oneItem) {
      client.write(letter);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(await pushed(), '1');
    assert.equal((await client.answer())?.status, 201);
    client.write('POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (const piece of [oneItem.slice(0, 10), oneItem.slice(10)]) {
      client.write(`${piece.length.toString(16)}\r\n${piece}\r\n`);
    }
    client.write('0\r\n\r\n');
    assert.equal(await pushed(), '1');
    assert.equal((await client.answer())?.status, 201);
    client.destroy();
  });

  it('are unpacked from gzip, deflate and br, whatever the case of the name', async () => {
    for (const [coding, packed] of [
      ['gzip', gzipSync(oneItem)],
      ['X-GZIP', gzipSync(oneItem)],
      ['Deflate', deflateSync(oneItem)],
      ['br', brotliCompressSync(oneItem)],
      ['identity', Buffer.from(oneItem)],
    ] as const) {
      const pending = ask(server.port, 'POST', '/api/v1/push', packed, { 'Content-Encoding': coding });
      assert.equal(await pushed(), '1', coding);
      assert.equal((await pending).status, 201);
    }
  });

  it('are refused in a coding that is not known, and when they are not what the coding says', async () => {
    for (const coding of ['zstd', 'gzip, gzip', 'compress', '*']) {
      const answer = await ask(server.port, 'POST', '/api/v1/push', oneItem, { 'Content-Encoding': coding });
      assert.deepEqual([answer.status, JSON.parse(answer.body).code], [415, 'unsupported_encoding']);
    }
    for (const [coding, packed] of [
      ['gzip', Buffer.from(oneItem)],
      ['gzip', gzipSync(oneItem).subarray(0, -4)],
      ['br', Buffer.from([0xff, 0xff])],
    ] as const) {
      const answer = await ask(server.port, 'POST', '/api/v1/push', packed, { 'Content-Encoding': coding });
      assert.equal(answer.status, 400);
      assert.deepEqual(JSON.parse(answer.body), { error: `bad push body: not valid ${coding}`, code: 'bad_body' });
    }
    assert.deepEqual(server.engine.arrived, []);
  });

  it('are refused when they are not UTF-8', async () => {
    for (const bytes of [
      [0xff, 0xfe],
      [0xc0, 0x80],
      [0xe2, 0x82],
      [0xed, 0xa0, 0x80],
    ]) {
      const body = Buffer.concat([
        Buffer.from('{"items":[{"queue":"q","payload":"'),
        Buffer.from(bytes),
        Buffer.from('"}]}'),
      ]);
      const answer = await ask(server.port, 'POST', '/api/v1/push', body);
      assert.equal(answer.status, 400);
      assert.deepEqual(JSON.parse(answer.body), { error: 'bad push body: not UTF-8', code: 'bad_body' });
    }
    assert.deepEqual(server.engine.arrived, []);
  });

  it('over the limit are refused before they are sent, as plain text, and end the connection', async () => {
    const over = async (path: string): Promise<void> => {
      const client = await RawClient.open(server.port);
      client.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n{`);
      const answer = await client.answer();
      assert.equal(answer?.status, 413);
      assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
      assert.equal(answer.headers.get('connection'), 'close');
      assert.equal(answer.body, 'body over the limit of 102400 bytes\n');
      await client.closed();
    };
    await Promise.all(['/api/v1/push', '/api/v1/ack', '/api/v1/configure', '/api/v1/lease/x/extend'].map(over));
  });

  it('are asked for only when they will be read, if the client waits to be asked', async () => {
    const client = await RawClient.open(server.port);
    const head = 'POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length:';
    client.write(`${head} ${oneItem.length}\r\n\r\n`);
    assert.equal((await client.answer())?.status, 100);
    client.write(oneItem);
    assert.equal(await pushed(), '1');
    assert.equal((await client.answer())?.status, 201);
    client.write(`${head} 10000000\r\n\r\n`);
    assert.equal((await client.answer())?.status, 413);
    client.destroy();
  });

  it('of routes that take none are dropped when they are small, and hide no disconnect', async () => {
    for (const body of [
      `Content-Length: 50000\r\n\r\n${'x'.repeat(50_000)}`,
      `Transfer-Encoding: chunked\r\n\r\nc350\r\n${'x'.repeat(50_000)}\r\n0\r\n\r\n`,
    ]) {
      const client = await RawClient.open(server.port);
      client.write(`GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nHost: x\r\n${body}`);
      const { reply } = await server.engine.next('pop');
      await new Promise((resolve) => setTimeout(resolve, 20));
      reply.encode(nothing);
      reply.send(null);
      assert.equal((await client.answer())?.status, 204);
      client.write(`GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nHost: x\r\n${body}`);
      await server.engine.next('pop');
      client.destroy();
      await server.engine.next('cancel');
    }
  });

  it('of routes that take none are refused by their length when they are large, and nothing is done', async () => {
    for (const target of [
      'GET /api/v1/pop/queue/q',
      'DELETE /api/v1/resources/queues/q',
      'POST /api/v1/resources/queues/q/pause',
      'DELETE /api/v1/due/x',
      'GET /health',
    ]) {
      const client = await RawClient.open(server.port);
      client.write(`${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n`);
      const answer = await client.answer();
      assert.equal(answer?.status, 413, target);
      assert.equal(answer.body, 'body over the limit of 65536 bytes\n');
      await client.closed();
    }
    for (const [target, status] of [
      ['POST /api/v1/nope', 404],
      ['POST /api/v1/pop', 405],
    ] as const) {
      const client = await RawClient.open(server.port);
      client.write(`${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n`, 'x'.repeat(500_000));
      assert.equal((await client.answer())?.status, status, target);
      await client.closed();
    }
    assert.deepEqual(server.engine.arrived, []);
  });

  it('without end are cut off wherever they are not wanted', async () => {
    const chunk = `2000\r\n${'x'.repeat(0x2000)}\r\n`;
    const emptyGzip = gzipSync('');
    const packed = Buffer.concat([
      Buffer.from('2000\r\n'),
      Buffer.concat(Array.from({ length: 410 }, () => emptyGzip)).subarray(0, 0x2000),
      Buffer.from('\r\n'),
    ]);
    for (const [head, piece] of [
      ['GET /api/v1/pop/queue/q?wait=true HTTP/1.1', chunk],
      ['GET /health HTTP/1.1', chunk],
      ['POST /api/v1/nope HTTP/1.1', chunk],
      ['PUT /api/v1/push HTTP/1.1', chunk],
      ['GET /a/page HTTP/1.1', chunk],
      ['POST /a/page HTTP/1.1\r\nContent-Type: application/json', chunk],
      ['POST /api/v1/push HTTP/1.1\r\nContent-Encoding: zstd', chunk],
      ['POST /api/v1/push HTTP/1.1\r\nContent-Encoding: gzip', chunk],
      ['POST /api/v1/push HTTP/1.1\r\nContent-Encoding: gzip', packed],
    ] as const) {
      const client = await RawClient.open(server.port);
      client.write(`${head}\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`);
      const closed = client.closed().then(() => true);
      let sent = 0;
      for (; sent < 100; sent++) {
        client.write(piece);
        const soon = new Promise<boolean>((resolve) => setTimeout(resolve, 10, false));
        if (await Promise.race([closed, soon])) break;
      }
      assert.ok(sent < 100, `${head} was cut off after ${sent} pieces`);
      client.destroy();
    }
    await server.engine.next('pop');
    await server.engine.next('cancel');
    assert.deepEqual(server.engine.arrived, []);
  });

  it('that turn out to be over the limit are refused at that moment, chunked or compressed', async () => {
    const chunked = await RawClient.open(server.port);
    chunked.write('POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    chunked.write(`19001\r\n${' '.repeat(0x19001)}\r\n`);
    assert.equal((await chunked.answer())?.status, 413);
    chunked.destroy();
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024, 32));
    const answer = await ask(server.port, 'POST', '/api/v1/push', bomb, { 'Content-Encoding': 'gzip' });
    assert.equal(answer.status, 413);
    assert.deepEqual(server.engine.arrived, []);
  });

  it('of exactly the limit are taken', async () => {
    const frame = '{"items":[{"queue":"q","payload":""}]}';
    const body = frame.replace('""', `"${'x'.repeat(102_400 - frame.length)}"`);
    for (const [bytes, headers] of [
      [body, {}],
      [gzipSync(body), { 'Content-Encoding': 'gzip' }],
    ] as const) {
      const pending = ask(server.port, 'POST', '/api/v1/push', bytes, headers);
      assert.equal((await pushed()).length, 102_400 - frame.length + 2);
      assert.equal((await pending).status, 201);
    }
  });

  it('that are cut off reach nobody', async () => {
    const client = await RawClient.open(server.port);
    client.write(`POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: ${oneItem.length + 1}\r\n\r\n${oneItem}`);
    client.socket.end();
    await client.closed();
    const packed = await RawClient.open(server.port);
    packed.write(
      'POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    const bytes = gzipSync(oneItem);
    packed.write(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n');
    packed.socket.end();
    await packed.closed();
    // The server is through with both when it has answered a later request.
    assert.equal((await ask(server.port, 'GET', '/health')).status, 200);
    assert.deepEqual(server.engine.arrived, []);
  });

  it('that are not there are refused where one is needed', async () => {
    for (const path of ['/api/v1/push', '/api/v1/ack', '/api/v1/configure']) {
      assert.equal((await ask(server.port, 'POST', path)).status, 400, path);
    }
  });

  it('without items are answered at once', async () => {
    const answer = await ask(server.port, 'POST', '/api/v1/push', '{"items":[]}');
    assert.deepEqual([answer.status, answer.body], [201, '[]']);
  });
});

describe('what is not a request', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer({ receiveTimeoutMs: 400 });
  });
  after(() => server.close());

  for (const [what, text, status] of [
    ['nonsense', 'nonsense\r\n\r\n', 400],
    ['a request without Host', 'GET /health HTTP/1.1\r\n\r\n', 400],
    ['two lengths', 'POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{', 400],
    [
      'a length and chunks',
      'POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
    ['a bad chunk', 'POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 400],
    ['a space before a colon', 'GET /health HTTP/1.1\r\nHost : x\r\n\r\n', 400],
    ['endless headers', `GET /health HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(9000)}\r\n\r\n`, 431],
    ['headers that never end', 'GET /health HTTP/1.1\r\nHost: x\r\n', 408],
    ['a body that never ends', `POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{`, 408],
  ] as const) {
    it(`${what}: answered ${status} or cut off, and nothing comes of it`, async () => {
      const client = await RawClient.open(server.port);
      client.write(text);
      const answer = await client.answer();
      if (answer !== undefined) {
        assert.equal(answer.status, status);
        assert.equal(answer.headers.get('connection'), 'close');
      }
      await client.closed();
      assert.equal((await ask(server.port, 'GET', '/health')).status, 200);
      assert.deepEqual(server.engine.arrived, []);
    });
  }

  it('gets no answer that would be taken for one of an earlier request', async () => {
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n');
    assert.equal(await client.answer(), undefined);
    await server.engine.next('pop');
    await server.engine.next('cancel');
  });
});

describe('connections', () => {
  it('carry pipelined requests, answered in order', async () => {
    const server = await startServer();
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('pop');
    reply.encode(nothing);
    reply.send(null);
    assert.equal((await client.answer())?.status, 204);
    assert.equal((await client.answer())?.status, 200);
    client.destroy();
    await server.close();
  });

  it('beyond the limit are closed at once', async () => {
    const server = await startServer({ maxConnections: 2 });
    const first = await RawClient.open(server.port);
    const second = await RawClient.open(server.port);
    const third = await RawClient.open(server.port);
    await third.closed();
    first.destroy();
    await first.closed();
    second.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
    assert.equal((await second.answer())?.status, 200);
    second.destroy();
    await server.close();
  });

  it('that go away cancel their pop, and only when it is not answered', async () => {
    const server = await startServer();
    const client = await RawClient.open(server.port);
    client.write('GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('pop');
    reply.encode(nothing);
    reply.send(null);
    assert.equal((await client.answer())?.status, 204);
    client.write('GET /api/v1/pop/queue/r?wait=true HTTP/1.1\r\nHost: x\r\n\r\n');
    const parked = await server.engine.next('pop');
    parked.reply.encode(nothing);
    client.destroy();
    const cancelled = await server.engine.next('cancel');
    assert.deepEqual(cancelled.request.target, { kind: 'queue', queue: 'r' });
    // Too late, and harmless.
    parked.reply.send(null);
    assert.deepEqual(server.engine.arrived, []);
    await server.close();
  });

  it('end with their answer when the server closes; what is not answered in time is cut', async () => {
    const server = await startServer({ stopGraceMs: 200 });
    const answered = await RawClient.open(server.port);
    const parked = await RawClient.open(server.port);
    const idle = await RawClient.open(server.port);
    answered.write('GET /api/v1/pop/queue/a HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('pop');
    parked.write('GET /api/v1/pop/queue/b HTTP/1.1\r\nHost: x\r\n\r\n');
    await server.engine.next('pop');
    const closed = server.close();
    reply.encode(nothing);
    reply.send(null);
    const answer = await answered.answer();
    assert.deepEqual([answer?.status, answer?.headers.get('connection')], [204, 'close']);
    await Promise.all([answered.closed(), parked.closed(), idle.closed(), closed]);
    await assert.rejects(RawClient.open(server.port), { code: 'ECONNREFUSED' });
  });
});

describe('time and room', () => {
  it('a request that the engine does not answer in time is of unknown outcome', async () => {
    const server = await startServer({ requestTimeoutMs: 100 });
    const answer = await ask(server.port, 'POST', '/api/v1/push', oneItem);
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1']);
    assert.equal(JSON.parse(answer.body).code, 'outcome_unknown');
    const { reply } = await server.engine.next('push');
    reply.encode(queued(1));
    reply.send(null);
    assert.equal((await ask(server.port, 'GET', '/health')).status, 200);
    await server.close();
  });

  it('a push waits for room, is refused when there is none in time, and gives its room back', async () => {
    const server = await startServer({ admissionBytes: 100, admissionWaitMs: 200 });
    const first = ask(server.port, 'POST', '/api/v1/push', oneItem.padEnd(80));
    const held = await server.engine.next('push');
    const refused = await ask(server.port, 'POST', '/api/v1/push', oneItem);
    assert.deepEqual([refused.status, JSON.parse(refused.body).code], [429, 'overloaded']);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-5]$/);
    const ack = ask(server.port, 'POST', '/api/v1/ack', '{"transactionId":"t"}');
    (await server.engine.next('ack')).reply.send({ ok: false, code: 'retry', message: 'seen' });
    assert.equal((await ack).status, 503, 'acks do not wait');
    const waiting = ask(server.port, 'POST', '/api/v1/push', oneItem);
    held.reply.encode(queued(1));
    held.reply.send(null);
    assert.equal((await first).status, 201);
    const admitted = await server.engine.next('push');
    admitted.reply.encode(queued(1));
    admitted.reply.send(null);
    assert.equal((await waiting).status, 201);
    await server.close();
  });

  it('a client that goes away in the middle of its body, or while it waits, gives its room back', async () => {
    const server = await startServer({ admissionBytes: 100 });
    const half = await RawClient.open(server.port);
    half.write('POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{');
    const waiting = await RawClient.open(server.port);
    waiting.write('POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{');
    const pending = ask(server.port, 'POST', '/api/v1/push', oneItem);
    const metrics = async () => JSON.parse((await ask(server.port, 'GET', '/metrics')).body).http;
    while ((await metrics()).admissionWaiting < 2);
    half.destroy();
    waiting.destroy();
    const { reply } = await server.engine.next('push');
    reply.encode(queued(1));
    reply.send(null);
    assert.equal((await pending).status, 201);
    assert.equal((await metrics()).admittedBytes, 0);
    await server.close();
  });

  it('a chunked or packed body that outgrows the room is refused', async () => {
    const server = await startServer({ admissionBytes: 70_000, maxBodyBytes: 1_000_000 });
    const first = ask(server.port, 'POST', '/api/v1/push', oneItem);
    const held = await server.engine.next('push');
    const packed = gzipSync(Buffer.alloc(200_000, 32));
    const answer = await ask(server.port, 'POST', '/api/v1/push', packed, { 'Content-Encoding': 'gzip' });
    assert.deepEqual([answer.status, answer.headers.get('connection')], [429, 'close']);
    held.reply.encode(queued(1));
    held.reply.send(null);
    assert.equal((await first).status, 201);
    await server.close();
  });

  it('runs a limited number of large reads at a time and refuses more, until one is answered', async () => {
    const server = await startServer();
    const list = () => ask(server.port, 'GET', '/api/v1/resources/queues');
    const running = Array.from({ length: limits.readsAtOnceMax }, list);
    const replies = [];
    for (let i = 0; i < limits.readsAtOnceMax; i++) replies.push((await server.engine.next('list')).reply);
    const refused = await list();
    assert.deepEqual([refused.status, JSON.parse(refused.body).code], [503, 'retry']);
    replies[0].encode({ total: 0, isWhole: true });
    replies[0].send(null);
    assert.equal((await Promise.race(running)).status, 200);
    const next = list();
    replies.push((await server.engine.next('list')).reply);
    for (const reply of replies.slice(1)) {
      reply.encode({ total: 0, isWhole: true });
      reply.send(null);
    }
    for (const answer of await Promise.all([...running, next])) assert.equal(answer.status, 200);
    await server.close();
  });

  it('a client that does not read its answer is cut when such answers fill the memory, and pops are served meanwhile', async () => {
    const server = await startServer({ slowReaderSeconds: 1, answerBytes: 1000 });
    const queue = {
      id: 'i',
      name: 'n'.repeat(400),
      namespace: '',
      task: '',
      createdAtUs: 0,
      partitionCount: 0,
      segmentCount: 0,
      messages: { total: 0, pending: 0, processing: 0, completed: 0, deadLetter: 0 },
      retainedBytes: 0,
      options: {} as never,
      pausedAtUs: 0,
    };
    const client = await RawClient.open(server.port);
    client.socket.pause();
    client.write('GET /api/v1/resources/queues HTTP/1.1\r\nHost: x\r\n\r\n');
    const { reply } = await server.engine.next('list');
    for (let i = 0; i < 20_000; i++) reply.rows([queue]);
    reply.encode({ total: 20_000, isWhole: true });
    reply.send(null);
    const metrics = async () => JSON.parse((await ask(server.port, 'GET', '/metrics')).body).http;
    assert.ok((await metrics()).unsentAnswerBytes > 1_000_000);
    // Mercy ends before the time to read so large an answer does: a pop, which is served all the while, has the reader cut.
    const startedAt = performance.now();
    while ((await metrics()).readersCut === 0 && performance.now() - startedAt < 10_000) {
      const popped = ask(server.port, 'GET', '/api/v1/pop/queue/q');
      const pop = await server.engine.next('pop');
      pop.reply.encode(nothing);
      pop.reply.send(null);
      assert.equal((await popped).status, 204);
    }
    assert.deepEqual([(await metrics()).readersCut, (await metrics()).unsentAnswerBytes], [1, 0]);
    client.destroy();
    await server.close();
  });

  it('pops that are claimed together and do not fit in memory together are handed back', async () => {
    const server = await startServer({ answerBytes: 100 });
    const run = { pid: 1, names: Buffer.from('p'), nameStart: 0, nameEnd: 1, attempt: 1, pieces: [largePiece()] };
    const leased = { ...nothing, leaseStamp: 1_790_000_000_000_000, runs: [run] };
    const first = ask(server.port, 'GET', '/api/v1/pop/queue/q');
    const second = ask(server.port, 'GET', '/api/v1/pop/queue/q');
    const third = ask(server.port, 'GET', '/api/v1/pop/queue/q');
    const pops = [await server.engine.next('pop'), await server.engine.next('pop'), await server.engine.next('pop')];
    pops[0].reply.encode(leased);
    pops[1].reply.encode(leased);
    // What cannot be handed back is answered all the same.
    pops[2].reply.encode({ ...leased, leaseStamp: 0 });
    await server.engine.next('cancel');
    pops[0].reply.send(null);
    pops[2].reply.send(null);
    const statuses = (await Promise.all([first, second, third])).map(({ status }) => status);
    assert.deepEqual(statuses.sort(), [200, 200, 503]);
    assert.deepEqual(server.engine.arrived, []);
    await server.close();
  });

  it('a message that cannot be decrypted is handed back, and the broker lives', async () => {
    const server = await startServer();
    const pending = ask(server.port, 'GET', '/api/v1/pop/queue/q');
    const { reply } = await server.engine.next('pop');
    const piece = encryptedPiece();
    const run = {
      pid: 1,
      names: Buffer.from('p'),
      nameStart: 0,
      nameEnd: Buffer.byteLength('p'),
      attempt: 1,
      pieces: [piece],
    };
    reply.encode({ ...nothing, leaseStamp: 1_790_000_000_000_000, runs: [run] });
    const answer = await pending;
    assert.deepEqual([answer.status, JSON.parse(answer.body).code], [500, 'internal']);
    await server.engine.next('cancel');
    assert.match(server.log.join(), /a pop cannot be answered: the payload is encrypted, and the broker has no key/);
    await server.close();
  });
});
