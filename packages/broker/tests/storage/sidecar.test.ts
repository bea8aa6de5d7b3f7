import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockLocation } from '../../src/ports/mod.ts';
import { SegmentedIndex } from '../../src/storage/index-segmented.ts';
import { buildSidecar, listSidecars } from '../../src/storage/sidecar-build.ts';
import { SidecarDamage, sidecarBaseOf, sidecarPath } from '../../src/storage/sidecar-format.ts';
import { RowOrder, sortedUnique } from '../../src/storage/sidecar-sort.ts';
import type { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';
import { checksum, diskWithSegments, TestLog, turns } from './index-fixtures.ts';

/** A segment whose sidecar has two pages of blocks and three of ids. */
async function smallSidecar(): Promise<{ disk: SimulatedDisk; log: TestLog; base: number; path: string }> {
  const random = new SimulatedRandom(3);
  const log = new TestLog();
  const base = log.beginSegment();
  const next = [0, 0, 0, 0];
  for (let i = 0; i < 200; i++) {
    const lane = random.integer(4);
    log.append({
      lane,
      pid: lane + 10,
      firstOffset: next[lane],
      stampUs: 5000 + i,
      ids: [
        [1 + random.integer(2 ** 31), i],
        [0, 0],
        [i, 7],
      ],
    });
    next[lane] += 3;
  }
  const disk = diskWithSegments();
  await buildSidecar(disk, checksum, log.visit, base);
  return { disk, log, base, path: sidecarPath(base) };
}

type Answer = BlockLocation | { offset: number; stampUs: number } | undefined | 'damage';

/** Adopts the sidecar and asks for everything in it and for some that is not. */
async function interrogate(disk: SimulatedDisk, log: TestLog, base: number): Promise<Answer[] | 'damage'> {
  const index = new SegmentedIndex({ disk, checksum, scheduler: turns });
  const adoption = await index.adopt(base);
  if (!adoption.ok) {
    assert.equal(adoption.reason, 'damaged');
    return 'damage';
  }
  const answers: Answer[] = [];
  const ask = async (question: Promise<Answer>) => {
    answers.push(
      await question.catch((error: unknown) => {
        assert.ok(error instanceof SidecarDamage);
        assert.equal(error.code, 'ESIDECARDAMAGE');
        return 'damage' as const;
      }),
    );
  };
  for (const made of log.blocks) {
    if (made.stampUs % 5 === 0) {
      await ask(index.load(made.lane, made.pid, made.firstOffset + 1));
      await ask(index.loadByTime(made.lane, made.pid, made.stampUs));
    }
    await ask(index.loadId(made.pid, made.ids[0][0], made.ids[0][1], 0));
  }
  await ask(index.load(0, 9, 0));
  await ask(index.load(0, 10, 100_000));
  await ask(index.loadByTime(0, 13, 9000));
  await ask(index.loadId(10, 3, 3, 0));
  await index.close();
  return answers;
}

test('a flipped bit anywhere in a sidecar is damage with a name, never another answer', async () => {
  const { disk, log, base, path } = await smallSidecar();
  const right = await interrogate(disk, log, base);
  assert.ok(right !== 'damage' && !right.includes('damage'));
  const { length } = disk.contents(path);
  const random = new SimulatedRandom(4);
  let damaged = 0;
  for (let position = 0; position < length; position += 1 + random.integer(120)) {
    const flipped = disk.copy();
    flipped.flip(path, position, random.integer(8));
    const answers = await interrogate(flipped, log, base);
    if (answers === 'damage') {
      damaged++;
      continue;
    }
    if (answers.includes('damage')) damaged++;
    for (const [i, answer] of answers.entries()) if (answer !== 'damage') assert.deepEqual(answer, right[i]);
  }
  assert.ok(damaged > length / 400, 'nearly all places were noticed');
});

test('a sidecar that was cut, lengthened, or has two pages exchanged is damaged', async () => {
  const { disk, log, base, path } = await smallSidecar();
  const whole = disk.contents(path);
  for (let length = 0; length < whole.length; length += 512) {
    const cut = disk.copy();
    cut.place(path, whole.subarray(0, length));
    assert.equal(await interrogate(cut, log, base), 'damage');
  }
  const longer = disk.copy();
  const padded = new Uint8Array(whole.length + 4096);
  padded.set(whole);
  longer.place(path, padded);
  assert.equal(await interrogate(longer, log, base), 'damage');
  const right = await interrogate(disk, log, base);
  for (let first = 0; first < whole.length; first += 4096) {
    const exchanged = disk.copy();
    const bytes = whole.slice();
    const second = (first + 4096) % whole.length;
    bytes.set(whole.subarray(second, second + 4096), first);
    bytes.set(whole.subarray(first, first + 4096), second);
    exchanged.place(path, bytes);
    const answers = await interrogate(exchanged, log, base);
    if (answers === 'damage') continue;
    assert.ok(answers.includes('damage'));
    for (const [i, answer] of answers.entries()) if (answer !== 'damage') assert.deepEqual(answer, right[i]);
  }
});

test('a sidecar under the name of another segment is damaged', async () => {
  const { disk, base, path } = await smallSidecar();
  const other = sidecarPath(base + 4096);
  disk.place(other, disk.contents(path));
  const index = new SegmentedIndex({ disk, checksum, scheduler: turns });
  const adoption = await index.adopt(base + 4096);
  assert.ok(!adoption.ok && adoption.reason === 'damaged');
  assert.match(adoption.damage.message, /was written for the segment at 0/);
});

test('a segment without blocks has a sidecar too', async () => {
  const log = new TestLog();
  const base = log.beginSegment();
  const disk = diskWithSegments();
  assert.deepEqual(await buildSidecar(disk, checksum, log.visit, base), { blocks: 0, ids: 0, bytes: 4096 });
  const index = new SegmentedIndex({ disk, checksum, scheduler: turns });
  assert.deepEqual(await index.adopt(base), { ok: true, blocks: 0, ids: 0 });
  assert.equal(await index.load(0, 1, 0), undefined);
  assert.equal(await index.loadByTime(0, 1, 0), undefined);
  assert.equal(index.mayHoldId(1, 1, 1, 0), false);
  assert.deepEqual(await listSidecars(disk), [base]);
});

test('every failing disk operation during adoption is passed on or leaves the index as it was', async () => {
  for (let failing = 1; ; failing++) {
    const { disk, log, base } = await smallSidecar();
    const index = new SegmentedIndex({ disk, checksum, scheduler: turns });
    disk.failOperation(failing);
    const adoption = await index.adopt(base).then(
      (result) => result.ok,
      (error: { code?: string }) => {
        assert.equal(error.code, 'EIO');
        return false;
      },
    );
    if (disk.failureIsPending) {
      assert.ok(adoption);
      return;
    }
    if (!adoption) assert.equal((await index.adopt(base)).ok, true);
    const [made] = log.blocks;
    assert.equal((await index.load(made.lane, made.pid, made.firstOffset))?.address, made.address);
    await index.close();
  }
});

test('a segment whose records do not add up is refused while its sidecar is built', async () => {
  const { disk, base } = await smallSidecar();
  const bytes = new Uint8Array(200);
  const view = new DataView(bytes.buffer);
  const header = { address: base + 64, length: 200, sequence: 1, stampUs: 1, digest: 0, epoch: 1, recordCount: 1 };
  for (const [length, count] of [
    [4, 1],
    [1000, 1],
    [60, 3],
    [60, 0],
    [20, 1],
  ]) {
    view.setUint32(64, length, true);
    view.setUint8(68, 1);
    view.setUint32(64 + 32, count, true);
    const visit = async (
      _base: number,
      each: (...args: [typeof header, Uint8Array, DataView, number, number]) => void,
    ) => each(header, bytes, view, 64, 200);
    await assert.rejects(buildSidecar(disk, checksum, visit, base), /assertion failed/);
  }
});

test('names of sidecars are read back, other names are not', () => {
  for (const base of [0, 1, 255, 2 ** 32, 2 ** 53 - 1]) assert.equal(sidecarBaseOf(sidecarPath(base).slice(9)), base);
  for (const name of ['0000000000000000.seg', '0000000000000000.idx.tmp', '00.idx', 'ffffffffffffffff.idx']) {
    assert.equal(sidecarBaseOf(name), undefined);
  }
});

test('rows sort by several columns as a stable comparison sort would', () => {
  const random = new SimulatedRandom(8);
  for (const count of [0, 1, 2, 1000]) {
    const minor = Uint32Array.from({ length: count }, () => random.integer(5) * 900_000_000);
    const major = Float64Array.from({ length: count }, () => random.integer(4) * 2 ** 31 + random.integer(3));
    const order = new RowOrder(count);
    order.sortBy(minor);
    order.sortByWide(major);
    const right = Array.from({ length: count }, (_, i) => i).sort(
      (a, b) => major[a] - major[b] || minor[a] - minor[b] || a - b,
    );
    assert.deepEqual([...order.rows], right);
  }
  assert.deepEqual([...sortedUnique(Uint32Array.from([5, 2 ** 32 - 1, 5, 0, 5, 0]))], [0, 5, 2 ** 32 - 1]);
});
