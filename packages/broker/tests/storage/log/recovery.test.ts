import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LogDamage } from '../../../src/storage/log-damage.ts';
import { segmentPath } from '../../../src/storage/segment-format.ts';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { type Appended, append, durable, hasher, openLog, readAll, smallOptions } from './log-driver.ts';

const oneSegment = { ...smallOptions, segmentBytes: 16_384 };
const firstPath = 'segments/0000000000000000.seg';

/** A log of one segment whose entries were synced one by one and that then lost its process. */
async function killedLog(lengths: readonly number[], options = oneSegment) {
  const disk = new SimulatedDisk();
  const log = await openLog(disk, options);
  const appended: Appended[] = [];
  for (const length of lengths) {
    appended.push(append(log, length));
    await durable(log, log.nextSequence - 1);
  }
  const tail = log.tail;
  disk.kill();
  return { disk, appended, tail };
}

/** Opens, checks that exactly entries 1 … count are there, writes on, and checks once more. */
async function assertRecovers(disk: SimulatedDisk, lengths: readonly number[], count: number) {
  const log = await openLog(disk, oneSegment);
  assert.deepEqual([...(await readAll(log)).values()], lengths.slice(0, count));
  assert.equal(log.nextSequence, count + 1);
  append(log, 77);
  await durable(log, count + 1);
  disk.kill();
  const again = await openLog(disk, oneSegment);
  assert.equal(again.recovery.cut, null);
  assert.deepEqual([...(await readAll(again)).values()], [...lengths.slice(0, count), 77]);
  disk.kill();
  return log.recovery;
}

test('a file cut at any byte of the last three entries loses just the entries that were cut', async () => {
  const lengths = [100, 30, 1, 61, 40];
  const { disk, appended, tail } = await killedLog(lengths);
  const contents = disk.contents(firstPath);
  const starts = appended.map(({ address }) => address - 64);
  for (let end = starts[2]; end <= tail; end++) {
    for (const isZeroed of [false, true]) {
      const bytes = contents.slice(0, isZeroed ? contents.length : end);
      if (isZeroed) bytes.fill(0, end);
      const copy = disk.copy();
      copy.place(firstPath, bytes);
      const whole = appended.filter(({ address, length }) => address + length <= end).length;
      const recovery = await assertRecovers(copy, lengths, whole);
      const start = whole < 5 ? starts[whole] : tail;
      assert.equal(recovery.tail, start);
      const stray = contents.subarray(start, end).findLastIndex((byte) => byte !== 0) + 1;
      assert.equal(recovery.cut?.bytes ?? 0, stray);
      assert.equal(recovery.cleanlyClosed, false);
    }
  }
});

test('any change to the last entry of a crashed log is taken for an unfinished write', async () => {
  const lengths = [100, 30, 25];
  const { disk, appended } = await killedLog(lengths);
  const last = appended[2];
  for (let position = last.address - 64; position < last.address + last.length; position++) {
    const copy = disk.copy();
    copy.flip(firstPath, position, position % 8);
    const recovery = await assertRecovers(copy, lengths, 2);
    assert.equal(recovery.cut?.address, last.address - 64);
  }
});

test('a change to an entry that is known to have been synced is refused, by address', async () => {
  const { disk, appended } = await killedLog([100, 30, 25, 50]);
  for (const { address, length } of appended.slice(0, 2)) {
    for (let position = address - 64; position < address + length; position++) {
      const copy = disk.copy();
      copy.flip(firstPath, position, position % 8);
      const before = copy.contents(firstPath);
      await assert.rejects(openLog(copy, oneSegment), (error: LogDamage) => {
        assert.ok(error instanceof LogDamage);
        assert.equal(error.address, address - 64);
        assert.equal(error.segment, firstPath);
        return true;
      });
      assert.deepEqual(copy.contents(firstPath), before, 'a refused log is left as it is');
    }
  }
});

test('after a clean end every entry is known to have been synced', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk, oneSegment);
  const appended = [100, 30, 25].map((length) => append(log, length));
  await log.close();
  for (const { address } of appended) {
    const copy = disk.copy();
    copy.flip(firstPath, address + 3);
    await assert.rejects(openLog(copy, oneSegment), LogDamage);
  }
});

test('a changed segment header is refused', async () => {
  const { disk } = await killedLog([100]);
  for (let position = 0; position < 64; position++) {
    const copy = disk.copy();
    copy.flip(firstPath, position);
    await assert.rejects(openLog(copy, oneSegment), LogDamage);
  }
  disk.place(firstPath, new Uint8Array(10));
  await assert.rejects(openLog(disk, oneSegment), LogDamage);
});

test('an entry of a later format version is refused, not cut', async () => {
  const { disk, appended } = await killedLog([100, 30]);
  const bytes = disk.contents(firstPath);
  const view = new DataView(bytes.buffer);
  const { address, length } = appended[1];
  view.setUint32(address - 64 + 60, 2, true);
  hasher.checksum(bytes, address - 48, address + length);
  view.setUint32(address - 56, hasher.low, true);
  view.setUint32(address - 52, hasher.high, true);
  disk.place(firstPath, bytes);
  await assert.rejects(openLog(disk, oneSegment), /version 2 is not known/);
});

test('bytes of another history behind the tail are never taken for entries', async () => {
  const lengths = [100, 30, 30, 30, 30, 30];
  const { disk, appended, tail } = await killedLog(lengths);
  const old = disk.contents(firstPath);
  // Another history: entry 3 was lost, and the next epoch wrote another one of the same length in its place.
  const cutAt = appended[2].address - 64;
  const other = disk.copy();
  other.place(firstPath, old.slice(0, cutAt));
  const log = await openLog(other, oneSegment);
  assert.equal(log.epoch, 2);
  append(log, 30);
  await durable(log, 3);
  other.kill();
  const mixed = other.contents(firstPath).slice(0, appended[3].address - 64);
  const stale = new Uint8Array(old.length);
  stale.set(mixed);
  stale.set(old.subarray(mixed.length, tail), mixed.length);
  other.place(firstPath, stale);
  const recovery = await assertRecovers(other, [100, 30, 30], 3);
  assert.equal(recovery.cut?.bytes, tail - mixed.length);
  assert.match(recovery.cut?.reason ?? '', /epoch 1 follows 2/);
  // Entries that belong elsewhere in the same file.
  const moved = old.slice();
  moved.copyWithin(tail, appended[0].address - 64, tail);
  disk.place(firstPath, moved);
  await assertRecovers(disk, lengths, 6);
});

test('payload that looks like an entry proves nothing', async () => {
  const { disk, tail } = await killedLog([100, 30]);
  const bytes = disk.contents(firstPath);
  const entry = bytes.slice(64, 64 + 64 + 108);
  // A torn entry whose body holds the image of a real entry, of another address.
  bytes.set(entry.subarray(0, 20), tail);
  bytes.set(entry, tail + 200);
  disk.place(firstPath, bytes);
  await assertRecovers(disk, [100, 30], 2);
});

async function manySegments() {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  const lengths: number[] = [];
  for (let i = 0; i < 40; i++) {
    lengths.push((i * 97) % 900);
    append(log, lengths[i]);
    if (i % 3 === 0) await durable(log, i + 1);
  }
  await durable(log, 40);
  const segments = log.segments();
  disk.kill();
  return { disk, lengths, segments };
}

test('wherever one bit flips: every entry reads back as written, or the log is refused, or an unproved end is cut', async () => {
  const { disk, lengths, segments } = await manySegments();
  const positions = fc.record({
    segment: fc.integer({ min: 0, max: segments.length - 1 }),
    position: fc.integer({ min: 0, max: 1_000_000 }),
    bit: fc.integer({ min: 0, max: 7 }),
  });
  const paths = disk.paths().filter((path) => path.endsWith('.seg'));
  await fc.assert(
    fc.asyncProperty(positions, async ({ segment, position, bit }) => {
      const copy = disk.copy();
      const isLast = segment === segments.length - 1;
      const { base, end, firstSequence } = segments[segment];
      copy.flip(paths[segment], position % (isLast ? disk.contents(paths[segment]).length : end - base), bit);
      try {
        const log = await openLog(copy);
        const found = [...(await readAll(log)).values()];
        assert.ok(isLast, 'a change to a sealed segment is always seen');
        assert.deepEqual(found, lengths.slice(0, found.length));
        assert.ok(found.length >= firstSequence - 1);
        if (found.length < lengths.length) assert.notEqual(log.recovery.cut, null);
      } catch (error) {
        assert.ok(error instanceof LogDamage, String(error));
        assert.equal(error.segment, paths[segment]);
      }
    }),
    { numRuns: 400 },
  );
});

test('a missing or shortened segment is told of as a gap, and nothing in it is shown; an exchanged one is refused', async () => {
  const { disk, segments } = await manySegments();
  const paths = disk.paths().filter((path) => path.endsWith('.seg'));
  assert.ok(segments.length > 4);
  const missing = disk.copy();
  missing.takeAway(paths[2]);
  const withGap = await openLog(missing);
  assert.deepEqual(withGap.recovery.gaps, [{ base: segments[2].base, end: segments[3].base }]);
  await assert.rejects(readAll(withGap, 0), LogDamage);
  assert.deepEqual(withGap.segments()[1], segments[1], 'the segment before it ends where it ended');
  const short = disk.copy();
  short.place(paths[2], short.contents(paths[2]).slice(0, segments[2].end - segments[2].base - 1));
  const cut = await openLog(short);
  assert.deepEqual(cut.recovery.gaps, [{ base: segments[2].end - 1, end: segments[3].base }]);
  await assert.rejects(readAll(cut, 0), (error: LogDamage) => error.segment === paths[2]);
  const exchanged = disk.copy();
  exchanged.place(paths[2], exchanged.contents(paths[3]));
  await assert.rejects(openLog(exchanged), LogDamage);
  // Segments that were reclaimed at the front are no damage, unless they are asked for.
  const reclaimed = disk.copy();
  reclaimed.takeAway(paths[0]);
  const log = await openLog(reclaimed);
  assert.equal((await readAll(log)).keys().next().value, segments[1].firstSequence);
  await assert.rejects(readAll(log, 0), LogDamage);
});

test('a log written with larger segments and larger entries is continued with smaller ones', async () => {
  const disk = new SimulatedDisk();
  const large = await openLog(disk, { ...smallOptions, segmentBytes: 65_536 });
  append(large, 5000);
  await large.close();
  const small = await openLog(disk, { ...smallOptions, entryBytesMax: 1024 });
  append(small, 100);
  append(small, 100);
  await small.close();
  const log = await openLog(disk);
  assert.deepEqual([...(await readAll(log)).values()], [5000, -1, 100, 100, -1]);
  assert.equal(log.segments().length, 2);
});

test('a segment that is missing behind one that was made for more shows as a gap', async () => {
  const disk = new SimulatedDisk();
  const large = await openLog(disk, { ...smallOptions, segmentBytes: 65_536 });
  append(large, 100);
  await large.close();
  const small = await openLog(disk);
  for (let i = 0; i < 40; i++) append(small, 300);
  await small.close();
  const [first, second, third] = small.segments();
  assert.equal(disk.contents(firstPath).length, first.end);
  disk.takeAway(segmentPath(second.base));
  const log = await openLog(disk);
  assert.deepEqual(log.recovery.gaps, [{ base: second.base, end: third.base }]);
});

test('what is left of the making of a segment is removed', async () => {
  const { disk } = await killedLog([100]);
  disk.place('segments/spare.tmp', new Uint8Array(100));
  disk.place('segments/0000000000000000.idx', new Uint8Array(100));
  await openLog(disk, oneSegment);
  assert.deepEqual(disk.paths(), ['segments/0000000000000000.idx', firstPath]);
});
