/** Sorted rows against a sorted array. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { readSeq, seqText } from '../../../src/codec/mod.ts';
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

// Over the whole 64 bits, and by (seq, id)

interface WideRow {
  readonly seq: bigint;
  readonly id: number;
}

function halvesOf(seq: bigint): Uint32Array {
  const halves = new Uint32Array(2);
  const text = Buffer.from(`${seq}`);
  assert.ok(readSeq(text, 0, text.length, halves, 0));
  return halves;
}

function boundOf(seq: bigint, id: number | null): EdgeBound {
  const [high, low] = halvesOf(seq);
  return { high, low, target: id === null ? null : Uint32Array.of(0, 0, 0, id) };
}

function wideRowsOf({ words, count }: EdgePage): WideRow[] {
  return Array.from({ length: count }, (_, i) => {
    const w = i * edgeRow.words;
    return { seq: BigInt(seqText(words[w], words[w + 1])), id: words[w + edgeRow.targetAt + 3] };
  });
}

const isBehind = (row: WideRow, seq: bigint, id: number | null): boolean =>
  row.seq > seq || (id !== null && row.seq === seq && row.id > id);

const edges = [
  -(2n ** 63n),
  -(2n ** 32n),
  -1n,
  0n,
  1n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 63n - 1n,
];
const seqs = fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));

it('seq is exact over its whole range, and nothing outside of it is taken', () => {
  fc.assert(
    fc.property(seqs, (seq) => {
      const [high, low] = halvesOf(seq);
      assert.equal(seqText(high, low), `${seq}`);
    }),
  );
  const outside = fc.oneof(
    fc.bigInt({ min: 2n ** 63n, max: 2n ** 70n }),
    fc.bigInt({ min: -(2n ** 70n), max: -(2n ** 63n) - 1n }),
  );
  fc.assert(
    fc.property(outside, (seq) => {
      const text = Buffer.from(`${seq}`);
      assert.ok(!readSeq(text, 0, text.length, new Uint32Array(2), 0));
    }),
  );
});

it('pages behind a row and removals up to one are those of a sorted array', () => {
  const bound = fc.record({ seq: seqs, id: fc.option(fc.nat(300)) });
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ add: fc.array(seqs, { maxLength: 60 }) }) },
    {
      weight: 4,
      arbitrary: fc.record({ after: bound, until: fc.option(seqs), limit: fc.integer({ min: 1, max: 40 }) }),
    },
    { weight: 1, arbitrary: fc.record({ through: bound }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const rows = new EdgeRows();
      let twin: WideRow[] = [];
      let lastId = 0;
      for (const each of steps) {
        if ('add' in each) {
          for (const seq of each.add) {
            const words = new Uint32Array(edgeRow.words);
            words.set(halvesOf(seq));
            words[edgeRow.targetAt + 3] = ++lastId;
            rows.add(words, Float64Array.of(lastId, lastId));
            twin.push({ seq, id: lastId });
          }
          twin.sort((a, b) => (a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : a.id - b.id));
        } else if ('after' in each) {
          const { after, until, limit } = each;
          const range = {
            after: boundOf(after.seq, after.id),
            until: until === null ? null : boundOf(until, null),
          };
          const found = twin.filter(
            (row) => isBehind(row, after.seq, after.id) && (until === null || row.seq <= until),
          );
          const page = rows.compoundPage(range, limit, 1e9);
          assert.deepEqual(wideRowsOf(page), found.slice(0, limit));
          assert.equal(page.hasNext, found.length > limit);
          const first = rows.first(range);
          assert.deepEqual(first === null ? [] : wideRowsOf(first), found.slice(0, 1));
        } else {
          const { seq, id } = each.through;
          const left = twin.filter((row) => (id === null ? row.seq > seq : isBehind(row, seq, id)));
          const through = boundOf(seq, id);
          assert.equal(rows.countThrough(through, Number.POSITIVE_INFINITY), twin.length - left.length);
          assert.equal(rows.removeThrough(through, Number.POSITIVE_INFINITY), twin.length - left.length);
          twin = left;
        }
        const last = rows.last();
        assert.deepEqual(last === null ? [] : wideRowsOf(last), twin.slice(-1));
      }
      for (const { seq, id } of twin) {
        assert.equal(rows.addressOf(boundOf(seq, id)), id);
        assert.ok(rows.moveValue(boundOf(seq, id), id + 1000));
        assert.equal(rows.addressOf(boundOf(seq, id)), id + 1000);
      }
      assert.equal(rows.addressOf(boundOf(5n, lastId + 1)), -1);
    }),
    { numRuns: 150 },
  );
});

it('following the offset of pages shows each row once, however long its run, and always ends', () => {
  const few = fc.array(fc.bigInt({ min: -3n, max: 3n }), { maxLength: 80 });
  fc.assert(
    fc.property(few, fc.integer({ min: 1, max: 10 }), (given, limit) => {
      const rows = new EdgeRows();
      given.forEach((seq, i) => {
        const words = new Uint32Array(edgeRow.words);
        words.set(halvesOf(seq));
        words[edgeRow.targetAt + 3] = i + 1;
        rows.add(words, Float64Array.of(0, i + 1));
      });
      const seen: number[] = [];
      let after: EdgeBound | null = null;
      for (let hasNext = true; hasNext; ) {
        const page: EdgePage | null = rows.page({ after, until: null }, limit, 10_000, 1e9);
        assert.ok(page !== null && (page.count > 0 || !page.hasNext));
        const shown = wideRowsOf(page);
        seen.push(...shown.map(({ id }) => id));
        hasNext = page.hasNext;
        if (shown.length > 0) after = boundOf(shown[shown.length - 1].seq, null);
      }
      assert.equal(new Set(seen).size, given.length);
      assert.equal(seen.length, given.length);
    }),
  );
});
