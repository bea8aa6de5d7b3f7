/** Contract sections 14 and 17.3: limits on bodies, on bytes in flight, and on what the disk may hold. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { freshName, type PushResult } from './broker-client.ts';
import { BrokerProcess } from './broker-process.ts';
import { eventually, timed } from './clock.ts';
import { RawConnection } from './raw-connection.ts';

const bodyBytesMax = 1024 * 1024;
/** Room in flight for one largest body and a small one. */
const admissionBytes = bodyBytesMax + 4096;
const admissionWaitMs = 1000;

/** The text of a push of one item that is `bytes` long. */
function pushOfBytes(queue: string, bytes: number): string {
  const frame = JSON.stringify({ items: [{ queue, payload: '' }] });
  return JSON.stringify({ items: [{ queue, payload: 'x'.repeat(bytes - Buffer.byteLength(frame)) }] });
}

describe('limits', { concurrency: 8 }, () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start({ args: ['--max-body-bytes', String(bodyBytesMax)] });
  });
  after(() => broker.dispose());

  // Contract 14.1
  it('takes a body of exactly the limit and refuses one byte more with 413 as plain text', async () => {
    const queue = freshName('q');
    const accepted = await broker.client.request<PushResult[]>('POST', '/api/v1/push', {
      bytes: pushOfBytes(queue, bodyBytesMax),
    });
    assert.equal(accepted.status, 201);
    const connection = await RawConnection.open(broker.client.port);
    connection.write(
      `POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Length: ${bodyBytesMax + 1}\r\nConnection: keep-alive\r\n\r\n`,
    );
    const text = await connection.untilClosed();
    assert.match(text, /^HTTP\/1\.1 413 /);
    assert.match(text, /^content-type: text\/plain/im);
    assert.equal((await broker.client.pop(queue)).length, 1);
  });

  // Contract 14.1: chunked bodies have no length to look at
  it('refuses a chunked body as soon as it is over the limit', async () => {
    const queue = freshName('q');
    const connection = await RawConnection.open(broker.client.port);
    connection.write('POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nTransfer-Encoding: chunked\r\n\r\n');
    const chunk = Buffer.from(`10000\r\n${'x'.repeat(0x10000)}\r\n`);
    let sent = 0;
    while (!connection.closed && sent < 64 * bodyBytesMax) {
      await connection.writeDrained(chunk);
      sent += 0x10000;
    }
    assert.ok(connection.closed, 'the broker ended the connection');
    const text = await connection.untilClosed();
    // A reset may overtake the answer; what must not happen is that the broker reads on.
    if (text !== '') assert.match(text, /^HTTP\/1\.1 413 /);
    assert.ok(sent < 32 * bodyBytesMax, `it took ${sent} bytes`);
    assert.equal(await broker.client.queueExists(queue), false);
  });

  // Contract 17.3: the limit holds for the unpacked size
  it('refuses a small gzip body that unpacks over the limit, and takes one that fits', async () => {
    const queue = freshName('q');
    const send = (bytes: number) =>
      broker.client.request('POST', '/api/v1/push', {
        bytes: gzipSync(pushOfBytes(queue, bytes)),
        headers: { 'content-encoding': 'gzip' },
      });
    assert.equal((await send(bodyBytesMax)).status, 201);
    assert.equal((await send(bodyBytesMax + 1)).status, 413);
    assert.equal((await send(100 * bodyBytesMax)).status, 413);
    assert.equal((await broker.client.pop(queue)).length, 1);
  });

  // Contract 14.1: the limit is for every route with a body
  it('refuses bodies over the limit on the other routes too', async () => {
    const paths = ['/api/v1/ack', '/api/v1/ack/batch', '/api/v1/configure', '/api/v1/lease/x/extend'];
    await Promise.all(
      paths.map(async (path) => {
        const connection = await RawConnection.open(broker.client.port);
        connection.write(`POST ${path} HTTP/1.1\r\nHost: broker\r\nContent-Length: ${bodyBytesMax + 1}\r\n\r\n`);
        assert.match(await connection.untilClosed(), /^HTTP\/1\.1 413 /, path);
      }),
    );
  });
});

describe('bytes in flight', () => {
  let broker: BrokerProcess;
  before(async () => {
    broker = await BrokerProcess.start({
      args: [
        ...['--max-body-bytes', String(bodyBytesMax)],
        ...['--admission-bytes', String(admissionBytes)],
        ...['--admission-wait-ms', String(admissionWaitMs)],
      ],
    });
  });
  after(() => broker.dispose());

  async function admittedBytes(): Promise<number> {
    const { http } = (await broker.client.metrics()) as { http: { admittedBytes: number } };
    return http.admittedBytes;
  }

  /** A push whose body is not all there yet: its bytes are in flight, as the metrics show, until `finish`. */
  async function halfPush(queue: string): Promise<{ finish: () => Promise<number>; connection: RawConnection }> {
    const text = pushOfBytes(queue, bodyBytesMax);
    const connection = await RawConnection.open(broker.client.port);
    connection.write(
      `POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text.slice(0, 100)}`,
    );
    await eventually(async () => (await admittedBytes()) >= bodyBytesMax, 5000, 'the push was admitted');
    return {
      connection,
      finish: async () => {
        connection.write(text.slice(100));
        const answer = await connection.nextAnswer();
        connection.destroy();
        return answer?.status ?? 0;
      },
    };
  }

  // Contract 3.4, 14.1, 14.2
  it('refuses a push with 429 and Retry-After when there is no room for it in time, and serves acks and pops', async () => {
    const queue = freshName('q');
    await broker.client.pushAll(queue, 'p', ['a']);
    const held = await halfPush(queue);
    const { result, tookMs } = await timed(
      broker.client.request('POST', '/api/v1/push', { bytes: pushOfBytes(queue, 100_000) }),
    );
    assert.equal(result.status, 429);
    assert.equal(result.body.code, 'overloaded');
    assert.match(result.headers['retry-after'] ?? '', /^[1-5]$/);
    assert.ok(tookMs > admissionWaitMs * 0.7 && tookMs < admissionWaitMs * 1.25 + 1000, `after ${tookMs} ms`);

    const messages = await broker.client.pop(queue);
    assert.equal(messages.length, 1);
    assert.equal((await broker.client.ackOne(messages[0])).success, true);
    await broker.client.configure(freshName('q'));
    assert.equal(await held.finish(), 201);
    assert.equal((await broker.client.pop(queue)).length, 1, 'the refused push stored nothing');
  });

  // Contract 14.1: a request waits for room
  it('lets a push wait for room and serves it when there is some', async () => {
    const queue = freshName('q');
    const held = await halfPush(queue);
    const waiting = broker.client.request('POST', '/api/v1/push', { bytes: pushOfBytes(queue, 100_000) });
    assert.equal(await held.finish(), 201);
    assert.equal((await waiting).status, 201);
  });

  // Contract 14.1: bytes in flight of a client that is gone are given back
  it('gives back the room of a client that went away in the middle of its body', async () => {
    const queue = freshName('q');
    for (let i = 0; i < 5; i++) {
      (await halfPush(queue)).connection.destroy();
      await eventually(async () => (await admittedBytes()) === 0, 5000, 'its room was given back');
    }
    const { result, tookMs } = await timed(
      broker.client.request('POST', '/api/v1/push', { bytes: pushOfBytes(queue, 100_000) }),
    );
    assert.equal(result.status, 201);
    assert.ok(tookMs < admissionWaitMs * 0.7, `after ${tookMs} ms`);
  });
});

describe('a disk over its watermark', () => {
  // Contract 14.2, 14.3
  it('refuses pushes with 507 and goes on with pops, acks, deletes and reads', async () => {
    const dataFolder = await mkdtemp(join(tmpdir(), 'lanemq-e2e-'));
    try {
      const before = await BrokerProcess.start({ dataFolder });
      await before.client.pushAll('q', 'p', ['a', 'b']);
      await before.client.pushAll('other', 'p', ['a']);
      const [leased] = await before.client.pop('q', { batch: 1 });
      await before.dispose();

      // Every disk that holds a system is more than a hundredth full.
      const full = await BrokerProcess.start({
        dataFolder,
        args: ['--disk-full-share', '0.01', '--disk-free-share', '0.01'],
      });
      const { client } = full;
      const refused = await client.request('POST', '/api/v1/push', { json: { items: [{ queue: 'q', payload: 1 }] } });
      assert.equal(refused.status, 507);
      assert.equal(refused.body.code, 'storage_full');
      assert.equal((await client.ackOne(leased)).success, true);
      const rest = await client.pop('q');
      assert.deepEqual(
        rest.map((message) => message.data),
        ['b'],
      );
      assert.equal((await client.ackOne(rest[0], 'dlq')).dlq, true);
      assert.equal((await client.deleteQueue('other')).deleted, true);
      assert.equal((await client.queueDetail('q')).partitions[0].stats.total, 2);
      await full.dispose();

      const after = await BrokerProcess.start({ dataFolder });
      assert.equal((await after.client.pushAll('q', 'p', ['c']))[0].offset, 2, 'the refused push stored nothing');
      await after.dispose();
    } finally {
      await rm(dataFolder, { recursive: true, force: true });
    }
  });
});
