/** Contract sections 2, 14, 15 and 17: what holds for every route, whatever it does. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { type AckResult, type ErrorBody, freshName, type PopBody, type PushResult } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { postText, RawConnection } from './raw-connection.ts';

const isoMicroseconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
/** 447 bytes, of which 36 belong to the tenant. */
const nameBytesLeft = 411;

describe('HTTP conventions', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start();
  });
  after(() => broker.dispose());

  // Contract 2, unknown route under /api
  it('answers an unknown route with the JSON 404 that names the path', async () => {
    for (const path of ['/api/v1/nothing', '/api/v1/resources/partitions', '/api/v2/push']) {
      const answer = await broker.client.request<{ code: string; error: string; path: string }>('GET', path);
      assert.equal(answer.status, 404);
      assert.deepEqual(answer.body, { code: 'no_such_route', error: 'not found', path });
    }
  });

  // Contract 9.3, removed in 2.x
  it('answers the removed clear route with 404', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const answer = await broker.client.request('DELETE', `/api/v1/queues/${queue}/clear`);
    assert.equal(answer.status, 404);
    assert.equal((await broker.client.pop(queue)).length, 1);
  });

  // Contract 2, request body: the content type is not insisted on; contract 17.2
  it('reads a body as JSON whatever its content type says', async () => {
    const queue = freshName('q');
    const types = ['text/plain', 'application/x-unknown', 'application/octet-stream', 'application/xml', 'nonsense'];
    for (const type of types) {
      const answer = await broker.client.request<PushResult[]>('POST', '/api/v1/push', {
        json: { items: [{ queue, payload: type }] },
        headers: { 'content-type': type },
      });
      assert.equal(answer.status, 201, type);
    }
    const connection = await RawConnection.open(broker.client.port);
    const body = JSON.stringify({ items: [{ queue, payload: 'no type' }] });
    connection.write(
      `POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    assert.equal((await connection.nextAnswer())?.status, 201);
    connection.destroy();
    const messages = await broker.client.pop(queue);
    assert.deepEqual(
      messages.map((message) => message.data),
      [...types, 'no type'],
    );
  });

  // Contract 17.2
  it('refuses a binary body of an unknown content type as bad_body', async () => {
    const answer = await broker.client.request('POST', '/api/v1/push', {
      bytes: new Uint8Array([0x51, 0x4d, 0x51, 0x01, 0x00, 0xff]),
      headers: { 'content-type': 'application/x-queen-frame' },
    });
    assert.equal(answer.status, 400);
    assert.equal(answer.body.code, 'bad_body');
    assert.match(answer.body.error, /^bad push body:/);
  });

  // Contract 17.1
  it('answers JSON to a pop that asks for an unknown type', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const answer = await broker.client.request<PopBody>('GET', `/api/v1/pop/queue/${queue}`, {
      headers: { accept: 'application/x-queen-frames, application/octet-stream' },
    });
    assert.equal(answer.status, 200);
    assert.match(answer.headers['content-type'] ?? '', /^application\/json/);
    assert.equal(answer.body.messages.length, 1);
  });

  // Contract 2: JS sends a JSON content type on every request; auth and tenancy are off
  it('tolerates a JSON content type, a token and a tenant header on requests that need none', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const answer = await broker.client.request<PopBody>('GET', `/api/v1/pop/queue/${queue}`, {
      headers: {
        'content-type': 'application/json',
        authorization: 'Bearer nonsense',
        'x-queen-tenant': 'not a uuid',
      },
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.body.messages.length, 1);
  });

  // Contract 17.3
  it('reads gzip bodies on every JSON route and refuses codings it does not know with 415', async () => {
    const queue = freshName('q');
    const gzip = (value: unknown) => ({
      bytes: gzipSync(JSON.stringify(value)),
      headers: { 'content-encoding': 'gzip' },
    });
    const configured = await broker.client.request('POST', '/api/v1/configure', gzip({ queue, options: {} }));
    assert.equal(configured.status, 200);
    const pushed = await broker.client.request(
      'POST',
      '/api/v1/push',
      gzip({ items: [{ queue, transactionId: 'a', payload: 'zipped' }] }),
    );
    assert.equal(pushed.status, 201);
    const [message] = await broker.client.pop(queue);
    assert.equal(message.data, 'zipped');
    const extended = await broker.client.request<{ success: boolean }>(
      'POST',
      `/api/v1/lease/${message.leaseId}/extend`,
      gzip({ seconds: 100 }),
    );
    assert.equal(extended.body.success, true);
    const acked = await broker.client.request<AckResult[]>(
      'POST',
      '/api/v1/ack',
      gzip({ transactionId: 'a', partitionId: message.partitionId, leaseId: message.leaseId }),
    );
    assert.equal(acked.body[0].success, true);

    const body = JSON.stringify({ items: [{ queue, payload: 1 }] });
    for (const coding of ['compress', 'x-own', 'gzip, x-own']) {
      const refused = await broker.client.request('POST', '/api/v1/push', {
        bytes: brotliCompressSync(body),
        headers: { 'content-encoding': coding },
      });
      assert.equal(refused.status, 415, coding);
    }
    assert.deepEqual(await broker.client.pop(queue), []);
  });

  // Contract 17.3
  it('refuses a body that claims to be gzip and is not, or is cut, and stores nothing', async () => {
    const queue = freshName('q');
    const whole = gzipSync(JSON.stringify({ items: [{ queue, payload: 'x'.repeat(1000) }] }));
    for (const bytes of [Buffer.from('{"items":[]}'), whole.subarray(0, whole.length - 6), Buffer.alloc(0)]) {
      const answer = await broker.client.request('POST', '/api/v1/push', {
        bytes,
        headers: { 'content-encoding': 'gzip' },
      });
      assert.equal(answer.status, 400);
      assert.equal(answer.body.code, 'bad_body');
    }
    assert.equal(await broker.client.queueExists(queue), false);
  });

  // Contract 2, response; checklist 7
  it('answers an empty pop with 204, no body and no Content-Length', async () => {
    const connection = await RawConnection.open(broker.client.port);
    connection.write(`GET /api/v1/pop/queue/${freshName('q')} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n`);
    const text = await connection.untilClosed();
    assert.match(text, /^HTTP\/1\.1 204 /);
    assert.doesNotMatch(text, /^content-length:/im);
    assert.doesNotMatch(text, /^transfer-encoding:/im);
    assert.equal(text.slice(text.indexOf('\r\n\r\n') + 4), '');
  });

  // Contract 2, timestamps out
  it('writes times as UTC with six fractional digits', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const [message] = await broker.client.pop(queue);
    assert.match(message.createdAt, isoMicroseconds);
    assert.ok(Math.abs(Date.parse(message.createdAt) - Date.now()) < 60_000);
    const extended = await broker.client.extend(message.leaseId, 100);
    assert.match(extended.newExpiresAt ?? '', isoMicroseconds);
    const detail = await broker.client.queueDetail(queue);
    assert.match(detail.createdAt, isoMicroseconds);
    assert.match(detail.partitions[0].createdAt, isoMicroseconds);
    assert.match((await broker.client.queueRow(queue))?.createdAt ?? '', isoMicroseconds);
    await broker.client.ack([message], 'dlq');
    const page = await broker.client.deadLetters({ queue });
    assert.match(page.messages[0].failedAt, isoMicroseconds);
    assert.equal(page.messages[0].createdAt, message.createdAt);
  });

  // Contract 2, names in paths: decoded once
  it('percent-decodes each name in a path exactly once', async () => {
    const queue = freshName('a/b%2Fc d');
    const partition = 'ü/%41+?#';
    await broker.client.pushAll(queue, partition, ['a']);
    const answer = await broker.client.popAnswer(queue, { partition });
    assert.equal(answer.status, 200);
    assert.equal(answer.body.queue, queue);
    assert.equal(answer.body.partition, partition);
    assert.equal(answer.body.messages[0].data, 'a');
    assert.equal((await broker.client.queueDetail(queue)).name, queue);
    assert.deepEqual(await broker.client.deleteQueue(queue), { deleted: true, existed: true, queue });
  });

  // Contract 2: malformed percent-encoding is a badly formed request, not a fault of the broker
  it('refuses a path whose percent-encoding is broken with 400', async () => {
    for (const path of ['/api/v1/pop/queue/%zz', '/api/v1/pop/queue/%E0%A4', '/api/v1/pop/queue/q/partition/%']) {
      const answer = await broker.client.request('GET', path);
      assert.equal(answer.status, 400, path);
    }
  });

  // Contract 2.1
  it('answers a refusal with an error text and a code', async () => {
    const answer = await broker.client.request<ErrorBody>('POST', '/api/v1/push', { json: { nothing: true } });
    assert.equal(answer.status, 400);
    assert.match(answer.headers['content-type'] ?? '', /^application\/json/);
    assert.equal(typeof answer.body.error, 'string');
    assert.ok(answer.body.error.length > 0);
    assert.equal(answer.body.code, 'bad_body');
  });

  // Contract 2.2
  it('accepts names up to 447 bytes with the tenant and refuses one byte more with name_too_long', async () => {
    const stem = freshName('n');
    // Each "é" is two bytes of UTF-8, so that a count of characters would let too much through.
    const longest = (bytes: number, start = '') => {
      const left = bytes - Buffer.byteLength(start);
      return start + 'é'.repeat(Math.floor(left / 2)) + 'x'.repeat(left % 2);
    };
    const queue = longest(205, stem);
    const partition = longest(nameBytesLeft - 205);
    const [stored] = await broker.client.push([{ queue, partition, payload: 1 }]);
    assert.equal(stored.status, 'queued');
    const [message] = await broker.client.pop(queue, { partition, group: longest(nameBytesLeft - 205), mode: 'all' });
    assert.equal(message.partition, partition);

    const tooLong = longest(nameBytesLeft - 205 + 1);
    const refusals = [
      await broker.client.request('POST', '/api/v1/push', {
        json: { items: [{ queue, partition: tooLong, payload: 1 }] },
      }),
      await broker.client.request('POST', '/api/v1/push', {
        json: { items: [{ queue: longest(nameBytesLeft + 1), payload: 1 }] },
      }),
      await broker.client.request(
        'GET',
        `/api/v1/pop/queue/${encodeURIComponent(queue)}?consumerGroup=${encodeURIComponent(tooLong)}`,
      ),
      await broker.client.request(
        'GET',
        `/api/v1/pop/queue/${encodeURIComponent(queue)}/partition/${encodeURIComponent(tooLong)}`,
      ),
      await broker.client.request('POST', '/api/v1/configure', { json: { queue: longest(nameBytesLeft + 1) } }),
      await broker.client.request('POST', '/api/v1/ack', {
        json: { transactionId: 'a', partitionId: '1', consumerGroup: longest(nameBytesLeft + 1) },
      }),
    ];
    for (const refusal of refusals) {
      assert.equal(refusal.status, 413);
      assert.equal(refusal.body.code, 'name_too_long');
      assert.match(refusal.body.error, /447/);
      assert.match(refusal.body.error, /queue|partition|group/i);
    }
    assert.match(refusals[0].body.error, /partition/i);
    assert.match(refusals[0].body.error, new RegExp(String(nameBytesLeft - 205 + 1)));
  });

  // Contract 14.2: a refused push changes nothing, also for its good items
  it('stores nothing of a push of which one name is too long', async () => {
    const queue = freshName('q');
    const answer = await broker.client.request('POST', '/api/v1/push', {
      json: {
        items: [
          { queue, payload: 1 },
          { queue, partition: 'x'.repeat(500), payload: 2 },
        ],
      },
    });
    assert.equal(answer.status, 413);
    assert.equal(await broker.client.queueExists(queue), false);
  });

  // Contract 14.1: request body 64 MiB
  it('refuses a body over 64 MiB with 413 as plain text as soon as the length is known', async () => {
    const connection = await RawConnection.open(broker.client.port);
    connection.write(
      `POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: ${64 * 1024 * 1024 + 1}\r\n\r\n`,
    );
    const text = await connection.untilClosed();
    assert.match(text, /^HTTP\/1\.1 413 /);
    assert.match(text, /^content-type: text\/plain/im);
  });

  // Errors: a known path asked with another method is named as such
  it('refuses a known path with a method it does not have', async () => {
    for (const [method, path] of [
      ['GET', '/api/v1/push'],
      ['POST', `/api/v1/pop/queue/${freshName('q')}`],
      ['GET', '/api/v1/ack'],
      ['PUT', '/api/v1/configure'],
    ]) {
      const answer = await broker.client.request(method, path);
      assert.ok(answer.status === 405 || answer.status === 404, `${method} ${path} answered ${answer.status}`);
      assert.ok(['method_not_allowed', 'no_such_route'].includes(answer.body.code));
    }
  });

  // Contract 15
  it('reports its health in the shape clients know', async () => {
    const answer = await broker.client.request<{
      status: string;
      engine: string;
      version: string;
      raft: Record<string, unknown> & { storageReady: boolean };
    }>('GET', '/health');
    assert.equal(answer.status, 200);
    assert.equal(answer.body.status, 'healthy');
    assert.equal(answer.body.engine, 'raft');
    assert.match(answer.body.version, /^2\.\d+\.\d+$/);
    for (const key of ['role', 'leader', 'term', 'applied', 'commit', 'lag', 'storageReady', 'clusterVersion']) {
      assert.ok(key in answer.body.raft, `raft.${key}`);
    }
    assert.equal(answer.body.raft.storageReady, true);
  });

  // Contract 2 and 15
  it('serves metrics as JSON and as Prometheus text', async () => {
    const json = await broker.client.request('GET', '/metrics');
    assert.equal(json.status, 200);
    assert.match(json.headers['content-type'] ?? '', /^application\/json/);
    const text = await broker.client.request('GET', '/metrics/prometheus');
    assert.equal(text.status, 200);
    assert.match(text.headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/);
    for (const line of text.bytes.toString().trimEnd().split('\n')) {
      assert.match(line, /^(# (HELP|TYPE) \S+ .*|[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})? -?[0-9.eE+-]+|)$/);
    }
  });

  // Contract 2: plain HTTP/1.1, keep-alive
  it('serves many requests over one connection, in order', async () => {
    const queue = freshName('q');
    const connection = await RawConnection.open(broker.client.port);
    for (let i = 0; i < 5; i++) {
      connection.write(postText('/api/v1/push', JSON.stringify({ items: [{ queue, payload: i }] })));
    }
    for (let i = 0; i < 5; i++) {
      const answer = await connection.nextAnswer();
      assert.equal(answer?.status, 201);
      assert.equal((JSON.parse(answer.body) as PushResult[])[0].offset, i);
    }
    connection.destroy();
  });
});
