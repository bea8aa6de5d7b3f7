import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  listSnapshots,
  openNewestSnapshot,
  type SnapshotChunk,
  SnapshotDamage,
  type SnapshotMeta,
  snapshotChunkBytesMax,
  writeSnapshot,
} from '../../src/storage/snapshot-file.ts';
import { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';
import { checksum } from './index-fixtures.ts';

function metaOf(sequence: number): SnapshotMeta {
  return { sequence, address: sequence * 1000, stampUs: 2 ** 50 + sequence, digest: 0xfedc_ba98, format: 3 };
}

function randomBytes(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  new SimulatedRandom(seed).fill(bytes);
  return bytes;
}

function smallChunks(seed: number): SnapshotChunk[] {
  return [
    { name: 'queues', bytes: randomBytes(100, seed) },
    { name: 'partitions', bytes: randomBytes(700, seed + 1) },
    { name: 'partitions', bytes: randomBytes(0, seed + 2) },
    { name: 'cursors', bytes: randomBytes(33, seed + 3) },
  ];
}

async function readAll(disk: SimulatedDisk): Promise<{ meta: SnapshotMeta; chunks: SnapshotChunk[] } | undefined> {
  const { snapshot } = await openNewestSnapshot(disk, checksum);
  if (snapshot === undefined) return undefined;
  const chunks: SnapshotChunk[] = [];
  for await (const { name, bytes } of snapshot.chunks()) chunks.push({ name, bytes: bytes.slice() });
  return { meta: snapshot.meta, chunks };
}

test('what was written is read back, chunk by chunk', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          name: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 64 }),
          length: fc.oneof(fc.nat(50), fc.nat(400_000)),
        }),
        { maxLength: 8 },
      ),
      fc.nat(2 ** 31 - 1),
      async (shapes, sequence) => {
        const disk = new SimulatedDisk();
        const chunks = shapes.map(({ name, length }, i) => ({ name, bytes: randomBytes(length, i) }));
        const written = await writeSnapshot(disk, checksum, metaOf(sequence), chunks);
        assert.equal(written.bytes, disk.contents(written.path).length);
        assert.deepEqual(await readAll(disk), { meta: metaOf(sequence), chunks });
      },
    ),
    { numRuns: 30 },
  );
});

test('chunks may come from a generator that uses its buffer again, and long ones are cut', async () => {
  const disk = new SimulatedDisk();
  const buffer = new Uint8Array(snapshotChunkBytesMax + 5);
  async function* chunks() {
    for (const value of [1, 2]) {
      buffer.fill(value);
      yield { name: 'big', bytes: buffer };
    }
  }
  await writeSnapshot(disk, checksum, metaOf(1), chunks());
  const read = await readAll(disk);
  assert.deepEqual(
    read?.chunks.map(({ name, bytes }) => [name, bytes.length, bytes[0], bytes[bytes.length - 1]]),
    [
      ['big', snapshotChunkBytesMax, 1, 1],
      ['big', 5, 1, 1],
      ['big', snapshotChunkBytesMax, 2, 2],
      ['big', 5, 2, 2],
    ],
  );
});

test('an empty folder, and none, hold no snapshot', async () => {
  assert.deepEqual(await openNewestSnapshot(new SimulatedDisk(), checksum), { snapshot: undefined, damaged: [] });
});

test('the newest two snapshots are kept, older ones and unfinished files go', async () => {
  const disk = new SimulatedDisk();
  disk.place('snapshots/00000000000000aa.tmp', randomBytes(10, 1));
  disk.place('snapshots/notes.txt', randomBytes(10, 1));
  for (const sequence of [5, 300, 20, 70_000]) {
    await writeSnapshot(disk, checksum, metaOf(sequence), smallChunks(sequence));
  }
  assert.deepEqual(await listSnapshots(disk), [70_000, 300]);
  assert.deepEqual(disk.paths(), [
    'snapshots/000000000000012c.snap',
    'snapshots/0000000000011170.snap',
    'snapshots/notes.txt',
  ]);
  assert.equal((await readAll(disk))?.meta.sequence, 70_000);
});

test('a snapshot cut anywhere is reported, and the older one is taken', async () => {
  const disk = new SimulatedDisk();
  await writeSnapshot(disk, checksum, metaOf(1), smallChunks(1));
  const { path } = await writeSnapshot(disk, checksum, metaOf(2), smallChunks(2));
  const whole = disk.contents(path);
  for (let length = 0; length < whole.length; length++) {
    disk.place(path, whole.subarray(0, length));
    const { snapshot, damaged } = await openNewestSnapshot(disk, checksum);
    assert.equal(snapshot?.meta.sequence, 1);
    assert.equal(damaged.length, 1);
    assert.equal(damaged[0].path, path);
  }
  const longer = new Uint8Array(whole.length + 1);
  longer.set(whole);
  disk.place(path, longer);
  assert.equal((await openNewestSnapshot(disk, checksum)).snapshot?.meta.sequence, 1);
});

test('a bit flipped anywhere in a snapshot is reported, and the older one is taken', async () => {
  const disk = new SimulatedDisk();
  await writeSnapshot(disk, checksum, metaOf(1), smallChunks(1));
  const { path } = await writeSnapshot(disk, checksum, metaOf(2), smallChunks(2));
  const whole = disk.contents(path);
  for (let position = 0; position < whole.length; position++) {
    const flipped = whole.slice();
    flipped[position] ^= 1 << (position % 8);
    disk.place(path, flipped);
    const { snapshot, damaged } = await openNewestSnapshot(disk, checksum);
    assert.equal(snapshot?.meta.sequence, 1, `a flip at byte ${position} was believed`);
    assert.equal(damaged.length, 1);
  }
});

test('chunks of another snapshot are not taken for its own', async () => {
  const disk = new SimulatedDisk();
  const first = await writeSnapshot(disk, checksum, metaOf(1), smallChunks(1));
  const second = await writeSnapshot(disk, checksum, metaOf(2), smallChunks(2));
  const mixed = disk.contents(second.path);
  mixed.set(disk.contents(first.path).subarray(64), 64);
  disk.place(second.path, mixed);
  assert.equal((await readAll(disk))?.meta.sequence, 1);
  disk.place(second.path, disk.contents(first.path));
  const { snapshot, damaged } = await openNewestSnapshot(disk, checksum);
  assert.equal(snapshot?.meta.sequence, 1);
  assert.match(damaged[0].message, /its header says sequence 1/);
});

test('when every snapshot is damaged the broker is told so, with the newest by name', async () => {
  const disk = new SimulatedDisk();
  for (const sequence of [1, 2]) {
    const { path } = await writeSnapshot(disk, checksum, metaOf(sequence), smallChunks(sequence));
    disk.flip(path, 80);
  }
  await assert.rejects(openNewestSnapshot(disk, checksum), (error) => {
    assert.ok(error instanceof SnapshotDamage);
    assert.equal(error.code, 'ESNAPSHOTDAMAGE');
    assert.match(error.message, /0000000000000002\.snap is damaged: .*; no older one is whole/);
    return true;
  });
});

test('damage that appears between finding and reading is an error, not a chunk', async () => {
  const disk = new SimulatedDisk();
  const { path } = await writeSnapshot(disk, checksum, metaOf(1), smallChunks(1));
  const { snapshot } = await openNewestSnapshot(disk, checksum);
  disk.flip(path, 64 + 48 + 6 + 50);
  await assert.rejects(async () => {
    for await (const { name } of snapshot!.chunks()) assert.fail(`chunk of ${name}`);
  }, SnapshotDamage);
});

test('a failure or a power cut at any disk operation leaves an older snapshot or the new one', async () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    for (let failing = 1; ; failing++) {
      const disk = new SimulatedDisk({ seed });
      await writeSnapshot(disk, checksum, metaOf(1), smallChunks(1));
      await writeSnapshot(disk, checksum, metaOf(2), smallChunks(2));
      disk.failOperation(failing);
      const failed = await writeSnapshot(disk, checksum, metaOf(3), smallChunks(3)).then(
        () => false,
        (error: { code?: string }) => {
          assert.equal(error.code, 'EIO');
          return true;
        },
      );
      const untouched = disk.failureIsPending;
      disk.crash();
      const read = await readAll(disk);
      const sequence = read?.meta.sequence;
      assert.ok(sequence === 3 || (failed && sequence === 2), `${sequence} after operation ${failing} failed`);
      assert.deepEqual(read?.chunks, smallChunks(sequence));
      // What is left over does not get in the way of the next one.
      await writeSnapshot(disk, checksum, metaOf(4), smallChunks(4));
      assert.equal((await readAll(disk))?.meta.sequence, 4);
      assert.equal((await listSnapshots(disk)).length, 2);
      if (untouched) break;
    }
  }
});

test('an error of the source ends the writing and is passed on', async () => {
  const disk = new SimulatedDisk();
  function* chunks() {
    yield { name: 'queues', bytes: randomBytes(10, 1) };
    throw new Error('the state cannot be read');
  }
  await assert.rejects(writeSnapshot(disk, checksum, metaOf(1), chunks()), /the state cannot be read/);
  assert.equal(await readAll(disk), undefined);
});

test('a section name that could not be read back is refused', async () => {
  for (const name of ['', 'x'.repeat(65), 'größe', 'a\nb']) {
    const chunks = [{ name, bytes: new Uint8Array(0) }];
    await assert.rejects(writeSnapshot(new SimulatedDisk(), checksum, metaOf(1), chunks), RangeError);
  }
});
