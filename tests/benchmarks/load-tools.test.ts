/** The shortcuts of the load generator agree with JSON, and it sees what it must see. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { OrderWatch } from '../../benchmarks/support/load.ts';
import { PopAnswer } from '../../benchmarks/support/pop-answer.ts';
import { processUsage } from '../../benchmarks/support/process-usage.ts';
import { PushRequest } from '../../benchmarks/support/push-request.ts';
import { bodilessRequest, RawConnection } from '../../benchmarks/support/raw-connection.ts';
import { Window } from '../../benchmarks/support/window.ts';
import { BrokerProcess } from '../e2e/broker-process.ts';

function bodyOf(bytes: Buffer): string {
  return bytes.toString('latin1', bytes.indexOf('\r\n\r\n') + 4);
}

test('a patched push request is valid JSON with payloads of the size asked for', () => {
  const request = new PushRequest({ queue: 'q', items: 3, payloadBytes: 200, withIds: true });
  request.set(0, 7, 1, 123_456);
  request.set(1, 12_345_678, 2, 123_457);
  request.set(2, 0, 3, 123_458);
  request.set(2, 5, 4, 99);
  const head = request.bytes.toString('latin1', 0, request.bytes.indexOf('\r\n\r\n'));
  const body = bodyOf(request.bytes);
  assert.equal(Number(/Content-Length: (\d+)/.exec(head)?.[1]), body.length);
  const { items } = JSON.parse(body) as {
    items: { partition: string; transactionId: string; payload: { t: string; n: string } }[];
  };
  assert.deepEqual(
    items.map((item) => [item.partition, Number(item.payload.n), Number(item.payload.t)]),
    [
      ['p00000007', 1, 123_456],
      ['p12345678', 2, 123_457],
      ['p00000005', 4, 99],
    ],
  );
  for (const item of items) assert.equal(JSON.stringify(item.payload).length, 200);
  assert.equal(new Set(items.map((item) => item.transactionId)).size, 3);
});

test('without ids no transactionId is sent', () => {
  const request = new PushRequest({ queue: 'q', items: 1, payloadBytes: 100, withIds: false });
  request.set(0, 1, 1, 1);
  assert.deepEqual(Object.keys(JSON.parse(bodyOf(request.bytes)).items[0]), ['queue', 'partition', 'payload']);
});

test('an answer that arrives byte by byte is read whole, and the connection serves the next request', async () => {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on('data', async () => {
      for (const byte of Buffer.from('HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhello')) {
        socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const connection = await RawConnection.open(address.port);
  for (let i = 0; i < 2; i++) {
    const answer = await connection.request(bodilessRequest('GET', '/'));
    assert.equal(answer.status, 200);
    assert.equal(answer.bytes.toString('latin1', answer.bodyStart, answer.bodyEnd), 'hello');
  }
  connection.close();
  server.close();
});

test('a connection that the other side closes rejects the request on its way', async () => {
  const server = createServer((socket) => socket.on('data', () => socket.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const connection = await RawConnection.open(address.port);
  await assert.rejects(connection.request(bodilessRequest('GET', '/')));
  server.close();
});

test('what is scanned out of a real pop answer is what its JSON says, and its ack settles all of it', async () => {
  const broker = await BrokerProcess.start();
  try {
    const { port } = broker.client;
    const connection = await RawConnection.open(port);
    const push = new PushRequest({ queue: 'scan', items: 40, payloadBytes: 120, withIds: true });
    for (let i = 0; i < push.items; i++) push.set(i, i % 3, i, 1000 + i);
    assert.equal((await connection.request(push.bytes)).status, 201);
    const pop = bodilessRequest('GET', '/api/v1/pop/queue/scan?consumerGroup=g&subscriptionMode=all&partitions=8');
    const answer = await connection.request(pop);
    const json = JSON.parse(answer.bytes.toString('utf8', answer.bodyStart, answer.bodyEnd)) as {
      messages: { partition: string; offset: number; data: { n: string; t: string } }[];
    };
    const scanned = new PopAnswer('g');
    scanned.read(answer);
    assert.equal(scanned.count, 40);
    assert.deepEqual(
      json.messages.map((m) => [Number(m.partition.slice(1)), m.offset, Number(m.data.n), Number(m.data.t)]),
      json.messages.map((_, i) => [scanned.partitions[i], scanned.offsets[i], scanned.numbers[i], scanned.timesUs[i]]),
    );
    const acked = await connection.request(scanned.ackRequest);
    const results = JSON.parse(acked.bytes.toString('utf8', acked.bodyStart, acked.bodyEnd)) as { success: boolean }[];
    assert.equal(results.filter((result) => result.success).length, 40);
    assert.equal((await connection.request(pop)).status, 204);
    connection.close();
  } finally {
    await broker.dispose();
  }
});

test('the order watch counts gaps, repeats and swapped numbers', () => {
  const watch = new OrderWatch(2);
  const answer = new PopAnswer('g');
  const see = (offsets: number[], numbers: number[]) => {
    answer.count = offsets.length;
    answer.offsets.set(offsets);
    answer.numbers.set(numbers);
    answer.partitions.fill(1);
    watch.see(answer, true);
  };
  see([0, 1, 2], [0, 1, 2]);
  assert.equal(watch.violations, 0);
  see([3, 4], [4, 3]);
  assert.equal(watch.violations, 2);
  see([6], [5]);
  assert.equal(watch.violations, 3);
});

test('a full window holds a push back until something is acked', async () => {
  const window = new Window(10);
  await window.enter(10);
  let entered = false;
  const second = window.enter(5).then(() => {
    entered = true;
  });
  window.leave(4);
  await Promise.resolve();
  assert.equal(entered, false);
  window.leave(1);
  await second;
  assert.equal(window.inFlight, 10);
});

test('the usage of a process rises with its work', () => {
  const before = processUsage(process.pid);
  const workBefore = process.cpuUsage();
  while (process.cpuUsage(workBefore).user < 50_000);
  const after = processUsage(process.pid);
  assert.ok(after.cpuUs - before.cpuUs >= 20_000);
  assert.ok(after.rssPeakBytes >= after.rssBytes && after.rssBytes > 1e6);
});
