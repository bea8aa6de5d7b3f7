import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LogDamage } from '../../../src/storage/log-damage.ts';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { SimulatedScheduler } from '../../simulation/simulated-scheduler.ts';
import { type Appended, append, assertResident, durable, openLog, readAll, smallOptions } from './log-driver.ts';

test('a new log is empty, begins with sequence 1 and leaves nothing behind when nothing was written', async () => {
  const disk = new SimulatedDisk();
  for (let i = 0; i < 3; i++) {
    const log = await openLog(disk);
    assert.equal(log.nextSequence, 1);
    assert.equal(log.durableSequence, 0);
    assert.equal(log.draftHasRecords, false);
    assert.equal(log.recovery.cleanlyClosed, true);
    assert.equal((await readAll(log)).size, 0);
    await log.close();
    assert.deepEqual(disk.paths(), ['segments/0000000000000000.seg']);
  }
});

test('what was appended is read back after a restart, in order, through many segments', async () => {
  const disk = new SimulatedDisk();
  const expected = new Map<number, number>();
  let sequence = 0;
  for (let start = 1; start <= 4; start++) {
    const log = await openLog(disk);
    assert.equal(log.epoch, start);
    assert.deepEqual(await readAll(log), expected);
    for (let i = 0; i < 60; i++) {
      const length = (i * 37) % 400;
      expected.set(append(log, length).sequence, length);
      if (i % 7 === 0) await durable(log, log.nextSequence - 1);
    }
    await log.close();
    sequence = log.durableSequence;
    expected.set(sequence, -1);
  }
  const log = await openLog(disk);
  assert.equal(log.recovery.cleanlyClosed, true);
  assert.equal(log.recovery.cut, null);
  assert.equal(log.recovery.lastSequence, sequence);
  assert.equal(log.durableSequence, sequence);
  assert.deepEqual(await readAll(log), expected);
  const segments = log.segments();
  assert.ok(segments.length > 10);
  for (let i = 1; i < segments.length; i++) {
    assert.equal(segments[i].base, segments[i - 1].end);
    assert.equal(segments[i - 1].sealed, true);
    assert.ok(segments[i].firstSequence > segments[i - 1].firstSequence);
  }
  assert.equal(segments[segments.length - 1].sealed, false);
  await log.close();
});

test('large writes are written once: their segments grow, until small ones bring zeros', async () => {
  const disk = new SimulatedDisk();
  const options = { ...smallOptions, largeWriteBytes: 300 };
  const log = await openLog(disk, options);
  /** Appends entries one after the other, and gives the lengths of the writes that this took. */
  const writeAll = async (count: number, bodyLength: number): Promise<number[]> => {
    const first = disk.trace.length;
    for (let i = 0; i < count; i++) await durable(log, append(log, bodyLength).sequence);
    const lengths = disk.trace.slice(first).map((operation) => /^write \d+ (\d+)/.exec(operation)?.[1]);
    return lengths.filter((length) => length !== undefined).map(Number);
  };
  // The mean follows slowly.
  await writeAll(50, 700);

  const before = log.stats().bytesWritten;
  const large = await writeAll(50, 700);
  assert.ok(log.segments().length > 10);
  const sum = large.reduce((bytes, length) => bytes + length, 0);
  assert.equal(sum, log.stats().bytesWritten - before);

  await writeAll(60, 20);
  const small = await writeAll(20, 20);
  // Each is 92 bytes long; those that do not fit into the zeros behind the one before bring more, or they were all there.
  assert.ok(small.filter((length) => length > 92).length <= 20 / 3);
  await log.close();

  const again = await openLog(disk, options);
  assert.equal((await readAll(again)).size, 181);
  await again.close();
});

test('replay starts at any entry, at any segment, and shows nothing from the tail on', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  const appended: Appended[] = [];
  for (let i = 0; i < 50; i++) appended.push(append(log, 300));
  await durable(log, 50);
  for (const { address, sequence } of appended) {
    const found = await readAll(log, address - 64);
    assert.equal(found.size, 50 - sequence + 1);
    assert.equal(found.keys().next().value, sequence);
  }
  for (const { base, firstSequence } of log.segments()) {
    assert.equal((await readAll(log, base)).keys().next().value, firstSequence);
  }
  assert.equal((await readAll(log, log.tail)).size, 0);
  await assert.rejects(readAll(log, log.tail + 1), LogDamage);
  await log.close();
});

test('entries sealed while a write runs become durable together with the next one', async () => {
  const scheduler = new SimulatedScheduler();
  const disk = new SimulatedDisk({ scheduler, latencyMsMax: 1 });
  const log = await scheduler.runUntil(openLog(disk, { ...smallOptions, segmentBytes: 1 << 20 }, scheduler));
  const reported: number[] = [];
  log.onDurable = (through) => reported.push(through);
  append(log, 10);
  while (disk.trace.at(-1)?.startsWith('write') !== true) await scheduler.advance(0.01);
  for (let i = 0; i < 9; i++) append(log, 10);
  assert.ok(log.unsyncedBytes > 0);
  await scheduler.advance(100);
  assert.deepEqual(reported, [1, 10]);
  assert.equal(log.stats().syncs, 2);
  assert.equal(log.unsyncedBytes, 0);
  await scheduler.runUntil(log.close());
});

test('entries of turns that follow each other without a pause go out together, a single one at once', async () => {
  const scheduler = new SimulatedScheduler();
  const disk = new SimulatedDisk({ scheduler, latencyMsMax: 0 });
  const log = await scheduler.runUntil(openLog(disk, { ...smallOptions, segmentBytes: 1 << 20 }, scheduler));
  const reported: number[] = [];
  log.onDurable = (through) => reported.push(through);
  let left = 40;
  const turn = (): void => {
    append(log, 10);
    if (--left > 0) scheduler.soon(turn);
  };
  turn();
  await scheduler.advance(100);
  assert.equal(reported.at(-1), 40);
  assert.ok(reported.length > 2 && reported.length < 12, `written in ${reported.length} groups`);
  append(log, 10);
  await scheduler.advance(1);
  assert.equal(reported.at(-1), 41);
  await scheduler.runUntil(log.close());
});

test('an entry of any size lies in one segment, and its memory is given back', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk, { ...smallOptions, segmentBytes: 65_536, slabBytes: 4096, tailBytes: 16_384 });
  const lengths = [10, 100_000, 20, 3_000_000, 5, 5, 65_536, 4096, 4032, 1];
  const appended = lengths.map((length) => append(log, length, 1000));
  for (const one of appended) assertResident(log, one);
  await durable(log, lengths.length);
  for (const { address, length } of appended) {
    const segment = log.segments().find(({ base, end }) => base <= address && address < end);
    assert.ok(segment && address + length <= segment.end);
  }
  for (let i = 0; i < 100; i++) append(log, 500);
  await durable(log, log.nextSequence - 1);
  append(log, 10);
  assert.ok(log.stats().tailBytesHeld <= 16_384, `${log.stats().tailBytesHeld} bytes are held`);
  await log.close();
  const again = await openLog(disk);
  assert.deepEqual([...(await readAll(again)).values()].slice(0, lengths.length), lengths);
  await again.close();
});

test('an entry beyond entryBytesMax is refused where it grows', async () => {
  const log = await openLog(new SimulatedDisk(), { ...smallOptions, entryBytesMax: 2000 });
  log.draft.require(1000);
  assert.throws(() => log.draft.require(1937), /entryBytesMax/);
  log.draft.require(1936);
  await log.close();
});

test('a segment is reported as sealed once, in order, after all of it is durable', async () => {
  const log = await openLog(new SimulatedDisk());
  const sealed: number[] = [];
  log.onSegmentSealed = (base, end) => {
    assert.equal(log.segments()[sealed.length].base, base);
    assert.equal(log.segments()[sealed.length].end, end);
    assert.equal(log.segments()[sealed.length].sealed, true);
    assert.ok(log.durableSequence >= log.segments()[sealed.length + 1].firstSequence - 1);
    sealed.push(base);
  };
  for (let i = 0; i < 100; i++) append(log, 200);
  await durable(log, 100);
  assert.equal(sealed.length, log.segments().length - 1);
  assert.ok(sealed.length >= 5);
  await log.close();
});

test('everything ever appended can be brought into memory and read there until the turn after the next', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  const appended: Appended[] = [];
  for (let i = 0; i < 200; i++) appended.push(append(log, (i * 53) % 700));
  await durable(log, 200);
  const missing = appended.filter(({ address, length }) => log.resident(address, length) === undefined);
  assert.ok(missing.length > 100, 'old entries have left tail memory');
  for (const one of appended) {
    await log.load(one.address, one.length);
    await new Promise((next) => setImmediate(next));
    assertResident(log, one);
  }
  await Promise.all(appended.map(({ address, length }) => log.load(address, length)));
  for (const one of appended) assertResident(log, one);
  await letTurnsPass();
  assert.ok(log.stats().coldBytesHeld <= 2048, 'what nobody asks for any more is let go');
  await log.close();
});

test('bytes in tail memory that were asked for are not overwritten before the turn after the next', async () => {
  const log = await openLog(new SimulatedDisk());
  const first = append(log, 100);
  await durable(log, 1);
  await log.load(first.address, first.length);
  for (let i = 0; i < 100; i++) append(log, 100);
  assertResident(log, first);
  await durable(log, 101);
  await letTurnsPass();
  for (let i = 0; i < 100; i++) append(log, 100);
  await durable(log, 201);
  assert.equal(log.resident(first.address, first.length), undefined);
  await log.close();
});

test('loads of one place at the same time read it once', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk, { ...smallOptions, coldBytes: 1 << 20 });
  const first = append(log, 500);
  for (let i = 0; i < 100; i++) append(log, 100);
  await durable(log, 101);
  const loads = Array.from({ length: 20 }, () => log.load(first.address, first.length));
  await Promise.all([...loads, log.load(first.address + 8, 100), log.load(first.address, 8)]);
  assert.equal(log.stats().coldReads, 1);
  assertResident(log, first);
  await log.close();
});

test('bytes that the log does not hold, or holds no longer, are damage and not an endless wait', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  const first = append(log, 500);
  for (let i = 0; i < 100; i++) append(log, 100);
  await durable(log, 101);
  await assert.rejects(log.load(log.tail + 1000, 10), LogDamage);
  await assert.rejects(log.load(0, 1 << 20), LogDamage);
  const path = disk.paths()[0];
  disk.place(path, disk.contents(path).slice(0, 300));
  await assert.rejects(log.load(first.address, first.length), (error: LogDamage) => {
    assert.equal(error.code, 'ELOGDAMAGE');
    assert.equal(error.segment, path);
    assert.equal(error.address, 300);
    return true;
  });
  await log.close();
});

test('close refuses to drop records that were not sealed', async () => {
  const log = await openLog(new SimulatedDisk());
  log.draft.require(8);
  log.draft.position += 8;
  await assert.rejects(log.close(), /not sealed/);
});

test('options out of bounds are refused by name', async () => {
  await assert.rejects(openLog(new SimulatedDisk(), { segmentBytes: 1 }), /segmentBytes is 1/);
});

test('whatever sizes are appended, memory shows the draft, the newest entries and loaded ones as they were written', async () => {
  const lengths = fc.array(fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 3000 })), {
    maxLength: 60,
  });
  await fc.assert(
    fc.asyncProperty(lengths, fc.integer({ min: 1, max: 600 }), async (all, pieceLength) => {
      const log = await openLog(new SimulatedDisk());
      const appended = all.map((length) => append(log, length, pieceLength));
      if (all.length > 0) assertResident(log, appended[all.length - 1]);
      await durable(log, all.length);
      for (const one of appended) {
        await log.load(one.address, one.length);
        assertResident(log, one);
      }
      await log.close();
    }),
    { numRuns: 150 },
  );
});

async function letTurnsPass(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((next) => setImmediate(next));
}
