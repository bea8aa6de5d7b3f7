import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createHasher } from '../../src/codec/hasher.ts';
import { hashPushItems, scanPushBody } from '../../src/codec/push-items.ts';
import { type PushItems, pushHash, pushSlice } from '../../src/core/commands.ts';
import { arrayOf, literalOf, mutated, objectOf, stringLiteral, valueText } from './json-arbitraries.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);

interface Item {
  queue: string;
  partition: string;
  id: string | null;
  payload: unknown;
}

/** What a body means, by way of JSON.parse; null when it must be refused. */
function meaning(text: string): Item[] | null {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(body) || !Array.isArray(body.items)) return null;
  const items: Item[] = [];
  for (const item of body.items) {
    if (!isObject(item) || !Object.hasOwn(item, 'payload')) return null;
    const queue = item.queue;
    const partition = item.partition ?? '';
    const id = item.transactionId ?? '';
    if (typeof queue !== 'string' || typeof partition !== 'string' || typeof id !== 'string') return null;
    if (queue === '' || [queue, partition, id].some((name) => /\p{Surrogate}/u.test(name))) return null;
    if (utf8(id).length > 65_535) return null;
    items.push({ queue, partition: partition || 'Default', id: id || null, payload: item.payload });
  }
  return items;
}

type Fields = { readonly [K in 'items' | 'queue' | 'partition' | 'transactionId' | 'payload']?: unknown };

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function field(items: PushItems, index: number, start: number, end: number): string {
  const row = index * pushSlice.stride;
  return Buffer.from(items.bytes).toString('utf8', items.slices[row + start], items.slices[row + end]);
}

const payloadText = (items: PushItems, index: number) =>
  field(items, index, pushSlice.payloadStart, pushSlice.payloadEnd);

function read(items: PushItems): Item[] {
  return Array.from({ length: items.count }, (_, i) => ({
    queue: field(items, i, pushSlice.queueStart, pushSlice.queueEnd),
    partition: field(items, i, pushSlice.partitionStart, pushSlice.partitionEnd),
    id:
      items.slices[i * pushSlice.stride + pushSlice.idStart] < 0
        ? null
        : field(items, i, pushSlice.idStart, pushSlice.idEnd),
    payload: JSON.parse(payloadText(items, i)) as unknown,
  }));
}

function scanned(text: string): PushItems {
  const result = scanPushBody(utf8(text));
  assert.ok(result.ok, result.ok ? '' : result.message);
  return result.items;
}

function refusal(text: string): string {
  const result = scanPushBody(utf8(text));
  assert.ok(!result.ok, 'it was accepted');
  return result.message;
}

function assertAgrees(text: string): void {
  const expected = meaning(text);
  const result = scanPushBody(utf8(text));
  if (expected === null) {
    assert.ok(!result.ok, `accepted: ${text}`);
    assert.match(result.message, /^bad push body: /);
    return;
  }
  assert.ok(result.ok, result.ok ? '' : `${text}: ${result.message}`);
  const { items } = result;
  assert.equal(items.slices.length, items.count * pushSlice.stride);
  assert.equal(items.hashes.length, items.count * pushHash.stride);
  assert.deepEqual(read(items), expected);
  for (let i = 0; i < items.count; i++) assert.equal(payloadText(items, i), payloadText(items, i).trim());
}

const literal = (name: string) => fc.oneof({ weight: 9, arbitrary: fc.constant(`"${name}"`) }, literalOf(name));
const property = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(literal('queue'), fc.oneof(fc.constantFrom('"orders"', '"q"'), stringLiteral)) },
  { weight: 4, arbitrary: fc.tuple(literal('payload'), valueText) },
  {
    weight: 3,
    arbitrary: fc.tuple(literal('partition'), fc.oneof(fc.constantFrom('null', '""', '"customer-42"'), stringLiteral)),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(literal('transactionId'), fc.oneof(fc.constantFrom('null', '""', '"t-1"'), stringLiteral)),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.oneof(literal('traceId'), literal('Queue'), literal('items'), stringLiteral), valueText),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.oneof(literal('queue'), literal('partition'), literal('transactionId')),
      fc.constantFrom('1', 'null', '[]', '{}', 'true', '""', '"a\\ud800"', '"b\\n"'),
    ),
  },
);

const complete = fc.tuple(
  fc.tuple(literal('queue'), fc.oneof(fc.constantFrom('"orders"', '"q"'), stringLiteral)),
  fc.tuple(literal('payload'), valueText),
);
/** Most items have what they need, else hardly any body would be accepted. */
const item = fc.oneof(
  {
    weight: 20,
    arbitrary: objectOf(
      fc.tuple(fc.array(property, { maxLength: 3 }), complete).map(([some, needed]) => [...some, ...needed]),
    ),
  },
  { weight: 1, arbitrary: objectOf(fc.array(property, { maxLength: 6 })) },
  { weight: 1, arbitrary: valueText },
);
const list = arrayOf(fc.array(item, { maxLength: 5 }));
const body = fc.oneof(
  { weight: 9, arbitrary: objectOf(fc.tuple(literal('items'), list).map((pair) => [pair])) },
  {
    weight: 3,
    arbitrary: objectOf(
      fc.array(
        fc.oneof(
          fc.tuple(literal('items'), fc.oneof({ weight: 5, arbitrary: list }, valueText)),
          fc.tuple(stringLiteral, valueText),
        ),
        { maxLength: 3 },
      ),
    ),
  },
  { weight: 1, arbitrary: valueText },
);

describe('a push body means what JSON.parse says it means', () => {
  it('for arbitrary bodies', () => {
    fc.assert(fc.property(body, assertAgrees), { numRuns: 1500 });
  });

  it('for bodies with some characters changed', () => {
    fc.assert(fc.property(mutated(body), assertAgrees), { numRuns: 1500 });
  });

  it('for every prefix of a body', () => {
    const text =
      '{"x":[{}],"items":[{"queue":"a\\u0062","payload":{"a":[1,"\\""]},"partition":null,"transactionId":"t"}, {"payload":1,"queue":"b"}]}';
    for (let length = 0; length <= text.length; length++) assertAgrees(text.slice(0, length));
  });

  it('for arbitrary bodies that lie inside a larger array', () => {
    fc.assert(
      fc.property(body, (text) => {
        const buffer = Buffer.from(`##${text}##`);
        const part = scanPushBody(buffer.subarray(2, buffer.length - 2));
        const expected = meaning(text);
        assert.equal(part.ok, expected !== null);
        if (part.ok) assert.deepEqual(read(part.items), expected);
      }),
      { numRuns: 200 },
    );
  });

  it('when the last of several properties is right and an earlier one is not, and the other way round', () => {
    for (const text of [
      '{"items":5,"items":[]}',
      '{"items":[],"items":5}',
      '{"items":[{}],"items":[{"queue":"q","payload":0}]}',
      '{"items":[{"queue":"q","payload":0}],"items":[{}]}',
      '{"items":[{"queue":1,"queue":"q","payload":0}]}',
      '{"items":[{"queue":"q","queue":1,"payload":0}]}',
      '{"items":[{"queue":"q","payload":0,"payload":{"a":1}}]}',
      '{"items":[{"queue":"q","payload":0,"partition":"p","partition":null}]}',
      '{"items":[{"queue":"q","payload":0,"transactionId":"\\ud800","transactionId":"t"}]}',
      '{"items":[{"queue":"q","payload":0,"transactionId":"t","transactionId":""}]}',
    ]) {
      assertAgrees(text);
    }
  });
});

describe('payloads', () => {
  it('are the bytes that were sent: numbers, repeated names, escapes and inner spacing as they were', () => {
    const payloads = [
      '12345678901234567890.10',
      '{ "a" : 1,\n "a":2 }',
      '"\\u0041\\/é"',
      '-0',
      '1E400',
      '[ ]',
      'null',
      'false',
    ];
    const items = scanned(
      `{"items":[${payloads.map((payload) => `{"queue":"q","payload": \n${payload}\t }`).join()}]}`,
    );
    payloads.forEach((payload, i) => {
      assert.equal(payloadText(items, i), payload);
    });
  });
});

describe('an item', () => {
  it('have headers as they were sent, when those are an object of strings', () => {
    const headersOf = (text: string) => {
      const scanned = scanPushBody(utf8(`{"items":[{"queue":"q","payload":1,"headers":${text}}]}`));
      return scanned.ok ? field(scanned.items, 0, pushSlice.headersStart, pushSlice.headersEnd) : scanned.message;
    };
    assert.equal(headersOf('{"a": "1","b":"\\u00fc"}'), '{"a": "1","b":"\\u00fc"}');
    for (const none of ['null', '{}']) assert.equal(headersOf(none), '');
    for (const refused of ['[]', '"a"', '{"a":1}', '{"a":null}']) assert.match(headersOf(refused), /"headers"/);
    assert.match(headersOf(`{"a":"${'x'.repeat(16_384)}"}`), /more than 16384 bytes/);
  });

  it('without partition, with null or an empty one is in Default, whose name is kept once', () => {
    const items = scanned(
      '{"items":[{"queue":"q","payload":0},{"queue":"q","payload":0,"partition":null},{"queue":"q","payload":0,"partition":""}]}',
    );
    assert.deepEqual(
      read(items).map((one) => one.partition),
      ['Default', 'Default', 'Default'],
    );
    assert.equal(items.slices[pushSlice.partitionStart], items.slices[2 * pushSlice.stride + pushSlice.partitionStart]);
  });

  it('without transactionId, with null or an empty one has none', () => {
    const items = scanned(
      '{"items":[{"queue":"q","payload":0},{"queue":"q","payload":0,"transactionId":null},{"queue":"q","payload":0,"transactionId":""}]}',
    );
    for (let i = 0; i < 3; i++) {
      assert.equal(items.slices[i * pushSlice.stride + pushSlice.idStart], -1);
      assert.equal(items.slices[i * pushSlice.stride + pushSlice.idEnd], -1);
    }
  });

  it('may have a transactionId of 65,535 bytes, counted as UTF-8 without escapes, and no more', () => {
    const body = (id: string) =>
      `{"items":[{"queue":"q","payload":0},{"queue":"q","payload":0,"transactionId":"${id}"}]}`;
    assertAgrees(body('x'.repeat(65_535)));
    assertAgrees(body('\\u0078'.repeat(65_535)));
    assertAgrees(body(`${'é'.repeat(32_767)}x`));
    assert.match(refusal(body('x'.repeat(65_536))), /^bad push body: item 1 .*"transactionId".*65535 bytes/);
    assert.match(refusal(body('é'.repeat(32_768))), /65535/);
    assert.match(refusal(body('\\u00e9'.repeat(32_768))), /65535/);
  });
});

describe('a refusal says', () => {
  const cases: [string, string][] = [
    ['', 'invalid JSON at byte 0: expected a value'],
    ['{"items":[}', 'invalid JSON at byte 10: expected a value'],
    ['{"items":[]} x', 'invalid JSON at byte 13: expected the end of the text'],
    ['[]', 'it is not an object'],
    ['{}', 'it has no "items"'],
    ['{"items":null}', '"items" is not an array'],
    ['{"items":[{"queue":"q","payload":1},7]}', 'item 1 (at byte 36) is not an object'],
    ['{"items":[{"payload":1}]}', 'item 0 (at byte 10) has no "queue"'],
    ['{"items":[{"queue":null,"payload":1}]}', 'item 0 (at byte 10) has no "queue"'],
    ['{"items":[{"queue":"","payload":1}]}', 'item 0 (at byte 10) has an empty "queue"'],
    ['{"items":[{"queue":7,"payload":1}]}', 'item 0 (at byte 10) has a "queue" that is not a string'],
    ['{"items":[{"queue":"q"}]}', 'item 0 (at byte 10) has no "payload"'],
    [
      '{"items":[{"queue":"q","payload":1,"partition":[]}]}',
      'item 0 (at byte 10) has a "partition" that is not a string',
    ],
    [
      '{"items":[{"queue":"q","payload":1,"transactionId":5}]}',
      'item 0 (at byte 10) has a "transactionId" that is not a string',
    ],
    [
      '{"items":[{"queue":"\\udc00","payload":1}]}',
      'item 0 (at byte 10) has a "queue" with half of a surrogate pair, which is not a character',
    ],
  ];
  for (const [text, message] of cases) {
    it(`${message}, of ${text}`, () => {
      assert.equal(refusal(text), `bad push body: ${message}`);
    });
  }

  it('which limit a body nests beyond, the containers around the payload counted', () => {
    const body = (depth: number) => `{"items":[{"queue":"q","payload":${'['.repeat(depth)}${']'.repeat(depth)}}]}`;
    assertAgrees(body(997));
    assert.match(refusal(body(998)), /^bad push body: JSON nested too deeply at byte \d+: .*jsonDepthMax/);
  });
});

describe('results of one call', () => {
  it('are not touched by later ones', () => {
    const first = scanned('{"items":[{"queue":"a\\n","payload":[1]}]}');
    const before = read(first);
    scanned('{"items":[{"queue":"other\\t","payload":[2],"partition":"p"},{"queue":"x","payload":3}]}');
    refusal('{"items":[{"queue":"a\\n"}]}');
    assert.deepEqual(read(first), before);
  });

  it('hold the body itself when nothing had to be appended', () => {
    const bytes = utf8('{"items":[{"queue":"q","partition":"p","payload":0}]}');
    const result = scanPushBody(bytes);
    assert.ok(result.ok);
    assert.equal(result.items.bytes, bytes);
  });

  it('are right for more items than the working arrays begin with, and after they shrank again', () => {
    for (const count of [0, 1, 63, 64, 65, 40_000, 70]) {
      const one = (i: number) => `{"queue":"q","payload":${i},"partition":"p${i % 3}"}`;
      const items = scanned(`{"items":[${Array.from({ length: count }, (_, i) => one(i)).join()}]}`);
      assert.equal(items.count, count);
      for (let i = 0; i < count; i += 7) assert.equal(payloadText(items, i), String(i));
    }
  });
});

describe('hashes', async () => {
  const hasher = await createHasher(5, 6);
  const hashed = (text: string) => {
    hasher.hash(utf8(text), 0, utf8(text).length);
    return [hasher.high, hasher.low];
  };

  it('are those of the partition name and of the transactionId, and 0 where there is none', () => {
    const name = fc.constantFrom('a', 'b', 'ab', 'customer-1', 'customer-2', 'x\ny', 'ü');
    const rows = fc.array(fc.tuple(fc.option(name), fc.option(name)), { maxLength: 12 });
    fc.assert(
      fc.property(rows, (pairs) => {
        const list = pairs.map(([partition, transactionId]) => ({ queue: 'q', payload: 0, partition, transactionId }));
        const items = scanned(JSON.stringify({ items: list }));
        hashPushItems(items, hasher);
        const expected = pairs.flatMap(([partition, id]) => [
          ...hashed(partition ?? 'Default'),
          ...(id === null ? [0, 0] : hashed(id)),
        ]);
        assert.deepEqual(Array.from(items.hashes), expected);
      }),
    );
  });
});
