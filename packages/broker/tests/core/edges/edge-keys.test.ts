/** Keys of edge tables: the bytes of the contract, and the order of what they stand for. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  castEdgeValue,
  compareBytes,
  type EdgeType,
  edgeKeyAfter,
  edgeKeyBytes,
} from '../../../src/core/edges/edge-keys.ts';
import { readJsonNode } from '../../../src/core/mod.ts';

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex').toUpperCase();

function stored(type: EdgeType, json: string): string {
  const text = castEdgeValue(type, readJsonNode(json));
  assert.ok(text !== null, `${json} is a ${type}`);
  return text;
}

describe('keys of edge tables', () => {
  it('are the bytes of the contract', () => {
    const vectors: [EdgeType, string, string, string][] = [
      ['LONG', '0', '2C8000000000000000', 'D37FFFFFFFFFFFFFFF'],
      ['LONG', '1', '2C8000000000000001', 'D37FFFFFFFFFFFFFFE'],
      ['LONG', '-1', '2C7FFFFFFFFFFFFFFF', 'D38000000000000000'],
      ['LONG', '1001', '2C80000000000003E9', 'D37FFFFFFFFFFFFC16'],
      ['LONG', '9007199254740993', '2C8020000000000001', 'D37FDFFFFFFFFFFFFE'],
      ['LONG', '9223372036854775807', '2CFFFFFFFFFFFFFFFF', 'D30000000000000000'],
      ['LONG', '-9223372036854775808', '2C0000000000000000', 'D3FFFFFFFFFFFFFFFF'],
      ['STRING', '""', '3400', 'CBFF'],
      ['STRING', '"a"', '346100', 'CB9EFF'],
      ['STRING', '"ab"', '34616200', 'CB9E9DFF'],
      ['STRING', '"é"', '34C3A900', 'CB3C56FF'],
      ['BYTE', '-4', '297C', 'D683'],
      ['BOOLEAN', 'false', '35', 'CA'],
      ['BOOLEAN', 'true', '36', 'C9'],
    ];
    for (const [type, json, ascending, descending] of vectors) {
      assert.equal(hexOf(edgeKeyBytes(type, stored(type, json), 'ASC')), ascending);
      assert.equal(hexOf(edgeKeyBytes(type, stored(type, json), 'DESC')), descending);
    }
    assert.equal(hexOf(edgeKeyBytes('LONG', null, 'ASC')), '05');
    assert.equal(hexOf(edgeKeyBytes('LONG', null, 'DESC')), 'FA');
    const last = edgeKeyBytes('LONG', '9223372036854775807', 'ASC');
    assert.equal(hexOf(edgeKeyAfter(last)), '2D0000000000000000');
  });

  it('sort as their values do, both ways', () => {
    const sign = (difference: number | bigint): number => (difference > 0 ? 1 : difference < 0 ? -1 : 0);
    const compareKeys = (type: EdgeType, a: string, b: string, order: 'ASC' | 'DESC'): number =>
      sign(compareBytes(edgeKeyBytes(type, a, order), edgeKeyBytes(type, b, order)));
    const holds = (type: EdgeType, a: string, b: string, expected: number): void => {
      assert.equal(compareKeys(type, a, b, 'ASC'), expected, `${a} ${b}`);
      assert.equal(compareKeys(type, a, b, 'DESC'), 0 - expected, `${a} ${b}`);
    };
    const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    const near = fc.constantFrom(0n, -1n, 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n));
    fc.assert(
      fc.property(fc.oneof(long, near), fc.oneof(long, near), (a, b) => holds('LONG', `${a}`, `${b}`, sign(a - b))),
    );
    const double = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(fc.property(double, double, (a, b) => holds('DOUBLE', `${a}`, `${b}`, sign(a - b))));
    const float = fc.float({ noNaN: true, noDefaultInfinity: true });
    fc.assert(fc.property(float, float, (a, b) => holds('FLOAT', `${a}`, `${b}`, sign(a - b))));
    const text = fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('\0'));
    fc.assert(
      fc.property(text, text, (a, b) => {
        // Code points, not the units that JavaScript compares.
        holds('STRING', JSON.stringify(a), JSON.stringify(b), sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
      }),
    );
    holds('STRING', '"\uff5e"', '"\u{1f600}"', -1);
  });

  it('refuse values that are not of their type, and keep the digits of those that are', () => {
    const refused: [EdgeType, string][] = [
      ['LONG', '9223372036854775808'],
      ['LONG', '1.0'],
      ['LONG', '"x"'],
      ['LONG', 'true'],
      ['INT', '2147483648'],
      ['SHORT', '-32769'],
      ['BYTE', '128'],
      ['DOUBLE', '1e400'],
      ['FLOAT', '1e39'],
      ['DOUBLE', '"Infinity"'],
      ['BOOLEAN', '1'],
      ['STRING', '"a\\u0000"'],
      ['STRING', '{}'],
      ['STRING', '[]'],
      ['BYTES', '"***"'],
      ['BYTES', '5'],
    ];
    for (const [type, json] of refused) assert.equal(castEdgeValue(type, readJsonNode(json)), null, `${type} ${json}`);
    assert.equal(stored('LONG', '"12"'), '12');
    assert.equal(stored('DOUBLE', '0.1234567890123456789'), '0.1234567890123456789');
    for (const [text, number] of [
      ['007', '7'],
      ['-00.5', '-0.5'],
      ['00', '0'],
      ['0e05', '0e05'],
      ['1e05', '1e05'],
    ]) {
      assert.equal(stored('DOUBLE', `"${text}"`), number);
    }
    assert.equal(stored('STRING', '12'), '"12"');
    assert.equal(stored('BYTES', '"AAE="'), '"AAE="');
  });
});

describe('JSON with exact numbers', () => {
  it('is read as JSON.parse reads it, but for the digits of numbers', () => {
    const plain = (node: ReturnType<typeof readJsonNode>): unknown => {
      switch (node.kind) {
        case 'null':
          return null;
        case 'array':
          return node.items.map(plain);
        case 'object':
          return Object.fromEntries([...node.members].map(([name, member]) => [name, plain(member)]));
        case 'number':
        case 'boolean':
          return JSON.parse(node.text);
        case 'string':
          return node.text;
      }
    };
    fc.assert(
      fc.property(fc.json(), fc.nat(3), (text, indent) => {
        const spaced = JSON.stringify(JSON.parse(text), null, indent);
        assert.equal(JSON.stringify(plain(readJsonNode(spaced))), JSON.stringify(JSON.parse(text)));
      }),
    );
  });

  it('may have strings, numbers and spaces of any length', () => {
    const long = 8 * 1024 * 1024;
    for (const text of [`"${'x'.repeat(long)}"`, `"${'\\\\'.repeat(long / 2)}"`, '1'.repeat(long)]) {
      const node = readJsonNode(`[${' '.repeat(long)}${text}${'\n'.repeat(long)}]`);
      const item = node.kind === 'array' ? node.items[0] : node;
      assert.ok('text' in item && item.text === (item.kind === 'string' ? JSON.parse(text) : text));
    }
  });
});
