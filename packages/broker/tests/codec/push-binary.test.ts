import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isBinaryPush, scanBinaryPush } from '../../src/codec/push-binary.ts';
import { scanPushBody } from '../../src/codec/push-items.ts';
import { type PushItems, pushSlice } from '../../src/core/commands.ts';

interface Group {
  readonly queue: string;
  readonly partition: string;
  readonly items: readonly { readonly id: string; readonly payload: unknown }[];
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

const text = (value: string) => [u16(Buffer.byteLength(value)), Buffer.from(value)];

function encoded(groups: readonly Group[], flags = 4): Buffer {
  const parts = [Buffer.from('QPB1'), Buffer.of(flags), u32(groups.length)];
  for (const { queue, partition, items } of groups) {
    parts.push(...text(queue), ...text(partition), u32(items.length));
    for (const { id, payload } of items) {
      const json = Buffer.from(JSON.stringify(payload));
      parts.push(...((flags & 4) === 0 ? [] : text(id)), u32(json.length), json);
    }
  }
  return Buffer.concat(parts);
}

/** What a push stores: the texts of each item. */
function read(items: PushItems): (string | null)[][] {
  const field = (index: number, start: number, end: number) => {
    const row = index * pushSlice.stride;
    if (items.slices[row + start] < 0) return null;
    return Buffer.from(items.bytes).toString('utf8', items.slices[row + start], items.slices[row + end]);
  };
  return Array.from({ length: items.count }, (_, i) => [
    field(i, pushSlice.queueStart, pushSlice.queueEnd),
    field(i, pushSlice.partitionStart, pushSlice.partitionEnd),
    field(i, pushSlice.idStart, pushSlice.idEnd),
    field(i, pushSlice.payloadStart, pushSlice.payloadEnd),
  ]);
}

const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
const groups = fc.array(
  fc.record({
    queue: name,
    partition: fc.oneof(name, fc.constant('')),
    items: fc.array(fc.record({ id: fc.oneof(name, fc.constant('')), payload: fc.jsonValue() }), { maxLength: 5 }),
  }),
  { maxLength: 5 },
);

describe('a binary push', () => {
  it('means the same as the JSON push of its items', () => {
    fc.assert(
      fc.property(groups, (some) => {
        const items = some.flatMap(({ queue, partition, items: own }) =>
          own.map(({ id, payload }) => ({ queue, partition, transactionId: id, payload })),
        );
        const json = scanPushBody(Buffer.from(JSON.stringify({ items })));
        const body = encoded(some);
        assert.equal(isBinaryPush(body), true);
        const binary = scanBinaryPush(body, isUtf8);
        assert.ok(json.ok && binary.ok);
        assert.deepEqual(read(binary.items), read(json.items));
      }),
    );
  });

  it('that is cut off or changed is refused or means something; nothing else happens', () => {
    fc.assert(
      fc.property(groups, fc.nat(), fc.nat(255), fc.nat(), (some, at, byte, cut) => {
        const body = encoded(some);
        body[9 + (at % Math.max(1, body.length - 9))] = byte;
        const scanned = scanBinaryPush(body.subarray(0, Math.max(9, body.length - (cut % 4))), isUtf8);
        if (!scanned.ok) assert.match(scanned.message, /^bad push body: /);
      }),
    );
  });

  it('is refused when its form, its texts or its payloads are not what is read here', () => {
    const one = (payload: unknown, queue = 'q') => [{ queue, partition: 'p', items: [{ id: '', payload }] }];
    const refusals: [Buffer, RegExp][] = [
      [encoded(one(1), 5), /flags 5/],
      [encoded(one(1), 8), /flags 8/],
      [encoded(one(1, '')), /empty "queue"/],
      [Buffer.concat([encoded(one(1)), Buffer.of(0)]), /behind the last group/],
      [encoded(one(1)).subarray(0, -1), /ends inside/],
      [Buffer.concat([encoded(one(1)).subarray(0, -1), Buffer.from('x')]), /not JSON/],
      [Buffer.concat([encoded(one('a')).subarray(0, -2), Buffer.of(0xff, 0x22)]), /not UTF-8/],
    ];
    for (const [body, why] of refusals) {
      const scanned = scanBinaryPush(body, isUtf8);
      assert.ok(!scanned.ok);
      assert.match(scanned.message, why);
    }
  });
});
