import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogDamage } from '../../../src/storage/log-damage.ts';
import { readLog, readSegment } from '../../../src/storage/log-reader.ts';
import { inspectLog, verifyLog } from '../../../src/storage/offline.ts';
import { gapDamage } from '../../../src/storage/segment-list.ts';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { type Appended, append, durable, hasher, openLog } from './log-driver.ts';

async function writtenLog() {
  const disk = new SimulatedDisk();
  const appended: Appended[] = [];
  for (let round = 0; round < 2; round++) {
    const log = await openLog(disk);
    for (let i = 0; i < 30; i++) appended.push(append(log, 400));
    await durable(log, log.nextSequence - 1);
    await log.close();
  }
  const log = await openLog(disk);
  const segments = log.segments();
  await log.close();
  return { disk, appended, segments };
}

test('a report says what the log holds, and nothing is changed', async () => {
  const { disk, segments } = await writtenLog();
  const before = disk.paths().map((path) => disk.contents(path));
  const { operations } = disk;
  const report = await inspectLog(disk, hasher);
  assert.deepEqual(
    disk.paths().map((path) => disk.contents(path)),
    before,
  );
  assert.ok(disk.trace.slice(operations).every((operation) => /^(list|read|size|close|open .* read)/.test(operation)));
  assert.deepEqual(report.damage, []);
  assert.equal(report.cleanlyClosed, true);
  assert.equal(report.unfinishedBytes, 0);
  assert.equal(report.entries, 62);
  assert.equal(report.lastSequence, 62);
  assert.equal(report.entryBytes, 60 * 472 + 2 * 72);
  assert.deepEqual([...report.recordsByType].sort(), [
    [11, 2],
    [200, 60],
  ]);
  assert.deepEqual(
    report.segments.map(({ base, end, sealed, firstSequence }) => ({ base, end, sealed, firstSequence })),
    segments,
  );
  assert.equal(report.tail, segments[segments.length - 1].end);
  assert.equal(report.segments[0].firstEpoch, 1);
  assert.equal(report.segments[report.segments.length - 1].lastEpoch, 2);
  assert.equal(report.segments[0].firstStampUs, 1_000_001);
});

test('an empty folder and a log without entries are reported as such', async () => {
  const disk = new SimulatedDisk();
  assert.equal((await inspectLog(disk, hasher)).segments.length, 0);
  await (await openLog(disk)).close();
  const report = await inspectLog(disk, hasher);
  assert.equal(report.segments.length, 1);
  assert.equal(report.entries, 0);
  assert.equal(report.lastSequence, 0);
  assert.equal(report.cleanlyClosed, true);
});

test('an unfinished write at the end is no damage', async () => {
  const { disk, segments } = await writtenLog();
  const last = segments[segments.length - 1];
  const path = disk.paths()[segments.length - 1];
  const bytes = disk.contents(path);
  bytes.set([1, 2, 3, 0, 0, 4], last.end - last.base);
  disk.place(path, bytes);
  const report = await inspectLog(disk, hasher);
  assert.equal(report.unfinishedBytes, 6);
  assert.deepEqual(report.damage, []);
});

test('every damaged place is reported by address, and all other entries are shown', async () => {
  const { disk, appended, segments } = await writtenLog();
  const victims = [3, 20, 21, 50].map((index) => appended[index]);
  for (const { address } of victims) {
    const index = segments.findIndex(({ base, end }) => base <= address && address < end);
    disk.flip(disk.paths()[index], address + 20 - segments[index].base);
  }
  const seen: number[] = [];
  const report = await verifyLog(disk, hasher, (entry) => seen.push(entry.sequence));
  const lost = victims.map(({ sequence }) => sequence);
  assert.deepEqual(
    seen,
    Array.from({ length: 62 }, (_, i) => i + 1).filter((sequence) => !lost.includes(sequence)),
  );
  const addresses = report.damage.filter(({ reason }) => /checksum/.test(reason)).map(({ address }) => address);
  // Two damaged entries in a row are one place.
  assert.deepEqual(
    addresses,
    [victims[0], victims[1], victims[3]].map(({ address }) => address - 64),
  );
  assert.equal(report.lastSequence, 62);
});

test('a segment with a damaged header, or a missing one, is reported and the others are read', async () => {
  const { disk, segments } = await writtenLog();
  const [first, second] = disk.paths();
  disk.flip(second, 20);
  const damaged = await inspectLog(disk, hasher);
  assert.equal(damaged.segments.length, segments.length - 1);
  assert.equal(damaged.damage[0].segment, second);
  disk.takeAway(second);
  const missing = await inspectLog(disk, hasher);
  assert.deepEqual(missing.damage, [], `${first} is whole, and what comes behind it may have been reclaimed`);
  assert.deepEqual(missing.gaps, [{ base: segments[0].end, end: segments[2].base }]);
  const reclaimed = { base: segments[1].base, end: segments[1].end };
  assert.equal(
    gapDamage(missing.gaps, () => reclaimed),
    null,
  );
  assert.equal(gapDamage(missing.gaps, () => undefined)?.address, segments[0].end);
});

test('zeros behind a segment, as far as the next one that is left and further, are no damage where that was reclaimed', async () => {
  const { disk, segments } = await writtenLog();
  const [first, second] = disk.paths();
  const bytes = disk.contents(first);
  for (const zeros of [1, 64, segments[1].end - segments[1].base, 100_000]) {
    const longer = new Uint8Array(bytes.length + zeros);
    longer.set(bytes);
    disk.place(first, longer);
    if (disk.paths().includes(second)) disk.takeAway(second);
    const report = await inspectLog(disk, hasher);
    assert.deepEqual(report.damage, [], `${zeros} zeros`);
    const gap = { base: segments[0].end, end: segments[2].base };
    assert.deepEqual(report.gaps, [gap]);
    assert.equal(
      gapDamage(report.gaps, () => gap),
      null,
    );
    assert.equal(gapDamage(report.gaps, () => undefined)?.address, segments[0].end);
  }
});

test('records whose lengths do not fit their entry are reported', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  log.draft.require(100);
  log.draft.bytes.fill(0, log.draft.position, log.draft.position + 100);
  log.draft.view.setUint32(log.draft.position, 101, true);
  log.draft.position += 100;
  log.seal({ stampUs: 1, digest: 0, recordCount: 1 });
  await durable(log, 1);
  assert.match((await inspectLog(disk, hasher)).damage[0].reason, /length 101/);
  await log.close();
});

test('a reader gets the entries of a range, of one sealed segment, and beside a broker that writes', async () => {
  const disk = new SimulatedDisk();
  const log = await openLog(disk);
  const appended = Array.from({ length: 50 }, () => append(log, 300));
  await durable(log, 50);
  const seen: number[] = [];
  const range = { from: appended[9].address - 64, afterSequence: 9, throughSequence: 40 };
  const end = await readLog(disk, hasher, range, (entry) => seen.push(entry.sequence));
  assert.deepEqual(
    seen,
    Array.from({ length: 31 }, (_, i) => i + 10),
  );
  assert.equal(end, appended[39].address + appended[39].length);
  const rest: number[] = [];
  await readLog(disk, hasher, { from: end, afterSequence: 40, throughSequence: 50 }, (entry) =>
    rest.push(entry.sequence),
  );
  assert.equal(rest.length, 10);
  const none = { from: end, afterSequence: 40, throughSequence: 40 };
  assert.equal(await readLog(disk, hasher, none, () => assert.fail('nothing is left')), end);
  await assert.rejects(
    readLog(disk, hasher, { from: end, afterSequence: 40, throughSequence: 51 }, () => undefined),
    LogDamage,
  );
  await assert.rejects(
    readLog(disk, hasher, { from: end, afterSequence: 41, throughSequence: 50 }, () => undefined),
    LogDamage,
  );
  const segment = log.segments()[2];
  const inSegment: number[] = [];
  await readSegment(disk, hasher, segment.base, (entry) => inSegment.push(entry.sequence));
  assert.equal(inSegment[0], segment.firstSequence);
  assert.equal(inSegment[inSegment.length - 1], log.segments()[3].firstSequence - 1);
  await assert.rejects(
    readSegment(disk, hasher, log.segments()[log.segments().length - 1].base, () => undefined),
    LogDamage,
  );
  await assert.rejects(
    readLog(disk, hasher, { from: 0, afterSequence: -1, throughSequence: 5 }, () => {
      throw new Error('of the visitor');
    }),
    /of the visitor/,
  );
  await log.close();
});
