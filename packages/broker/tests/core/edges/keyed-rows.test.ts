/** Rows by the bytes of their keys against a sorted array. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { type KeyedRow, KeyedRows } from '../../../src/core/mod.ts';

const keyOf = (number: number): Uint8Array => Buffer.from(number.toString(4), 'latin1');
const compare = (a: KeyedRow, b: KeyedRow): number => Buffer.compare(a.key, b.key);
const isIn = (row: KeyedRow, from: Uint8Array, to: Uint8Array | null): boolean =>
  Buffer.compare(row.key, from) >= 0 && (to === null || Buffer.compare(row.key, to) < 0);

it('rows by key give the pages and removals that a sorted array gives', () => {
  const number = fc.nat(2000);
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ put: fc.array(number, { maxLength: 400 }) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        from: number,
        to: fc.option(number),
        limit: fc.integer({ min: 1, max: 500 }),
        removes: fc.boolean(),
      }),
    },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const rows = new KeyedRows();
      let twin: KeyedRow[] = [];
      let address = 0;
      for (const each of steps) {
        if ('put' in each) {
          for (const drawn of each.put) {
            const row = { key: keyOf(drawn), address: ++address, length: drawn % 7, checksum: address };
            rows.put(row.key, row);
            twin = [...twin.filter((other) => compare(other, row) !== 0), row];
          }
          twin.sort(compare);
        } else {
          const range = { from: keyOf(each.from), to: each.to === null ? null : keyOf(each.to) };
          const found = twin.filter((row) => isIn(row, range.from, range.to));
          const expected = found.slice(0, each.limit);
          assert.equal(rows.countIn(range, each.limit), expected.length);
          if (each.removes) {
            assert.equal(rows.remove(range, each.limit), expected.length);
            twin = twin.filter((row) => !expected.includes(row));
          } else {
            const page = rows.page(range, each.limit, Number.POSITIVE_INFINITY);
            assert.deepEqual(
              page.rows.map((row) => ({ ...row, key: Buffer.from(row.key) })),
              expected.map((row) => ({ ...row, key: Buffer.from(row.key) })),
            );
            assert.equal(page.hasNext, found.length > expected.length);
          }
        }
        assert.equal(rows.count, twin.length);
        assert.equal(
          rows.valueBytes,
          twin.reduce((sum, { length }) => sum + length, 0),
        );
      }
      for (const row of twin) assert.equal(rows.find(row.key)?.address, row.address);
      assert.equal(rows.find(keyOf(2001)), null);
    }),
    { numRuns: 100 },
  );
});
