import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { hashAckItems, scanAckBody } from '../../src/codec/ack-items.ts';
import { createHasher } from '../../src/codec/hasher.ts';
import { type AckItems, ackStatus } from '../../src/core/commands.ts';
import { type IdParts, idText, parseId, partitionIdIndex, queueIdIndex } from '../../src/core/ids.ts';
import { defaultGroup } from '../../src/core/mod.ts';
import { arrayOf, literalOf, mutated, objectOf, stringLiteral, valueText } from './json-arbitraries.ts';

const identity = { saltHigh: 0x5a, saltLow: 0x1357_9bdf, seedHigh: 1, seedLow: 2 };
const utf8 = (text: string) => new TextEncoder().encode(text);

interface Item {
  id: string;
  pid: number;
  leaseStamp: number;
  status: number;
  error: string | null;
}

function isObject(value: unknown): value is { readonly consumerGroup?: unknown; readonly acknowledgments?: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const wellFormed = (text: string) => Buffer.from(text).toString();

/** At most 4096 bytes, whole characters only. */
function cut(text: string): string {
  let kept = '';
  let bytes = 0;
  for (const character of wellFormed(text)) {
    bytes += utf8(character).length;
    if (bytes > 4096) break;
    kept += character;
  }
  return kept;
}

function leaseStamp(value: unknown): number {
  if (value === undefined || value === null || value === '') return 0;
  const parts: IdParts = { stampUs: 0, number: 0, index: 0 };
  const bytes = typeof value === 'string' ? utf8(value) : utf8('');
  if (!parseId(identity, bytes, 0, bytes.length, parts)) return -1;
  return parts.number === 0 && parts.index === 0 && parts.stampUs > 0 && Number.isSafeInteger(parts.stampUs)
    ? parts.stampUs
    : -1;
}

function itemMeaning(value: unknown): Item {
  const item: Record<string, unknown> = isObject(value) ? { ...value } : {};
  const own = (name: string) => (Object.hasOwn(item, name) ? item[name] : undefined);
  const id = own('transactionId');
  const pid = own('partitionId');
  const status = own('status');
  const error = own('error');
  const isPid = typeof pid === 'string' && /^[0-9]+$/.test(pid) && BigInt(pid) < 2n ** 53n;
  const words: Record<string, number> = { failed: ackStatus.failed, retry: ackStatus.retry, dlq: ackStatus.dlq };
  const word = typeof status === 'string' && /^[a-z]+$/i.test(status) ? status.toLowerCase() : '';
  return {
    id: typeof id === 'string' && !/\p{Surrogate}/u.test(id) ? id : '',
    pid: isPid ? Number(pid) : -1,
    leaseStamp: leaseStamp(own('leaseId')),
    status: Object.hasOwn(words, word) ? words[word] : ackStatus.completed,
    error: typeof error === 'string' ? cut(error) : null,
  };
}

/** What a body means, by way of JSON.parse; null when it must be refused. */
function meaning(text: string): { group: string; items: Item[] } | null {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(body)) return null;
  const group = (Object.hasOwn(body, 'consumerGroup') ? body.consumerGroup : null) ?? '';
  if (typeof group !== 'string' || /\p{Surrogate}/u.test(group)) return null;
  const list = Object.hasOwn(body, 'acknowledgments') ? body.acknowledgments : null;
  const isBatch = Array.isArray(list) && list.length > 0;
  return {
    group: group === '' ? '__QUEUE_MODE__' : group,
    items: isBatch ? (list as unknown[]).map(itemMeaning) : [itemMeaning(body)],
  };
}

function read(items: AckItems): Item[] {
  assert.equal(items.ends.length, items.count + 1);
  assert.equal(items.ends[0], 0);
  assert.equal(items.ends[items.count], items.bytes.length);
  for (const column of [items.pids, items.leaseStamps, items.statuses, items.errors]) {
    assert.equal(column.length, items.count);
  }
  return Array.from({ length: items.count }, (_, i) => ({
    id: Buffer.from(items.bytes).toString('utf8', items.ends[i], items.ends[i + 1]),
    pid: items.pids[i],
    leaseStamp: items.leaseStamps[i],
    status: items.statuses[i],
    error: items.errors[i],
  }));
}

function assertAgrees(text: string): void {
  const expected = meaning(text);
  const result = scanAckBody(utf8(text), identity);
  if (expected === null) {
    assert.ok(!result.ok, `accepted: ${text}`);
    assert.match(result.message, /^bad ack body: /);
    return;
  }
  assert.ok(result.ok, result.ok ? '' : `${text}: ${result.message}`);
  assert.equal(result.group, expected.group);
  assert.equal(result.items.hashes.length, 2 * result.items.count);
  assert.deepEqual(read(result.items), expected.items);
}

const one = (properties: Record<string, unknown>): Item => {
  const result = scanAckBody(utf8(JSON.stringify(properties)), identity);
  assert.ok(result.ok);
  assert.equal(result.items.count, 1);
  return read(result.items)[0];
};

const literal = (name: string) => fc.oneof({ weight: 9, arbitrary: fc.constant(`"${name}"`) }, literalOf(name));
const quoted = (...texts: string[]) => fc.constantFrom(...texts.map((text) => JSON.stringify(text)));
const lease = idText(identity, 1_790_000_000_123_456, 0, 0);
const otherLease = idText(identity, 1_790_000_000_123_457, 0, 0);
const leases = quoted(
  lease,
  otherLease,
  idText(identity, 1_790_000_000_123_456, 17, 0),
  idText(identity, 1_790_000_000_123_456, 0, 1),
  idText(identity, 0, 0, 0),
  lease.toUpperCase(),
  lease.slice(1),
  `${lease}0`,
  'no id',
  '',
);
const statuses = quoted(
  'completed',
  'COMPLETED',
  'failed',
  'Failed',
  'retry',
  'rETRY',
  'dlq',
  'DLQ',
  'done',
  '',
  'faile',
  'failedx',
);
const pids = quoted(
  '17',
  '0',
  '007',
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-1',
  '+1',
  ' 1',
  '1.0',
  '1e3',
  '',
  'x',
);

const property = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(literal('transactionId'), stringLiteral) },
  { weight: 4, arbitrary: fc.tuple(literal('partitionId'), pids) },
  { weight: 4, arbitrary: fc.tuple(literal('leaseId'), fc.oneof(leases, literalOf(lease), literalOf(otherLease))) },
  { weight: 4, arbitrary: fc.tuple(literal('status'), fc.oneof(statuses, literalOf('failed'))) },
  { weight: 2, arbitrary: fc.tuple(literal('error'), fc.oneof(stringLiteral, fc.constant('null'))) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constantFrom('"transactionId"', '"partitionId"', '"leaseId"', '"status"', '"error"'),
      fc.oneof(fc.constantFrom('null', '17', '{}', '[1]', 'true'), stringLiteral),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.oneof(literal('consumerGroup'), literal('acknowledgments'), stringLiteral), valueText),
  },
);
const item = fc.oneof(
  { weight: 12, arbitrary: objectOf(fc.array(property, { maxLength: 7 })) },
  { weight: 1, arbitrary: valueText },
);
const groupProperty = fc.tuple(
  literal('consumerGroup'),
  fc.oneof(
    { weight: 6, arbitrary: quoted('billing', 'billing', 'audit', '', 'grün') },
    fc.constant('null'),
    stringLiteral,
    valueText,
  ),
);
const listProperty = fc.tuple(
  literal('acknowledgments'),
  fc.oneof({ weight: 9, arbitrary: arrayOf(fc.array(item, { maxLength: 6 })) }, valueText),
);
const body = fc.oneof(
  {
    weight: 9,
    arbitrary: objectOf(
      fc.array(
        fc.oneof(
          { weight: 3, arbitrary: listProperty },
          { weight: 1, arbitrary: groupProperty },
          { weight: 3, arbitrary: property.filter(([, value]) => value.length < 200) },
        ),
        { maxLength: 6 },
      ),
    ),
  },
  { weight: 1, arbitrary: valueText },
);

describe('an ack body means what JSON.parse says it means', () => {
  it('for arbitrary bodies', () => {
    fc.assert(fc.property(body, assertAgrees), { numRuns: 2000 });
  });

  it('for bodies with some characters changed', () => {
    fc.assert(fc.property(mutated(body), assertAgrees), { numRuns: 1500 });
  });

  it('for the examples of the contract', () => {
    assertAgrees(
      `{"transactionId":"order-9137-created","partitionId":"17","leaseId":"${lease}","status":"completed","error":null,"consumerGroup":"billing"}`,
    );
    assertAgrees(
      `{"acknowledgments":[{"transactionId":"a","partitionId":"17","leaseId":"${lease}","status":"completed"},{"transactionId":"b","partitionId":"17","leaseId":"${lease}","status":"failed","error":"boom"}],"consumerGroup":null}`,
    );
  });

  it('when the last of several lists is another one, or none', () => {
    const list = '"acknowledgments":[{"transactionId":"a"},{"transactionId":"b"}]';
    for (const text of [
      `{${list},"acknowledgments":[{"transactionId":"c"}],"transactionId":"d"}`,
      `{${list},"acknowledgments":[],"transactionId":"d"}`,
      `{"transactionId":"d",${list},"acknowledgments":7}`,
      `{"acknowledgments":{},${list}}`,
    ]) {
      assertAgrees(text);
    }
  });
});

describe('a body', () => {
  it('with a list that is empty or none is one single item', () => {
    for (const list of ['[]', 'null', '{}', '"x"']) {
      const result = scanAckBody(utf8(`{"acknowledgments":${list},"transactionId":"a","partitionId":"1"}`), identity);
      assert.ok(result.ok);
      assert.deepEqual(
        read(result.items).map(({ id, pid }) => [id, pid]),
        [['a', 1]],
      );
    }
  });

  it('takes its group from the top level only, and is of the queue mode without one', () => {
    const group = (text: string) => {
      const result = scanAckBody(utf8(text), identity);
      assert.ok(result.ok);
      return result.group;
    };
    assert.equal(group('{"acknowledgments":[{"consumerGroup":"inner"}]}'), '__QUEUE_MODE__');
    assert.equal(group('{"acknowledgments":[{"consumerGroup":"inner"}],"consumerGroup":"outer"}'), 'outer');
    for (const nothing of ['{}', '{"consumerGroup":null}', '{"consumerGroup":""}'])
      assert.equal(group(nothing), defaultGroup);
  });

  it('is refused with its position when it is no JSON, and otherwise only for what it is or for its group', () => {
    for (const [text, message] of [
      ['{"acknowledgments":[{"transactionId":"a"},]}', 'invalid JSON at byte 42: expected a value'],
      ['[]', 'it is not an object'],
      ['{"consumerGroup":5}', '"consumerGroup" is not a string'],
      ['{"consumerGroup":"\\ud800"}', '"consumerGroup" holds half of a surrogate pair'],
    ]) {
      assert.deepEqual(scanAckBody(utf8(text), identity), { ok: false, message: `bad ack body: ${message}` });
    }
    const deep = `{"acknowledgments":[{"x":${'['.repeat(998)}${']'.repeat(998)}}]}`;
    const result = scanAckBody(utf8(deep), identity);
    assert.ok(!result.ok);
    assert.match(result.message, /^bad ack body: JSON nested too deeply .*jsonDepthMax/);
  });

  it('has one item per element of its list, whatever the element is', () => {
    const result = scanAckBody(utf8('{"acknowledgments":[1,"x",null,[],{},{"transactionId":"a"}]}'), identity);
    assert.ok(result.ok);
    assert.deepEqual(
      read(result.items).map(({ id, pid }) => [id, pid]),
      [...Array.from({ length: 5 }, () => ['', -1]), ['a', -1]],
    );
  });
});

describe('an item', () => {
  it('has the pid of a decimal string below 2^53, or of the UUID of a partition, and else −1', () => {
    for (const [partitionId, pid] of [
      ['17', 17],
      ['0', 0],
      ['9007199254740991', 2 ** 53 - 1],
      ['9007199254740992', -1],
      ['9007199254740993', -1],
      ['9'.repeat(400), -1],
      ['-1', -1],
      ['+1', -1],
      ['', -1],
      ['1 ', -1],
      [17, -1],
      [null, -1],
      [idText(identity, 1_700_000_000_000_000, 2 ** 40 - 1, partitionIdIndex), 2 ** 40 - 1],
      [idText(identity, 1_700_000_000_000_000, 17, queueIdIndex), -1],
      ['01234567-89ab-4def-8123-456789abcdef', -1],
    ] as const) {
      assert.equal(one({ partitionId }).pid, pid, String(partitionId));
    }
    assert.equal(one({}).pid, -1);
  });

  it('has the stamp of its lease, 0 when it sent none, and −1 when what it sent is no lease of this broker', () => {
    assert.equal(one({ leaseId: lease }).leaseStamp, 1_790_000_000_123_456);
    for (const leaseId of [null, '']) assert.equal(one({ leaseId }).leaseStamp, 0);
    assert.equal(one({}).leaseStamp, 0);
    const salted = { ...identity, saltLow: 0 };
    for (const leaseId of [
      idText(identity, 1_790_000_000_123_456, 17, 0),
      idText(identity, 1_790_000_000_123_456, 0, 1),
      idText(salted, 1_790_000_000_123_456, 0, 0),
      // Its stamp would read as "none was sent".
      idText(identity, 0, 0, 0),
      'x',
      5,
      {},
    ]) {
      assert.equal(one({ leaseId }).leaseStamp, -1, String(leaseId));
    }
  });

  it('is completed unless its status is one of the other three, in whatever case', () => {
    for (const [status, expected] of [
      ['FaILED', ackStatus.failed],
      ['retry', ackStatus.retry],
      ['DLQ', ackStatus.dlq],
      ['Completed', ackStatus.completed],
      ['unknown', ackStatus.completed],
      // Letters and other characters that differ in the same bit as upper and lower case.
      ['d\u004cq', ackStatus.dlq],
      ['\u0044,q', ackStatus.completed],
      [null, ackStatus.completed],
      [1, ackStatus.completed],
    ] as const) {
      assert.equal(one({ status }).status, expected, String(status));
    }
  });

  it('has its error cut to 4096 bytes at a character', () => {
    assert.equal(one({ error: 'x'.repeat(4096) }).error, 'x'.repeat(4096));
    assert.equal(one({ error: 'x'.repeat(5000) }).error, 'x'.repeat(4096));
    for (const character of ['é', '€', '\u{1f600}']) {
      for (let padding = 0; padding < 4; padding++) {
        const error = 'x'.repeat(padding) + character.repeat(4096);
        assert.equal(one({ error }).error, cut(error));
      }
    }
    assert.equal(one({ error: '\ufeffx' }).error, '\ufeffx');
    assert.equal(one({ error: 5 }).error, null);
  });
});

describe('results of one call', () => {
  it('are not touched by later ones, nor by the body being written over', () => {
    const text = `{"acknowledgments":[{"transactionId":"a","leaseId":"${lease}","error":"e"},{"transactionId":"b\\n"}],"consumerGroup":"g1"}`;
    const buffer = Buffer.from(text);
    const first = scanAckBody(buffer, identity);
    assert.ok(first.ok);
    const before = read(first.items);
    buffer.fill(0x20);
    for (const group of ['g2', 'g1', '']) {
      const next = scanAckBody(utf8(`{"transactionId":"zz","partitionId":"9","consumerGroup":"${group}"}`), identity);
      assert.ok(next.ok);
      assert.equal(next.group, group || defaultGroup);
    }
    assert.deepEqual(read(first.items), before);
    assert.equal(first.group, 'g1');
  });

  it('are right for more items than the working arrays begin with, and after they shrank again', () => {
    for (const count of [1, 64, 65, 128, 129, 40_000, 70]) {
      const list = Array.from({ length: count }, (_, i) => ({
        transactionId: `t${i}`,
        partitionId: String(i % 9),
        leaseId: i % 5 === 0 ? otherLease : lease,
        status: i % 2 === 0 ? 'failed' : 'completed',
        error: i % 3 === 0 ? `e${i}` : null,
      }));
      const result = scanAckBody(utf8(JSON.stringify({ acknowledgments: list })), identity);
      assert.ok(result.ok);
      assert.deepEqual(read(result.items), list.map(itemMeaning));
    }
  });
});

describe('hashes', async () => {
  const hasher = await createHasher(5, 6);

  it('are those of the transactionIds, and 0 where an item has none', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 8 }), (ids) => {
        const text = JSON.stringify({ acknowledgments: ids.map((transactionId) => ({ transactionId })) });
        const result = scanAckBody(utf8(text), identity);
        assert.ok(result.ok);
        hashAckItems(result.items, hasher);
        const expected = ids.flatMap((id) => {
          if (id === '') return [0, 0];
          hasher.hash(utf8(id), 0, utf8(id).length);
          return [hasher.high, hasher.low];
        });
        assert.deepEqual(Array.from(result.items.hashes), expected);
      }),
    );
  });
});
