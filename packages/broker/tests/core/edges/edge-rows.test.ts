/** Sorted rows against a sorted array. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { type EdgeBound, type EdgePage, EdgeRows, edgeRow } from '../../../src/core/mod.ts';

interface Row {
  readonly seq: number;
  readonly target: number;
  readonly appended: number;
}

function twinPage(all: readonly Row[], after: number, until: number, limit: number): [Row[], boolean] {
  const range = all.filter(({ seq }) => seq > after && seq <= until);
  if (range.length <= limit) return [range, false];
  const cut = range[limit].seq;
  const whole = range.slice(0, limit).filter(({ seq }) => seq !== cut);
  if (whole.length > 0) return [whole, true];
  const run = range.filter(({ seq }) => seq === cut);
  return [run, range.length > run.length];
}

function bound(low: number): EdgeBound {
  return { high: 0, low, target: null };
}

function targetsOf(page: EdgePage): number[] {
  return Array.from({ length: page.count }, (_, i) => page.words[i * edgeRow.words + edgeRow.targetAt + 3]);
}

it('sorted rows give the pages and removals that a sorted array gives', () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ add: fc.array(fc.nat(40), { maxLength: 300 }) }) },
    { weight: 2, arbitrary: fc.record({ add: fc.constant(Array.from({ length: 600 }, (_, i) => i)) }) },
    {
      weight: 4,
      arbitrary: fc.record({ after: fc.nat(60), until: fc.nat(700), limit: fc.integer({ min: 1, max: 50 }) }),
    },
    { weight: 2, arbitrary: fc.record({ through: fc.nat(60), ago: fc.nat(200), marked: fc.boolean() }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const rows = new EdgeRows();
      let twin: Row[] = [];
      let appended = 0;
      for (const each of steps) {
        if ('add' in each) {
          for (const seq of each.add) {
            appended++;
            const words = new Uint32Array(edgeRow.words);
            words[edgeRow.seqLowAt] = seq;
            words[edgeRow.targetAt + 3] = appended;
            rows.add(words, Float64Array.of(0, appended));
            twin.push({ seq, target: appended, appended });
          }
          twin.sort((a, b) => a.seq - b.seq || a.target - b.target);
        } else if ('limit' in each) {
          const page = rows.page({ after: bound(each.after), until: bound(each.until) }, each.limit, 1e9, 1e9);
          assert.ok(page !== null);
          const [expected, hasNext] = twinPage(twin, each.after, each.until, each.limit);
          assert.deepEqual(
            targetsOf(page),
            expected.map(({ target }) => target),
          );
          assert.equal(page.hasNext, hasNext);
        } else {
          const watermark = each.marked ? appended - each.ago : Number.POSITIVE_INFINITY;
          const left = twin.filter((row) => row.seq > each.through || row.appended > watermark);
          assert.equal(rows.removeThrough(bound(each.through), watermark), twin.length - left.length);
          twin = left;
        }
        assert.equal(rows.count, twin.length);
      }
    }),
    { numRuns: 200 },
  );
});
