import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SoloLog } from '../../src/log/solo-log.ts';
import { SegmentedIndex } from '../../src/storage/index-segmented.ts';
import { readSegment } from '../../src/storage/log-reader.ts';
import { buildSidecar, buildSidecarOf } from '../../src/storage/sidecar-build.ts';
import { sidecarPath } from '../../src/storage/sidecar-format.ts';
import { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { blockLength, checksum, type PlacedBlock, turns, writeBlock } from './index-fixtures.ts';

test('the places that the index gives are those where the log keeps the blocks', async () => {
  const disk = new SimulatedDisk();
  const options = { segmentBytes: 20_000, slabBytes: 4096, tailBytes: 8192, coldBytes: 4096 };
  const log = await SoloLog.open({ disk, checksum, scheduler: turns, options });
  const index = new SegmentedIndex({ disk, checksum, scheduler: turns }, { keptRowBytes: 0 });
  index.beginSegment(log.segments()[0].base, true);
  log.onSegmentBegun = (base) => index.beginSegment(base, true);
  const sealed: { base: number; end: number }[] = [];
  log.onSegmentSealed = (base, end) => sealed.push({ base, end });

  const placed: PlacedBlock[] = [];
  let reached = 0;
  log.onDurable = (sequence) => {
    reached = sequence;
  };
  for (let i = 0; i < 600; i++) {
    const lane = i % 7;
    const ids = Array.from({ length: 1 + (i % 3) }, (_, k) => [i + 1, k + 1] as const);
    const length = blockLength(ids.length);
    log.draft.require(length);
    const { draft } = log;
    const address = draft.base + draft.position;
    const before = placed.filter((made) => made.lane === lane).pop();
    const firstOffset = before === undefined ? 0 : before.firstOffset + before.ids.length;
    const made = { lane, pid: lane + 1, firstOffset, stampUs: 1000 + i, ids, address, length, base: 0 };
    writeBlock(draft.bytes, draft.view, draft.position, made);
    index.addBlock(lane, draft.bytes, draft.view, draft.position, address);
    draft.position += length;
    placed.push(made);
    const sequence = log.seal({ stampUs: made.stampUs, digest: 0, recordCount: 1 });
    if (i % 50 === 49) while (reached < sequence) await new Promise<void>((resolve) => turns.soon(resolve));
  }
  assert.ok(sealed.length >= 3, 'the log has several segments');

  const check = async () => {
    for (const made of placed) {
      const found = await index.load(made.lane, made.pid, made.firstOffset);
      assert.deepEqual([found?.address, found?.length], [made.address, made.length]);
      await log.load(made.address, made.length);
      const resident = log.resident(made.address, made.length);
      assert.ok(resident);
      const right = new Uint8Array(made.length);
      writeBlock(right, new DataView(right.buffer), 0, made);
      assert.deepEqual(resident.bytes.slice(resident.at, resident.at + made.length), right);
      const [high, low] = made.ids[0];
      assert.equal((await index.loadId(made.pid, high, low, 0))?.offset, made.firstOffset);
    }
  };
  await check();
  for (const { base, end } of sealed) {
    const rows = index.rowsOf(base, end);
    assert.ok(rows);
    await buildSidecarOf(disk, checksum, rows);
    const ofRows = disk.contents(sidecarPath(base)).slice();
    await buildSidecar(disk, checksum, (start, visit) => readSegment(disk, checksum, start, visit), base);
    assert.deepEqual(ofRows, disk.contents(sidecarPath(base)), 'what the rows in memory say is what the segment says');
    assert.equal((await index.adopt(base)).ok, true);
  }
  assert.equal(index.stats().segmentsInMemory, 1);
  await check();
  await index.close();
  await log.close();
});
