import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { IdTable } from '../../src/storage/index-ids.ts';
import { type IndexOptions, SegmentedIndex } from '../../src/storage/index-segmented.ts';
import {
  buildSidecar,
  buildSidecarOf,
  listSidecars,
  removeUnfinishedSidecars,
} from '../../src/storage/sidecar-build.ts';
import { SidecarDamage, sidecarPath, sidecarTemporaryPath } from '../../src/storage/sidecar-format.ts';
import type { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';
import { checksum, diskWithSegments, type PlacedBlock, TestLog, turns, writeBlock } from './index-fixtures.ts';

const bytes = new Uint8Array(1 << 16);
const view = new DataView(bytes.buffer);

/** The index and, beside it, the plain list of everything that was added. */
class World {
  readonly disk: SimulatedDisk;
  readonly log = new TestLog();
  index: SegmentedIndex;
  /** Per lane: the partition that has it and its next offset. */
  readonly lanes = new Map<number, { pid: number; nextOffset: number }>();
  readonly adopted = new Set<number>();
  /** Bases of the segments whose rows must be in memory, in order. */
  memory: number[] = [];
  /** Bases of the segments that were not read again at a restart. */
  private readonly whole = new Set<number>();
  private nextPid: number;
  private stampUs = 1_000_000;
  private readonly options: IndexOptions;

  /** @param keptRowBytes 0, or so many that only the number of segments limits what is kept. */
  constructor(firstPid = 1, keptRowBytes = 0) {
    this.nextPid = firstPid;
    this.options = { keptRowBytes, indexCacheBytes: 8192, rememberedBlocksMax: 128, openSidecarsMax: 2 };
    this.disk = diskWithSegments();
    this.index = new SegmentedIndex({ disk: this.disk, checksum, scheduler: turns }, this.options);
    this.rotate();
  }

  rotate(): void {
    const base = this.log.beginSegment();
    this.index.beginSegment(base, true);
    this.whole.add(base);
    this.memory.push(base);
    this.release();
  }

  push(lane: number, ids: (readonly [number, number])[]): PlacedBlock {
    let owner = this.lanes.get(lane);
    if (owner === undefined) {
      owner = { pid: this.nextPid++, nextOffset: 0 };
      this.lanes.set(lane, owner);
    }
    const placed = this.log.append({
      lane,
      pid: owner.pid,
      firstOffset: owner.nextOffset,
      stampUs: ++this.stampUs,
      ids,
    });
    owner.nextOffset += ids.length;
    writeBlock(bytes, view, 24, placed);
    this.index.addBlock(lane, bytes, view, 24, placed.address);
    return placed;
  }

  delete(lane: number): void {
    this.lanes.delete(lane);
    this.index.forgetLane(lane);
  }

  async adopt(base: number): Promise<void> {
    await buildSidecar(this.disk, checksum, this.log.visit, base);
    await this.checkRowsOf(base);
    const adoption = await this.index.adopt(base);
    assert.equal(adoption.ok, true);
    this.adopted.add(base);
    this.release();
  }

  /** The sidecar is the same byte for byte, whether it is made of the segment or of the rows in memory. */
  private async checkRowsOf(base: number): Promise<void> {
    const rows = this.index.rowsOf(base, this.log.endOf(base));
    assert.equal(rows !== null, this.whole.has(base) && this.memory.includes(base));
    if (rows === null) return;
    const read = this.disk.contents(sidecarPath(base)).slice();
    await buildSidecarOf(this.disk, checksum, rows);
    assert.deepEqual(this.disk.contents(sidecarPath(base)), read);
  }

  private release(): void {
    const kept = this.options.keptRowBytes === 0 ? 0 : 8;
    while (this.memory.length - 1 > kept && this.adopted.has(this.memory[0])) this.memory.shift();
  }

  /** A restart: a new index that uses the sidecars there are and reads the rest of the log again. */
  async restart(): Promise<void> {
    this.whole.clear();
    await this.index.close();
    this.index = new SegmentedIndex({ disk: this.disk, checksum, scheduler: turns }, this.options);
    for (const base of this.log.bases.slice(0, -1)) {
      if (this.adopted.has(base)) assert.equal((await this.index.adopt(base)).ok, true);
    }
    this.memory = this.log.bases.filter((base) => !this.adopted.has(base));
    for (const base of this.memory) {
      this.index.beginSegment(base, false);
      for (const made of this.log.blocks.filter((candidate) => candidate.base === base)) {
        if (this.lanes.get(made.lane)?.pid !== made.pid) continue;
        writeBlock(bytes, view, 8, made);
        this.index.addBlock(made.lane, bytes, view, 8, made.address);
      }
    }
  }

  private hasNewerSidecar(base: number): boolean {
    return [...this.adopted].some((adopted) => adopted > base && !this.memory.includes(adopted));
  }

  blocksOf(pid: number): PlacedBlock[] {
    return this.log.blocks.filter((made) => made.pid === pid);
  }

  async checkOffset(lane: number, pid: number, offset: number): Promise<void> {
    const right = this.blocksOf(pid).find((b) => b.firstOffset <= offset && offset < b.firstOffset + b.ids.length);
    const before = this.index.find(lane, pid, offset);
    if (before !== undefined) assert.deepEqual(placeOf(before), placeOf(right));
    if (right !== undefined && this.memory.includes(right.base)) assert.ok(before, 'blocks in memory are found');
    assert.deepEqual(placeOf(await this.index.load(lane, pid, offset)), placeOf(right));
    assert.deepEqual(placeOf(this.index.find(lane, pid, offset)), placeOf(right));
  }

  async checkTime(lane: number, pid: number, stampUs: number): Promise<void> {
    const right = this.blocksOf(pid).find((b) => b.stampUs >= stampUs);
    assert.deepEqual(placeOf(await this.index.loadByTime(lane, pid, stampUs)), placeOf(right));
  }

  async checkId(pid: number, id: readonly [number, number], sinceUs: number): Promise<void> {
    let right: { offset: number; stampUs: number; index: number } | undefined;
    let isInMemory = false;
    for (const made of this.blocksOf(pid)) {
      if (made.stampUs < sinceUs) continue;
      made.ids.forEach(([high, low], i) => {
        if (high !== id[0] || low !== id[1]) return;
        right = { offset: made.firstOffset + i, stampUs: made.stampUs, index: i };
        // A newer record may be behind a segment that a restart took into memory for want of its sidecar.
        isInMemory = this.memory.includes(made.base) && !this.hasNewerSidecar(made.base);
      });
    }
    const found = this.index.findId(pid, id[0], id[1], sinceUs);
    if (isInMemory || found !== undefined) assert.deepEqual(found && { ...found }, right);
    else if (right !== undefined) assert.equal(this.index.mayHoldId(pid, id[0], id[1], sinceUs), true);
    assert.deepEqual(await this.index.loadId(pid, id[0], id[1], sinceUs), right);
  }
}

function placeOf(found: { address: number; length: number; firstOffset: number; stampUs: number } | undefined) {
  return found && [found.address, found.length, found.firstOffset, found.stampUs];
}

const idArbitrary = fc.oneof(
  fc.constant([0, 0] as const),
  fc.tuple(fc.constantFrom(0, 7, 0xffff_ffff), fc.constantFrom(1, 2, 0x8000_0000)),
);

const stepArbitrary = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('push' as const),
      lane: fc.nat(4),
      ids: fc.array(idArbitrary, { minLength: 1, maxLength: 4 }),
      times: fc.integer({ min: 1, max: 40 }),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: 'rotate' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('adopt' as const), which: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), lane: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), lane: fc.nat(4), share: fc.nat(100) }) },
);

test('the index answers as a plain list does, whatever is in memory and whatever in sidecars', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(stepArbitrary, { minLength: 5, maxLength: 60 }),
      fc.constantFrom(1, 2 ** 32 - 2, 2 ** 45),
      fc.constantFrom(0, 2 ** 30),
      async (steps, firstPid, keptRowBytes) => {
        const world = new World(firstPid, keptRowBytes);
        for (const step of steps) {
          if (step.kind === 'push') for (let i = 0; i < step.times; i++) world.push(step.lane, step.ids);
          else if (step.kind === 'rotate') world.rotate();
          else if (step.kind === 'delete') world.delete(step.lane);
          else if (step.kind === 'restart') await world.restart();
          else if (step.kind === 'adopt') {
            // Also out of order, and also again.
            const sealed = world.log.bases.slice(0, -1);
            if (sealed.length > 0) await world.adopt(sealed[step.which % sealed.length]);
          } else {
            const owner = world.lanes.get(step.lane);
            const pid = owner?.pid ?? 999;
            const offset = Math.floor(((owner?.nextOffset ?? 1) * step.share) / 100);
            await world.checkOffset(step.lane, pid, offset);
            await world.checkTime(step.lane, pid, 1_000_000 + step.share);
            await world.checkId(pid, [7, 2], 1_000_000 + step.share);
          }
        }
        for (const [lane, { pid, nextOffset }] of world.lanes) {
          const stride = Math.max(1, Math.floor(nextOffset / 12));
          for (let offset = 0; offset <= nextOffset + 1; offset += stride) await world.checkOffset(lane, pid, offset);
          for (const sinceUs of [0, 1_000_020, 1_000_100, 2_000_000]) {
            await world.checkTime(lane, pid, sinceUs);
            await world.checkId(pid, [7, 2], sinceUs);
            await world.checkId(pid, [0xffff_ffff, 0x8000_0000], sinceUs);
          }
        }
        await world.index.close();
      },
    ),
    { numRuns: 120 },
  );
});

test('of two records with one id the newer is found when only the older one is in memory after a restart', async () => {
  const world = new World();
  world.push(0, [[7, 2]]);
  world.rotate();
  const newer = world.push(0, [
    [0, 0],
    [7, 2],
  ]);
  world.rotate();
  world.push(0, [[1, 1]]);
  await world.adopt(world.log.bases[1]);
  await world.restart();
  const right = { offset: 2, stampUs: newer.stampUs, index: 1 };
  assert.equal(world.index.findId(1, 7, 2, 0), undefined);
  assert.equal(world.index.mayHoldId(1, 7, 2, 0), true);
  assert.deepEqual(await world.index.loadId(1, 7, 2, 0), right);
  assert.equal(await world.index.loadId(1, 7, 2, newer.stampUs + 1), undefined);
  await world.checkId(1, [1, 1], 0);
  await world.index.close();
});

/** 40,000 blocks: several pages of rows, of sidecar rows and of fences. */
async function largeWorld(): Promise<World> {
  const random = new SimulatedRandom(5);
  const world = new World();
  for (let segment = 0; segment < 5; segment++) {
    if (segment > 0) world.rotate();
    for (let i = 0; i < 8000; i++) {
      // One lane with half of all blocks, some with a fair share, and a long tail.
      const kind = random.integer(4);
      const lane = kind < 2 ? 0 : kind === 2 ? 1 + random.integer(20) : 21 + random.integer(3000);
      world.push(lane, [[random.integer(2 ** 32), 1 + random.integer(1000)]]);
    }
  }
  return world;
}

test('long lanes and many lanes are found through many pages of rows and of sidecars', async () => {
  const world = await largeWorld();
  const random = new SimulatedRandom(6);
  const byPid = new Map<number, PlacedBlock[]>();
  for (const made of world.log.blocks) {
    const list = byPid.get(made.pid);
    if (list === undefined) byPid.set(made.pid, [made]);
    else list.push(made);
  }
  const check = async (samples: number) => {
    for (let i = 0; i < samples; i++) {
      const made = world.log.blocks[random.integer(world.log.blocks.length)];
      const found = await world.index.load(made.lane, made.pid, made.firstOffset);
      assert.deepEqual(placeOf(found), placeOf(made));
      const lane = byPid.get(made.pid)!;
      const stampUs = made.stampUs - random.integer(3);
      const right = lane.find((candidate) => candidate.stampUs >= stampUs);
      assert.deepEqual(placeOf(await world.index.loadByTime(made.lane, made.pid, stampUs)), placeOf(right));
      const [high, low] = made.ids[0];
      const id = await world.index.loadId(made.pid, high, low, made.stampUs);
      assert.deepEqual(id, { offset: made.firstOffset, stampUs: made.stampUs, index: 0 });
      assert.equal(await world.index.loadId(made.pid, high, low, made.stampUs + 1), undefined);
      assert.equal(await world.index.load(made.lane, made.pid, lane.length), undefined);
      assert.equal(await world.index.load(made.lane, made.pid + 100_000, 0), undefined);
    }
  };
  await check(300);
  const before = world.index.stats();
  assert.equal(before.blocksInMemory, 40_000);
  assert.equal(before.idsInMemory, 40_000);
  for (const base of world.log.bases.slice(0, -1)) {
    const { generation } = world.index;
    await world.adopt(base);
    assert.ok(world.index.generation > generation, 'a negative filter answer is void after an adoption');
    await check(100);
  }
  const after = world.index.stats();
  assert.equal(after.blocksInMemory, 8000);
  assert.equal(after.idsInMemory, 8000);
  assert.equal(after.sidecars, 4);
  assert.ok(after.openFiles <= 2);
  assert.ok(after.cachedBytes <= 8192);
  await world.index.close();
});

test('a block that was loaded stays known while others are loaded, up to the limit', async () => {
  const world = new World();
  for (let lane = 0; lane < 20; lane++) world.push(lane, [[0, 0]]);
  const [base] = world.log.bases;
  world.rotate();
  await world.adopt(base);
  for (let lane = 0; lane < 20; lane++) assert.equal(world.index.find(lane, lane + 1, 0), undefined);
  await Promise.all(Array.from({ length: 20 }, (_, lane) => world.index.load(lane, lane + 1, 0)));
  for (let lane = 0; lane < 20; lane++) assert.ok(world.index.find(lane, lane + 1, 0));
  await world.index.close();
});

test('no more blocks are remembered than the limit allows', async () => {
  const world = new World();
  for (let i = 0; i < 500; i++) world.push(0, [[0, 0]]);
  for (let lane = 1; lane < 300; lane++) world.push(lane, [[0, 0]]);
  const [base] = world.log.bases;
  world.rotate();
  await world.adopt(base);
  for (let i = 0; i < 500; i++) {
    // From both ends, so that neither half is always the one to forget.
    const offset = i % 2 === 0 ? i : 499 - i;
    assert.equal((await world.index.load(0, 1, offset))?.firstOffset, offset);
    assert.equal(world.index.find(0, 1, offset)?.firstOffset, offset, 'what was just loaded is known');
    assert.ok(world.index.stats().rememberedBlocks <= 128);
  }
  for (let lane = 1; lane < 300; lane++) {
    assert.ok(await world.index.load(lane, lane + 1, 0));
    assert.ok(world.index.stats().rememberedBlocks <= 128);
  }
  await world.index.close();
});

test('a missing sidecar is a result that changes nothing', async () => {
  const world = new World();
  world.push(3, [[1, 1]]);
  const [base] = world.log.bases;
  world.rotate();
  assert.deepEqual(await world.index.adopt(base), { ok: false, reason: 'missing' });
  await world.checkOffset(3, 1, 0);
  await world.checkId(1, [1, 1], 0);
});

test('a sidecar that was damaged under a running index is reported, rebuilt and taken into use again', async () => {
  const world = await largeWorld();
  const [base] = world.log.bases;
  // The others push the first one out of the two files that are held open.
  for (const sealed of world.log.bases.slice(0, -1)) await world.adopt(sealed);
  const path = sidecarPath(base);
  for (let position = 4096; position < 40_960; position += 4096) world.disk.flip(path, position + 17);
  const blocks = world.log.blocks.filter((made) => made.base === base);
  let reported = 0;
  for (const made of blocks.slice(0, 400)) {
    try {
      assert.deepEqual(placeOf(await world.index.load(made.lane, made.pid, made.firstOffset)), placeOf(made));
    } catch (error) {
      assert.ok(error instanceof SidecarDamage);
      assert.equal(error.base, base);
      reported++;
    }
  }
  assert.ok(reported > 0);
  await world.adopt(base);
  for (const made of blocks.slice(0, 400)) {
    assert.deepEqual(placeOf(await world.index.load(made.lane, made.pid, made.firstOffset)), placeOf(made));
  }
  assert.equal(world.index.stats().sidecars, 4);
  await world.index.close();
});

test('questions under way while their sidecar is replaced are answered all the same', async () => {
  const world = await largeWorld();
  const [base] = world.log.bases;
  await world.adopt(base);
  const blocks = world.log.blocks.filter((made) => made.base === base).slice(0, 200);
  // `load` looks into memory first: nothing of the segment may be there.
  assert.equal(world.index.find(blocks[0].lane, blocks[0].pid, 0), undefined);
  const answers = blocks.map((made) => world.index.load(made.lane, made.pid, made.firstOffset));
  const ids = blocks.map((made) => world.index.loadId(made.pid, made.ids[0][0], made.ids[0][1], 0));
  const again = [world.index.adopt(base), world.index.adopt(base)];
  const places = (await Promise.all(answers)).map(placeOf);
  assert.deepEqual(places, blocks.map(placeOf));
  for (const [i, found] of (await Promise.all(ids)).entries()) assert.equal(found?.stampUs, blocks[i].stampUs);
  await Promise.all(again);
  await world.index.close();
});

test('a dropped segment keeps its ids until they expire, then its sidecar is removed', async () => {
  const world = new World();
  const placed = world.push(0, [[5, 5]]);
  const [base] = world.log.bases;
  world.rotate();
  const second = world.push(0, [[6, 6]]);
  world.rotate();
  await world.adopt(base);
  await world.adopt(world.log.bases[1]);

  const underWay = world.index.load(0, 1, 0);
  await world.index.drop(base);
  const early = await underWay;
  assert.ok(early === undefined || early.address === placed.address);
  assert.equal(world.index.find(0, 1, 0), undefined);
  assert.equal(await world.index.load(0, 1, 0), undefined);
  assert.deepEqual(placeOf(await world.index.load(0, 1, 1)), placeOf(second));
  assert.deepEqual(await world.index.loadId(1, 5, 5, 0), { offset: 0, stampUs: placed.stampUs, index: 0 });
  assert.deepEqual(await listSidecars(world.disk), world.log.bases.slice(0, 2));

  await world.index.expireIds(placed.stampUs);
  assert.equal(world.index.mayHoldId(1, 5, 5, 0), true, 'ids as young as the bound stay');
  await world.index.expireIds(placed.stampUs + 1);
  assert.equal(world.index.mayHoldId(1, 5, 5, 0), false);
  assert.equal(await world.index.loadId(1, 5, 5, 0), undefined);
  assert.deepEqual(await world.index.loadId(1, 6, 6, 0), { offset: 1, stampUs: second.stampUs, index: 0 });
  assert.deepEqual(await listSidecars(world.disk), [world.log.bases[1]]);
  await world.index.close();
});

test('rows whose sidecars are in use stay while there is room, and the oldest leave first', async () => {
  const idBytes = new IdTable({ pidOfOrdinal: () => 0 }).bytes;
  // Room for the rows of two segments: a row is 48 bytes.
  const world = new World(1, 2 * (idBytes + 48));
  for (let i = 0; i < 4; i++) {
    world.push(0, [[i, i + 1]]);
    world.rotate();
  }
  for (const base of world.log.bases.slice(0, -1)) assert.equal((await adoptAt(world, base)).ok, true);
  const kept = world.log.bases.filter((base) => world.index.isInMemory(base));
  assert.deepEqual(kept, world.log.bases.slice(-3), 'two, and the one that is written');
  for (const offset of [0, 1]) {
    assert.equal(world.index.find(0, 1, offset), undefined);
    assert.equal(world.index.findId(1, offset, offset + 1, 0), undefined);
  }
  for (const offset of [2, 3]) {
    assert.equal(world.index.find(0, 1, offset)?.firstOffset, offset);
    assert.equal(world.index.findId(1, offset, offset + 1, 0)?.offset, offset);
  }
  // One more table waits for the next segment.
  assert.ok(world.index.stats().idBytes + world.index.stats().blocksInMemory * 48 <= 3 * (idBytes + 48) + idBytes);
  await world.index.close();
});

test('a segment with copies of older blocks is read for its sidecar, and so is one whose rows are not there', async () => {
  const world = new World();
  const copied = world.push(0, [[1, 1]]);
  const [first] = world.log.bases;
  world.rotate();
  const second = world.log.bases[1];
  world.push(1, [[2, 2]]);
  writeBlock(bytes, view, 24, copied);
  world.index.addRelocated(bytes, view, 24, world.log.tail + 100);
  world.rotate();
  assert.equal(world.index.rowsOf(first, second)?.blockCount, 1);
  assert.equal(world.index.rowsOf(second, world.log.bases[2]), null);
  await buildSidecar(world.disk, checksum, world.log.visit, first);
  assert.equal((await world.index.adopt(first)).ok, true);
  assert.equal(world.index.isInMemory(first), false);
  assert.equal(world.index.rowsOf(first, second), null);
  await world.index.close();
});

test('the id tables of segments that have left serve those that begin: the collector does not count shared memory', async () => {
  const world = new World();
  const buffers = new Set<SharedArrayBuffer>();
  let parts = 0;
  for (let i = 0; i < 20; i++) {
    world.push(0, [[i, i + 1]]);
    const base = world.log.bases[i];
    world.rotate();
    const rows = world.index.rowsOf(base, world.log.endOf(base));
    assert.ok(rows);
    parts = rows.idParts.length;
    for (const part of rows.idParts) buffers.add(part);
    await world.adopt(base);
  }
  assert.ok(buffers.size <= 3 * parts, `${buffers.size / parts} tables`);
  for (let i = 0; i < 20; i++) await world.checkId(1, [i, i + 1], 0);
  await world.index.close();
});

test('rows that are kept are no obstacle to dropping their segment; rows that are needed are', async () => {
  const world = new World(1, 2 ** 30);
  const placed: PlacedBlock[] = [];
  for (let i = 0; i < 3; i++) {
    placed.push(world.push(0, [[i, i + 1]]));
    world.rotate();
  }
  const [first, second] = world.log.bases;
  const isShown = (base: number) =>
    world.index.visitBlocks(
      base,
      () => undefined,
      async () => undefined,
    );
  await adoptAt(world, second);
  assert.equal(await isShown(second), false, 'the rows before it are needed, and leave first');
  await adoptAt(world, first);
  assert.equal(await isShown(second), true);
  assert.ok(world.index.isInMemory(first) && world.index.isInMemory(second));
  await world.index.drop(second);
  assert.equal(world.index.isInMemory(second), false);
  assert.equal(await world.index.load(0, 1, 1), undefined);
  assert.deepEqual(await world.index.loadId(1, 1, 2, 0), { offset: 1, stampUs: placed[1].stampUs, index: 0 });
  assert.deepEqual(placeOf(await world.index.load(0, 1, 0)), placeOf(placed[0]));
  assert.deepEqual(placeOf(world.index.find(0, 1, 2)), placeOf(placed[2]));
  await world.index.close();
});

async function adoptAt(world: World, base: number) {
  await buildSidecar(world.disk, checksum, world.log.visit, base);
  return world.index.adopt(base);
}

test('a sidecar of a segment that is gone serves its ids only', async () => {
  const world = new World();
  const placed = world.push(0, [[5, 5]]);
  const [base] = world.log.bases;
  await buildSidecar(world.disk, checksum, world.log.visit, base);
  const index = new SegmentedIndex({ disk: world.disk, checksum, scheduler: turns });
  assert.deepEqual(await index.adopt(base, 'ids'), { ok: true, blocks: 1, ids: 1 });
  assert.equal(await index.load(0, 1, 0), undefined);
  assert.deepEqual(await index.loadId(1, 5, 5, 0), { offset: 0, stampUs: placed.stampUs, index: 0 });
  await index.close();
});

test('blocks and ids in memory cost what is promised', async () => {
  const world = new World();
  const random = new SimulatedRandom(9);
  for (let i = 0; i < 30_000; i++) {
    world.push(
      i % 1000,
      Array.from({ length: 10 }, () => [random.integer(2 ** 32), random.integer(2 ** 32)] as const),
    );
  }
  const { blockBytes, blocksInMemory, idBytes, idsInMemory } = world.index.stats();
  assert.equal(idsInMemory, 300_000);
  assert.ok(blockBytes / blocksInMemory <= 56, `${blockBytes / blocksInMemory} bytes per block`);
  assert.ok(idBytes / idsInMemory <= 24, `${idBytes / idsInMemory} bytes per id in memory`);
  const [base] = world.log.bases;
  world.rotate();
  await world.adopt(base);
  const { sidecarBytes } = world.index.stats();
  // The runs of both directories begin with 256 KiB, which count little when there are many ids.
  assert.ok((sidecarBytes - 2 * 262_148) / 300_000 <= 4, `${sidecarBytes / 300_000} bytes per id in sidecars`);
  await world.index.close();
});

test('what a crash leaves of a sidecar is an older one, none, or the new one', async () => {
  for (let stopAt = 1; ; stopAt++) {
    const world = new World();
    world.push(0, [[5, 5]]);
    const [base] = world.log.bases;
    world.disk.failOperation(stopAt);
    const failed = await buildSidecar(world.disk, checksum, world.log.visit, base).then(
      () => false,
      () => true,
    );
    world.disk.crash();
    await removeUnfinishedSidecars(world.disk);
    assert.ok(!world.disk.paths().includes(sidecarTemporaryPath(base)));
    world.rotate();
    const adoption = await world.index.adopt(base);
    if (!failed) {
      assert.equal(adoption.ok, true);
      return;
    }
    if (!adoption.ok) assert.equal(adoption.reason, 'missing');
    await world.index.close();
  }
});

test('an option that makes no sense is refused by name', () => {
  const host = { disk: diskWithSegments(), checksum, scheduler: turns };
  assert.throws(() => new SegmentedIndex(host, { openSidecarsMax: 0 }), /openSidecarsMax is 0/);
});

test('a closed index opens no files and changes nothing, and what it was reading ends', async () => {
  const world = new World();
  for (let i = 0; i < 50; i++) world.push(1, [[1, i + 1]]);
  world.rotate();
  await world.adopt(world.log.bases[0]);
  world.rotate();
  const { disk, index } = world;
  const reading = index.load(1, 1, 7);
  await index.close();
  assert.equal((await reading)?.firstOffset, 7, 'a question that was under way is answered');
  assert.equal(index.stats().openFiles, 0);
  await index.close();
  await assert.rejects(index.loadId(1, 1, 3, 0), /the index is closed/);
  await assert.rejects(index.adopt(world.log.bases[0]), /the index is closed/);
  await assert.rejects(index.expireIds(Number.MAX_SAFE_INTEGER), /the index is closed/);
  assert.deepEqual(await listSidecars(disk), [world.log.bases[0]], 'the file is left to whoever opens the folder next');
  assert.equal(index.stats().openFiles, 0);
});
