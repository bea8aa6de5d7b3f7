/** Bodies that are too large, too deep, cut, packed, or not what they say they are. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { serving } from '../crash/serving.ts';
import { type ErrorBody, freshName } from '../e2e/broker-client.ts';
import type { BrokerProcess } from '../e2e/broker-process.ts';
import { RawConnection } from '../e2e/raw-connection.ts';
import { underWatch } from './watched-broker.ts';

const miB = 1024 * 1024;

function pushHead(headers: string): string {
  return `POST /api/v1/push HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\n${headers}\r\n`;
}

function pushBody(queue: string, payload = '1'): string {
  return `{"items":[{"queue":"${queue}","payload":${payload}}]}`;
}

async function nothingStored(broker: BrokerProcess, queue: string): Promise<void> {
  assert.equal(await broker.client.queueExists(queue), false, `nothing of ${queue} was stored`);
}

describe('bodies that are too large', () => {
  // S-075, contract 2: larger → 413, plain text
  it('an announced length of 10 GB is refused before a byte of it is sent, and the connection closed', async (context) => {
    await underWatch(context, {}, {}, async (broker) => {
      const refusals = ['push', 'ack', 'ack/batch', 'configure', 'lease/none/extend'].map(async (path) => {
        const connection = await RawConnection.open(broker.client.port);
        connection.write(`POST /api/v1/${path} HTTP/1.1\r\nHost: broker\r\nContent-Length: 10737418240\r\n\r\n{`);
        const answer = await connection.nextAnswer();
        assert.equal(answer?.status, 413, `${path}: ${answer?.body}`);
        assert.doesNotMatch(answer.head, /application\/json/i);
        await connection.untilClosed();
      });
      await Promise.all(refusals);
    });
  });

  // S-075
  it('a chunked body without end is refused as soon as it is over the limit', async (context) => {
    await underWatch(context, { args: ['--max-body-bytes', '2MiB'] }, {}, async (broker) => {
      const queue = freshName('endless');
      const connection = await RawConnection.open(broker.client.port);
      connection.write(pushHead('Transfer-Encoding: chunked\r\n'));
      const start = `{"items":[{"queue":"${queue}","payload":"`;
      connection.write(`${start.length.toString(16)}\r\n${start}\r\n`);
      const chunk = Buffer.from(`10000\r\n${'x'.repeat(65_536)}\r\n`);
      let sent = 0;
      const answered = connection.nextAnswer();
      let status: number | undefined;
      void answered.then((answer) => {
        status = answer?.status ?? 0;
      });
      while (status === undefined && sent < 256 * miB) {
        await connection.writeDrained(chunk);
        sent += 65_536;
      }
      assert.equal((await answered)?.status, 413);
      // What the kernel had taken on both sides is sent, but not much more.
      assert.ok(sent < 32 * miB, `refused after ${sent} bytes`);
      connection.destroy();
      await nothingStored(broker, queue);
    });
  });

  // S-075
  it('a gzip bomb is refused by its unpacked size and costs no memory', async (context) => {
    // One unpacked body may be in memory, and what is left of it until the collector comes.
    const limits = { growthBytesMax: 128 * miB, peakBytesMax: 256 * miB };
    await underWatch(context, {}, limits, async (broker) => {
      const zeros = Buffer.alloc(400 * miB, 0x20);
      const bomb = gzipSync(zeros, { level: 1 });
      const twice = gzipSync(bomb);
      const headers = { 'content-encoding': 'gzip' };
      for (let i = 0; i < 3; i++) {
        const answer = await broker.client.request('POST', '/api/v1/push', { bytes: bomb, headers, keepAlive: false });
        assert.equal(answer.status, 413);
      }
      const nested = await broker.client.request('POST', '/api/v1/push', { bytes: twice, headers, keepAlive: false });
      assert.equal(nested.status, 400, 'packed twice, announced once: not JSON');
    });
  });

  // S-075, contract 14.1: admission
  it('sixty bodies of the largest size at once stay within the admission budget', async (context) => {
    const args = ['--max-body-bytes', '4MiB', '--admission-bytes', '16MiB', '--admission-wait-ms', '30000'];
    // The good client's pushes wait their turn behind the large ones, so its rounds tell how long they take.
    const limits = { growthBytesMax: 256 * miB, peakBytesMax: 384 * miB, roundMsMax: 10_000 };
    await underWatch(context, { args }, limits, async (broker) => {
      const queue = freshName('large');
      const payload = JSON.stringify('x'.repeat(3.9 * miB));
      const requests = Array.from({ length: 60 }, () =>
        broker.client.request('POST', '/api/v1/push', { bytes: pushBody(queue, payload) }),
      );
      const statuses = (await Promise.all(requests)).map((answer) => answer.status);
      for (const status of statuses) assert.ok(status === 201 || status === 429, `answered ${status}`);
      assert.ok(statuses.includes(201), 'some were stored');
      const row = await broker.client.queueRow(queue);
      assert.equal(row?.messages.total, statuses.filter((status) => status === 201).length);
      await broker.client.deleteQueue(queue);
    });
  });
});

describe('bodies that are not what they say', () => {
  // S-075
  it('a wrong length stores nothing and smuggles no request into the next one', async (context) => {
    const args = ['--receive-timeout-ms', '2000'];
    await underWatch(context, { args }, {}, async (broker) => {
      const good = freshName('framed');
      const { port } = broker.client;
      const longer = await RawConnection.open(port);
      const body = pushBody(good);
      longer.write(`${pushHead(`Content-Length: ${body.length}\r\n`)}${body}EXTRA BYTES BEHIND\r\n\r\n`);
      // The request is as long as it says, and what follows is a request of its own, and none. The first answer may be
      // lost when the connection is closed for the second.
      const answers = (await longer.untilClosed()).match(/HTTP\/1\.1 \d+/g) ?? [];
      assert.ok(
        ['', 'HTTP/1.1 201', 'HTTP/1.1 400', 'HTTP/1.1 201,HTTP/1.1 400'].includes(answers.join()),
        `${answers}`,
      );
      const stored = await broker.client.pop(good, { batch: 10 });
      assert.ok(stored.length === 1 || (stored.length === 0 && answers.length < 2), 'what was answered is stored');

      const cut = freshName('cut');
      const shorter = await RawConnection.open(port);
      shorter.write(`${pushHead(`Content-Length: ${pushBody(cut).length + 10}\r\n`)}${pushBody(cut)}`);
      shorter.socket.end();
      await shorter.untilClosed();
      await nothingStored(broker, cut);

      const silent = freshName('silent');
      const waiting = await RawConnection.open(port);
      waiting.write(`${pushHead(`Content-Length: ${pushBody(silent).length + 10}\r\n`)}${pushBody(silent)}`);
      const text = await waiting.untilClosed();
      assert.doesNotMatch(text, /HTTP\/1\.1 2/, 'a body that never comes is given up');
      await nothingStored(broker, silent);
    });
  });

  // S-075
  it('two framings, or a framing that cannot be read, are refused', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('smuggled');
      const body = pushBody(queue);
      const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      const framings: readonly (readonly [string, string])[] = [
        [`Content-Length: ${body.length}\r\nTransfer-Encoding: chunked\r\n`, chunked],
        [`Content-Length: ${body.length}\r\nContent-Length: ${body.length + 1}\r\n`, body],
        ['Content-Length: abc\r\n', body],
        ['Content-Length: -1\r\n', body],
        [`Content-Length: +${body.length}\r\n`, body],
        [`Content-Length: 0x${body.length.toString(16)}\r\n`, body],
        ['Content-Length: 99999999999999999999999999\r\n', body],
        [`Content-Length: ${body.length},${body.length}\r\n`, body],
        ['Transfer-Encoding: chunked, identity\r\n', chunked],
        ['Transfer-Encoding: xchunked\r\n', chunked],
        [`Transfer-Encoding : chunked\r\nContent-Length: ${body.length}\r\n`, body],
        ['Transfer-Encoding: chunked\r\n', `zz\r\n${body}\r\n0\r\n\r\n`],
        ['Transfer-Encoding: chunked\r\n', `-5\r\n${body}\r\n0\r\n\r\n`],
        ['Transfer-Encoding: chunked\r\n', `FFFFFFFFFFFFFFFFF\r\n${body}\r\n0\r\n\r\n`],
        ['Transfer-Encoding: chunked\r\n', `${body.length.toString(16)}\r\n${body}XX0\r\n\r\n`],
      ];
      for (const [headers, bytes] of framings) {
        const connection = await RawConnection.open(broker.client.port);
        connection.write(pushHead(headers) + bytes);
        connection.socket.end();
        const text = await connection.untilClosed();
        assert.doesNotMatch(text, /HTTP\/1\.1 2/, `${JSON.stringify(headers)}: ${text.slice(0, 200)}`);
        await nothingStored(broker, queue);
      }
    });
  });

  // Contract 17.3
  it('packed bodies that are cut, wrong or of an unknown coding are refused, good ones are read', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('packed');
      const whole = gzipSync(pushBody(queue));
      const send = async (bytes: Uint8Array, coding: string): Promise<number> => {
        const headers = { 'content-encoding': coding };
        return (await broker.client.request('POST', '/api/v1/push', { bytes, headers })).status;
      };
      assert.equal(await send(whole.subarray(0, whole.length - 9), 'gzip'), 400);
      assert.equal(await send(Buffer.from(pushBody(queue)), 'gzip'), 400);
      assert.equal(await send(whole.subarray(0, 5), 'gzip'), 400);
      assert.equal(await send(Buffer.alloc(0), 'gzip'), 400);
      assert.equal(await send(whole, 'lzma-of-the-future'), 415);
      await nothingStored(broker, queue);
      assert.equal(await send(whole, 'gzip'), 201);
      assert.equal((await broker.client.pop(queue)).length, 1);
    });
  });
});

describe('bodies that are hard to read', () => {
  // S-072
  it('nesting beyond the limit is refused everywhere, two hundred at once, and hurts nobody', async (context) => {
    await underWatch(context, {}, {}, async (broker) => {
      const queue = freshName('deep');
      const arrays = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const objects = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
      const item = `{"queue":"${queue}","payload":1}`;
      const hundred = Array.from({ length: 100 }, () => item).join(',');
      const bodies: readonly (readonly [string, string])[] = [
        ['push', pushBody(queue, arrays(10_000))],
        ['push', pushBody(queue, arrays(100_000))],
        ['push', pushBody(queue, objects(50_000))],
        ['push', pushBody(queue, '['.repeat(100_000))],
        ['push', arrays(100_000)],
        ['push', `{"items":[${hundred},{"queue":"${queue}","payload":${arrays(100_000)}}]}`],
        ['push', `{"x":${arrays(100_000)},"items":[${item}]}`],
        ['ack', `{"transactionId":"a","partitionId":"1","error":${arrays(100_000)}}`],
        ['ack/batch', `{"acknowledgments":${arrays(100_000)}}`],
        ['configure', `{"queue":"${queue}","options":${objects(100_000)}}`],
      ];
      for (const [path, bytes] of bodies) {
        const answer = await broker.client.request<ErrorBody>('POST', `/api/v1/${path}`, { bytes });
        assert.equal(answer.status, 400, `${path} ${bytes.slice(0, 40)}: ${answer.status}`);
        assert.match(answer.body.code, /^bad_(body|request)$/);
      }
      const named = await broker.client.request<ErrorBody>('POST', '/api/v1/push', { bytes: bodies[0][1] });
      assert.match(named.body.error, /1000/, 'the limit is named');
      const many = Array.from({ length: 200 }, () =>
        broker.client.request('POST', '/api/v1/push', { bytes: pushBody(queue, arrays(100_000)) }),
      );
      for (const answer of await Promise.all(many)) assert.equal(answer.status, 400);
      await nothingStored(broker, queue);
      const fits = await broker.client.request('POST', '/api/v1/push', { bytes: pushBody(queue, arrays(900)) });
      assert.equal(fits.status, 201);
      const answer = await broker.client.popAnswer(queue);
      assert.ok(answer.bytes.includes(arrays(900)), 'what is accepted is delivered');
    });
  });

  // S-071
  it('bytes that are not UTF-8 are refused, stored nowhere, and never replaced', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('bytes');
      const wrong = {
        'FF FE': [0xff, 0xfe],
        'overlong NUL': [0xc0, 0x80],
        'cut sequence': [0xe2, 0x82],
        'lone continuation': [0x80],
        'Latin-1 é': [0xe9],
        'surrogate in UTF-8': [0xed, 0xa0, 0x80],
        'beyond U+10FFFF': [0xf4, 0x90, 0x80, 0x80],
      };
      for (const [what, bytes] of Object.entries(wrong)) {
        const bad = Buffer.from(bytes);
        const places = {
          payload: [`{"items":[{"queue":"${queue}","payload":"`, '"}]}'],
          queue: ['{"items":[{"queue":"', '","payload":1}]}'],
          partition: [`{"items":[{"queue":"${queue}","partition":"`, '","payload":1}]}'],
          transactionId: [`{"items":[{"queue":"${queue}","transactionId":"`, '","payload":1}]}'],
          'behind the body': [`{"items":[{"queue":"${queue}","payload":1}]}`, ''],
        };
        for (const [place, [head, tail]] of Object.entries(places)) {
          const body = Buffer.concat([Buffer.from(head), bad, Buffer.from(tail)]);
          const answer = await broker.client.request<ErrorBody>('POST', '/api/v1/push', { bytes: body });
          assert.equal(answer.status, 400, `${what} in ${place}: ${answer.bytes.toString()}`);
          assert.equal(answer.body.code, 'bad_body');
        }
        const ack = Buffer.concat([Buffer.from('{"transactionId":"'), bad, Buffer.from('","partitionId":"1"}')]);
        assert.equal((await broker.client.request('POST', '/api/v1/ack', { bytes: ack })).status, 400, what);
      }
      assert.deepEqual(await broker.client.queues(), [], 'nothing was created');
    });
  });

  it('what is not JSON is refused with bad_body, and stores nothing', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('text');
      const texts = [
        '',
        ' ',
        'null',
        '[]',
        '"items"',
        '{"items"}',
        '{"items":[{"queue":"Q","payload":1},]}',
        '{"items":[{"queue":"Q","payload":}]}',
        '{"items":[{"queue":"Q","payload":01}]}',
        '{"items":[{"queue":"Q","payload":+1}]}',
        '{"items":[{"queue":"Q","payload":1.}]}',
        '{"items":[{"queue":"Q","payload":.5}]}',
        '{"items":[{"queue":"Q","payload":1e}]}',
        '{"items":[{"queue":"Q","payload":0x10}]}',
        '{"items":[{"queue":"Q","payload":NaN}]}',
        '{"items":[{"queue":"Q","payload":Infinity}]}',
        '{"items":[{"queue":"Q","payload":nul}]}',
        '{"items":[{"queue":"Q","payload":True}]}',
        '{"items":[{"queue":"Q","payload":\'a\'}]}',
        '{"items":[{"queue":"Q","payload":"a\nb"}]}',
        '{"items":[{"queue":"Q","payload":"\\x41"}]}',
        '{"items":[{"queue":"Q","payload":"\\u12"}]}',
        '{"items":[{"queue":"Q","payload":"\\ud800"}]}X',
        '{"items":[{"queue":"Q","payload":"a}]}',
        '{"items":[{"queue":"Q","payload":[1,2}]}',
        '{"items":[{"queue":"Q","payload":{"a":1,}}]}',
        '{"items":[{"queue":"Q","payload":{a:1}}]}',
        '{"items":[{"queue":"Q","payload":/* */1}]}',
        '{"items":[{"queue":"Q","payload":1}]',
        '{"items":[{"queue":"Q","payload":1}]}}',
        '{"items":[{"queue":"Q","payload":1}]}{"items":[]}',
        '{"items":{"queue":"Q","payload":1}}',
        '{"items":[["Q",1]]}',
        '{"items":[{"queue":7,"payload":1}]}',
        '{"items":[{"queue":"","payload":1}]}',
        '{"items":[{"queue":"Q"}]}',
        '{"items":[{"payload":1}]}',
        '{"items":[{"queue":"Q","payload":1},{"queue":"Q"}]}',
        '{"items":[{"queue":"Q","payload":1,"partition":7}]}',
        '{"items":[{"queue":"Q","payload":1,"transactionId":7}]}',
        '\ufeff{"items":[{"queue":"Q","payload":1}]}X',
      ];
      for (const text of texts) {
        const bytes = text.replaceAll('Q', queue);
        const answer = await broker.client.request<ErrorBody>('POST', '/api/v1/push', { bytes });
        assert.equal(answer.status, 400, `${text}: ${answer.status} ${answer.bytes.toString()}`);
        assert.equal(answer.body.code, 'bad_body', text);
      }
      await nothingStored(broker, queue);
    });
  });
});

describe('payloads that must not change', () => {
  // S-070
  it('numbers, duplicate keys, escapes and spacing come back byte for byte, in pops, dead letters and after a restart', async () => {
    await serving({}, async (broker) => {
      const queue = freshName('exact');
      const payloads = [
        '{"a":9007199254740993,"b":1724442618569203714,"c":1e400,"d":-0,"e":1.0,"f":1E5,"g":0.1000000000000000055}',
        '1e400',
        '-0',
        '-0.0e-0',
        `${'9'.repeat(400)}`,
        '{"same":1,"same":2}',
        '{ "spaced" :  [ 1 ,\t2 ] }',
        '"\\u0000\\u001f\\ud83d\\ude00\\/\\""',
        '"é e\u0301 😀 \u2028 \u007f"',
        '{"__proto__":{"x":1},"constructor":null}',
        '[]',
        '""',
        'null',
      ];
      for (const payload of payloads) {
        const answer = await broker.client.request('POST', '/api/v1/push', { bytes: pushBody(queue, payload) });
        assert.equal(answer.status, 201, `${payload}: ${answer.bytes.toString()}`);
      }
      const inOrder = (text: string, key: string): void => {
        let at = -1;
        for (const payload of payloads) {
          const found = text.indexOf(`"${key}":${payload}`, at + 1);
          assert.ok(found > at, `${payload} as it was sent, in:\n${text}`);
          at = found;
        }
      };
      inOrder(
        (await broker.client.popAnswer(queue, { group: 'one', mode: 'all', batch: 100 })).bytes.toString(),
        'data',
      );
      await broker.killAndRestart();
      const again = await broker.client.popAnswer(queue, { batch: 100 });
      inOrder(again.bytes.toString(), 'data');
      const acks = await broker.client.ack(again.body.messages, 'dlq', 'looked at');
      assert.ok(acks.every((ack) => ack.dlq));
      const listed = await broker.client.request('GET', `/api/v1/dlq?queue=${queue}`);
      const newestFirst = listed.bytes.toString();
      for (const payload of payloads) {
        assert.ok(
          newestFirst.includes(`"data":${payload},"payload":${payload}`),
          `${payload} as it was sent, in a dead letter`,
        );
      }
    });
  });
});
