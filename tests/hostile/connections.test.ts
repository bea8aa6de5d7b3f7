/** Connections that send no HTTP, too much of it, or too slowly; clients that vanish, wait in crowds, or never read. */
import assert from 'node:assert/strict';
import { once, setMaxListeners } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { chooseSeed, SeededRandom } from '../crash/seeded-random.ts';
import { serving } from '../crash/serving.ts';
import { type Answer, freshName, type PopBody, popPath } from '../e2e/broker-client.ts';
import type { BrokerProcess } from '../e2e/broker-process.ts';
import { eventually, passed } from '../e2e/clock.ts';
import { EdgeClient } from '../e2e/edge-client.ts';
import { postText, RawConnection } from '../e2e/raw-connection.ts';
import { underWatch } from './watched-broker.ts';

const miB = 1024 * 1024;
const healthRequest = 'GET /health HTTP/1.1\r\nHost: broker\r\n\r\n';

/** Sends bytes on a fresh connection and answers all that came back until the broker closed it. */
async function converse(port: number, bytes: string | Uint8Array): Promise<string> {
  const connection = await RawConnection.open(port);
  connection.write(bytes);
  return connection.untilClosed();
}

describe('connections that send no HTTP', () => {
  it('other protocols and random bytes are refused and closed, and hurt nobody', async (context) => {
    const seed = chooseSeed('LANEMQ_HOSTILE_SEED');
    context.diagnostic(`repeat with: LANEMQ_HOSTILE_SEED=${seed} node --test dist/tests/hostile/connections.test.js`);
    const random = new SeededRandom(seed);
    await underWatch(context, { args: ['--receive-timeout-ms', '4000'] }, {}, async (broker) => {
      const { port } = broker.client;
      const greetings = [
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
        'SSH-2.0-OpenSSH_9.0\r\n',
        '*1\r\n$4\r\nPING\r\n',
        'GET /health HTTP/9.9\r\nHost: b\r\n\r\n',
        'GET\x00/health HTTP/1.1\r\nHost: b\r\n\r\n',
        'GET /health HTTP/1.1\r\nHost: b\r\nBad Header\r\n\r\n',
        'GET /health HTTP/1.1\r\nHost: b\r\n: empty\r\n\r\n',
        'GET /health HTTP/1.1\r\nHost: b\r\nX: a\x00b\r\n\r\n',
        'GET /health HTTP/1.1\r\n\r\n',
      ];
      for (const greeting of greetings) {
        const text = await converse(port, Buffer.from(greeting, 'latin1'));
        assert.doesNotMatch(text, /HTTP\/1\.1 (2|5)/, `${JSON.stringify(greeting)}: ${text.slice(0, 100)}`);
      }
      const blobs = Array.from({ length: 200 }, async () => {
        const bytes = Uint8Array.from({ length: random.between(1, 4000) }, () => random.integer(256));
        // A blob that could be the beginning of a request would have to time out; this ends it.
        const text = await converse(port, Buffer.concat([bytes, Buffer.from('\r\n\r\n')]));
        assert.doesNotMatch(text, /HTTP\/1\.1 (2|5)/);
      });
      await Promise.all(blobs);
    });
  });

  it('requests pipelined before garbage are answered in order or not at all, and the garbage ends the connection', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('pipelined');
      const push = (n: number): string => postText('/api/v1/push', `{"items":[{"queue":"${queue}","payload":${n}}]}`);
      const garbage = '\x01\x02garbage\r\n\r\n';
      const connection = await RawConnection.open(broker.client.port);
      connection.write(`${push(0)}${push(1)}GET ${popPath(queue, { batch: 1 })} HTTP/1.1\r\nHost: b\r\n\r\n${push(2)}`);
      assert.match((await connection.nextAnswer())?.body ?? '', /"offset":0/);
      assert.match((await connection.nextAnswer())?.body ?? '', /"offset":1/);
      assert.equal((await connection.nextAnswer())?.status, 200);
      assert.match((await connection.nextAnswer())?.body ?? '', /"offset":2/);
      connection.write(garbage);
      assert.match(await connection.untilClosed(), /^(HTTP\/1\.1 400|$)/);
      const together = await RawConnection.open(broker.client.port);
      together.write(push(3) + push(4) + garbage);
      const offsets = (await together.untilClosed()).match(/"offset":\d/g) ?? [];
      assert.ok(['', '"offset":3', '"offset":3,"offset":4'].includes(offsets.join()), `answers in order: ${offsets}`);
    });
  });

  it('a thousand requests pipelined on one connection are all answered, in order', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('pipe');
      const connection = await RawConnection.open(broker.client.port);
      const requests = Array.from({ length: 1000 }, (_, n) =>
        postText('/api/v1/push', `{"items":[{"queue":"${queue}","payload":${n}}]}`),
      );
      connection.write(requests.join(''));
      for (let n = 0; n < 1000; n++) {
        const answer = await connection.nextAnswer();
        assert.equal(answer?.status, 201);
        assert.ok(answer.body.includes(`"offset":${n}}`), `answer ${n}: ${answer.body}`);
      }
      connection.destroy();
    });
  });
});

describe('headers and paths that are too much', () => {
  it('long headers, many headers and long paths are refused with 431 or 414, and the next client is served', async (context) => {
    await underWatch(context, {}, {}, async (broker) => {
      const { port } = broker.client;
      const long = 'x'.repeat(miB);
      const requests = [
        `GET /health HTTP/1.1\r\nHost: b\r\nX-Long: ${long}\r\n\r\n`,
        `GET /health HTTP/1.1\r\nHost: b\r\n${long}: 1\r\n\r\n`,
        `GET /health HTTP/1.1\r\nHost: b\r\n${'X-Many: 1\r\n'.repeat(50_000)}\r\n`,
        `GET /${long} HTTP/1.1\r\nHost: b\r\n\r\n`,
        `GET /api/v1/pop/queue/q?consumerGroup=${long} HTTP/1.1\r\nHost: b\r\n\r\n`,
        `${long} / HTTP/1.1\r\nHost: b\r\n\r\n`,
      ];
      for (const request of requests) {
        const text = await converse(port, request);
        // The refusal may be lost when the broker closes on bytes that are still on their way.
        if (text !== '') assert.match(text, /^HTTP\/1\.1 4\d\d/, text.slice(0, 200));
      }
      const crowd = Array.from({ length: 100 }, () => converse(port, requests[0]));
      await Promise.all(crowd);
      assert.equal((await broker.client.request('GET', '/health')).status, 200);
    });
  });

  it('odd but legal requests are answered', async () => {
    await serving({}, async (broker) => {
      const { port } = broker.client;
      const statusOf = async (text: string): Promise<number | undefined> => {
        const connection = await RawConnection.open(port);
        connection.write(Buffer.from(text, 'latin1'));
        const answer = await connection.nextAnswer();
        connection.destroy();
        return answer?.status;
      };
      const body = '{"items":[]}';
      assert.equal(await statusOf('GET /health HTTP/1.0\r\n\r\n'), 200);
      const absolute = await statusOf('GET http://elsewhere/health HTTP/1.1\r\nHost: b\r\n\r\n');
      assert.ok(absolute !== undefined && absolute < 500, `an absolute target: ${absolute}`);
      assert.equal(await statusOf('GET /health HTTP/1.1\r\nHost: b\r\nX-Latin: \xe9\xff\r\n\r\n'), 200);
      assert.equal(
        await statusOf(
          `POST /api/v1/push HTTP/1.1\r\nHost: b\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n${body}`,
        ),
        201,
      );
      assert.equal(
        await statusOf('GET /health HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
        200,
      );
      const patient = await RawConnection.open(port);
      patient.write('POST /api/v1/push HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n');
      assert.equal((await patient.nextAnswer())?.status, 100);
      patient.write(body);
      assert.equal((await patient.nextAnswer())?.status, 201);
      patient.destroy();
      for (const method of ['TRACE', 'OPTIONS', 'PUT', 'PATCH', 'PROPFIND']) {
        const status = await statusOf(`${method} /api/v1/push HTTP/1.1\r\nHost: b\r\n\r\n`);
        assert.ok(status !== undefined && status >= 400 && status < 500, `${method}: ${status}`);
      }
    });
  });
});

describe('clients that are slow', () => {
  it('headers and bodies sent byte by byte are given up, and nobody waits for them', async (context) => {
    const args = ['--receive-timeout-ms', '2000'];
    await underWatch(context, { args }, {}, async (broker) => {
      const { port } = broker.client;
      const queue = freshName('loris');
      const body = `{"items":[{"queue":"${queue}","payload":"${'x'.repeat(5000)}"}]}`;
      const heads = Array.from({ length: 150 }, () => dribble(port, `GET /health HTTP/1.1\r\nX: ${'y'.repeat(5000)}`));
      const bodies = Array.from({ length: 150 }, () => dribble(port, postText('/api/v1/push', body)));
      const lives = await Promise.all([...heads, ...bodies]);
      for (const lifeMs of lives) assert.ok(lifeMs < 6000, `a connection that never finishes lived ${lifeMs} ms`);
      assert.equal(await broker.client.queueExists(queue), false);
    });
  });

  // S-078
  it('readers that do not read are cut, cost bounded memory, and their messages come back at lease end', async (context) => {
    const args = ['--slow-reader-seconds', '1', '--answer-bytes', '32MiB'];
    // What was read for them is let go at the next collection, which nothing hurries while the broker is idle.
    await underWatch(context, { args }, { growthBytesMax: 352 * miB, peakBytesMax: 512 * miB }, async (broker) => {
      const { client } = broker;
      const queue = freshName('unread');
      // Larger than what the kernel takes for a client that does not read.
      const partitions = Array.from({ length: 14 }, (_, n) => `p${n}`);
      const payload = 'x'.repeat(14 * miB);
      for (const partition of partitions) await client.push([{ queue, partition, payload, transactionId: partition }]);
      const readers: Socket[] = [];
      for (const partition of partitions) {
        const socket = connect({ host: '127.0.0.1', port: client.port });
        socket.on('error', () => undefined);
        await once(socket, 'connect');
        socket.pause();
        const path = popPath(queue, { partition, leaseSeconds: 3 });
        socket.write(`GET ${path} HTTP/1.1\r\nHost: b\r\n\r\n`);
        readers.push(socket);
      }
      await eventually(async () => (await metric(broker, 'readersCut')) > 0, 15_000, 'readers are cut');
      for (const socket of readers) socket.destroy();
      const found = new Set<string>();
      await eventually(
        async () => {
          for (const message of await client.pop(queue, { batch: 1, leaseSeconds: 60 }))
            found.add(message.transactionId);
          return found.size === partitions.length;
        },
        10_000,
        'all messages come back',
      );
      await client.deleteQueue(queue);
    });
  });
});

describe('large reads whose answers nobody reads', () => {
  const connections = 60;
  const queue = freshName('large');
  const group = 'hoarders';

  function unread(port: number, method: string, path: string, body: string): Socket {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: b\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return socket;
  }

  it('sixty of each route cost bounded memory, and others are served', async (context) => {
    const args = ['--answer-bytes', '64MiB', '--slow-reader-seconds', '5'];
    await underWatch(
      context,
      { args },
      // The sixteen that are worked on, the answers of the others, and what the kernel and the collector have not given back.
      { growthBytesMax: 640 * miB, peakBytesMax: 768 * miB, roundMsMax: 5000 },
      async (broker) => {
        const { client } = broker;
        const payload = 'x'.repeat(100_000);
        const partitions = ['p0', 'p1', 'p2', 'p3'];
        for (const partition of partitions) {
          for (let i = 0; i < 10; i++)
            await client.push(Array.from({ length: 15 }, () => ({ queue, partition, payload })));
        }
        const wide = `${queue}-wide`;
        for (let first = 0; first < 20_000; first += 5000) {
          await client.push(
            Array.from({ length: 5000 }, (_, i) => ({
              queue: wide,
              partition: `${first + i}-${'y'.repeat(200)}`,
              payload: 1,
            })),
          );
        }
        const path = `/api/v1/consumer-groups/${group}/queues/${wide}/seek`;
        const seek = await client.request('POST', path, { json: { toBeginning: true } });
        assert.equal(seek.status, 200);
        const entries = partitions.map((partition) => ({ queue, partition, offset: 0, maxBytes: 8 * miB }));
        const attacks: readonly [string, string, object | null][] = [
          ['POST', '/api/v1/fetch', { entries, maxBytes: 32 * miB }],
          ['POST', '/api/v1/partitions/changed', { entries: Array.from({ length: 20 }, () => ({ queue: wide })) }],
          ['POST', '/api/v1/consumer-groups/positions', { consumerGroup: group }],
          ['GET', `/api/v1/messages?queue=${queue}&limit=1000`, null],
          ['GET', `/api/v1/resources/queues/${queue}/partitions/p1/peek?limit=1000`, null],
          ['GET', `/api/v1/consumer-groups/${group}?limit=5000`, null],
          ['GET', `/api/v1/resources/queues/${wide}?limit=1000`, null],
        ];
        for (const [method, path, body] of attacks) {
          const text = body === null ? '' : JSON.stringify(body);
          const sockets = Array.from({ length: connections }, () => unread(client.port, method, path, text));
          await passed(1500);
          for (const socket of sockets) socket.destroy();
        }
        await client.deleteQueue(queue);
        await client.deleteQueue(wide);
      },
    );
  });

  it('sixty polls of queue/v1 at once are given no more memory than answers may have', async () => {
    const args = ['--answer-bytes', '32MiB', '--tail-bytes', '1MiB', '--cold-bytes', '1MiB', '--segment-bytes', '1MiB'];
    await serving({ args }, async (broker) => {
      const client = new EdgeClient(broker);
      const lane = await client.newQueue(1);
      const value = 'x'.repeat(200_000);
      for (let i = 0; i < 5; i++) {
        await client.enqueue(
          lane,
          Array.from({ length: 20 }, (_, n) => ({ key: 'k', seq: i * 20 + n, value })),
        );
      }
      const path = `${lane}/partitions/0/poll?limit=1000`;
      const sockets = Array.from({ length: connections }, () => unread(broker.client.port, 'GET', path, ''));
      await eventually(async () => (await metric(broker, 'unsentAnswerBytes')) > 16 * miB, 10_000, 'answers wait');
      await passed(1000);
      const unsent = await metric(broker, 'unsentAnswerBytes');
      assert.ok(unsent < 48 * miB, `${unsent} bytes wait`);
      const refused = await fetch(`http://127.0.0.1:${broker.client.port}${path}`);
      assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
      await refused.body?.cancel();
      for (const socket of sockets) socket.destroy();
      await eventually(async () => (await client.call('GET', path)).status === 200, 5000, 'there is room again');
    });
  });
});

describe('crowds', () => {
  // S-028, small; S-006
  it('two thousand parked pops: one push answers exactly one, the others stay; abandoned ones take nothing', async (context) => {
    await underWatch(context, {}, { growthBytesMax: 128 * miB }, async (broker) => {
      const { client } = broker;
      const queue = freshName('crowd');
      const crowd = 2000;
      let answered = 0;
      const hangUp = new AbortController();
      setMaxListeners(0, hangUp.signal);
      const parked = Array.from({ length: crowd }, () => {
        const pop = client.request<PopBody>('GET', popPath(queue, { waitMs: 60_000 }), { signal: hangUp.signal });
        return pop.then(
          (answer: Answer<PopBody>) => {
            answered++;
            return answer;
          },
          () => null,
        );
      });
      await parkedCount(broker, crowd);
      for (let n = 1; n <= 3; n++) {
        await client.pushAll(queue, `p${n}`, [`m${n}`]);
        await eventually(async () => answered >= n, 2000, `push ${n} answers a parked pop`);
        await passed(100);
        assert.equal(answered, n, 'one push answers exactly one');
      }
      hangUp.abort();
      const results = await Promise.all(parked);
      const messages = results.flatMap((answer) => answer?.body?.messages ?? []);
      assert.deepEqual(messages.map((message) => message.data).sort(), ['m1', 'm2', 'm3']);
      await parkedCount(broker, 0);
      await client.pushAll(queue, 'p4', ['m4']);
      const [late] = await client.pop(queue);
      assert.equal(late?.data, 'm4', 'no abandoned pop took it');
      assert.equal(late.deliveryAttempt, 1);
    });
  });

  // S-077, small
  it('four thousand idle connections cost little and are gone when they leave', async (context) => {
    await underWatch(context, {}, { growthBytesMax: 128 * miB }, async (broker) => {
      const { port } = broker.client;
      const filesBefore = await broker.openFiles();
      const bytesBefore = await broker.residentBytes();
      const sockets: Socket[] = [];
      for (let i = 0; i < 4000; i++) {
        const socket = connect({ host: '127.0.0.1', port });
        socket.on('error', () => undefined);
        sockets.push(socket);
        if (i % 200 === 199) await once(socket, 'connect');
      }
      for (const socket of sockets) socket.write(healthRequest);
      await eventually(async () => (await broker.openFiles()) >= filesBefore + 4000, 10_000, 'all are accepted');
      await passed(200);
      const each = ((await broker.residentBytes()) - bytesBefore) / 4000;
      context.diagnostic(`${(each / 1024).toFixed(1)} KiB per idle connection`);
      assert.ok(each < 40 * 1024, `${each} bytes per idle connection`);
      for (const socket of sockets) socket.destroy();
      await eventually(async () => (await broker.openFiles()) <= filesBefore + 20, 10_000, 'all descriptors are back');
    });
  });

  // S-062
  it('without file descriptors established clients go on, CPU stays low, and new ones are accepted as soon as there are', async () => {
    await serving({ openFilesMax: 256, args: ['--segment-bytes', '64KiB'] }, async (broker) => {
      const { client } = broker;
      const queue = freshName('files');
      await client.pushAll(queue, 'p', ['first']);
      const sockets: Socket[] = [];
      for (let i = 0; i < 400; i++) {
        const socket = connect({ host: '127.0.0.1', port: client.port });
        socket.on('error', () => undefined);
        sockets.push(socket);
      }
      await passed(500);
      const cpuBefore = await broker.cpuMs();
      await passed(1000);
      const cpuUsed = (await broker.cpuMs()) - cpuBefore;
      assert.ok(cpuUsed < 500, `${cpuUsed} ms of CPU in an idle second`);
      // The connection that is kept alive goes on, also when segments have to be opened meanwhile.
      const answers: number[] = [];
      for (let i = 0; i < 40; i++) {
        const json = { items: [{ queue, partition: 'p', transactionId: `t${i}`, payload: 'x'.repeat(5000) }] };
        const answer = await client.request('POST', '/api/v1/push', { json });
        answers.push(answer.status);
      }
      for (const status of answers) assert.ok(status === 201 || status >= 500, `answered ${status}`);
      for (const socket of sockets) socket.destroy();
      const again = performance.now();
      await eventually(
        async () => (await client.request('GET', '/health', { keepAlive: false }).catch(() => null))?.status === 200,
        5000,
        'a new connection is served',
      );
      assert.ok(performance.now() - again < 1500);
      const accepted = answers.filter((status) => status === 201).length;
      const row = await client.queueRow(queue);
      assert.ok((row?.messages.total ?? 0) >= accepted + 1, 'what was accepted is there');
    });
  });
});

async function metric(broker: BrokerProcess, name: string): Promise<number> {
  const { http, ...engine } = await broker.client.metrics();
  const value = new Map<string, unknown>(Object.entries({ ...engine, ...Object(http) })).get(name);
  assert.ok(typeof value === 'number', `the metrics have ${name}`);
  return value;
}

/** Waits until so many pops are parked. */
async function parkedCount(broker: BrokerProcess, count: number): Promise<void> {
  await eventually(async () => (await metric(broker, 'parkedPops')) === count, 10_000, `${count} parked pops`);
}

/** Sends text a byte at a time until the broker closes; answers how long that took. */
async function dribble(port: number, text: string): Promise<number> {
  const connection = await RawConnection.open(port);
  const startedAt = performance.now();
  connection.socket.setNoDelay(true);
  for (let at = 0; at < text.length && !connection.closed; at++) {
    connection.write(text[at]);
    await passed(50);
    if (performance.now() - startedAt > 10_000) break;
  }
  const lifeMs = performance.now() - startedAt;
  connection.destroy();
  return lifeMs;
}
