import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SimulatedDisk } from './simulated-disk.ts';
import { SimulatedRandom } from './simulated-random.ts';
import { SimulatedScheduler } from './simulated-scheduler.ts';

const hasCode = (code: string) => (error: NodeJS.ErrnoException) => error.code === code;

/** One file of three sectors, durable, all bytes 1. */
async function diskWithFile(seed: number) {
  const disk = new SimulatedDisk({ seed });
  await disk.makeFolder('f');
  const file = await disk.open('f/a', 'create');
  await file.write(new Uint8Array(1536).fill(1), 0);
  await file.sync();
  await disk.syncFolder('f');
  return { disk, file };
}

test('what was synced survives every crash', async () => {
  for (let seed = 1; seed <= 50; seed++) {
    const { disk } = await diskWithFile(seed);
    disk.crash();
    assert.deepEqual(disk.contents('f/a'), new Uint8Array(1536).fill(1));
  }
});

test('a durable write survives every crash after it, and no more than a part of one that a crash meets', async () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 50; seed++) {
    const { disk } = await diskWithFile(seed);
    const file = await disk.open('f/a', 'write', 'durable');
    await file.write(new Uint8Array(512).fill(2), 0);
    const onItsWay = file.write(new Uint8Array(1024).fill(3), 512);
    disk.crash();
    await assert.rejects(onItsWay, hasCode('EIO'));
    const bytes = disk.contents('f/a');
    assert.ok(bytes.subarray(0, 512).every((byte) => byte === 2));
    outcomes.add(`${bytes[512]} ${bytes[1024]}`);
  }
  assert.deepEqual([...outcomes].sort(), ['1 1', '1 3', '3 1', '3 3']);
});

test('what was not synced may be lost, kept, reordered by sector or torn', async () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 300; seed++) {
    const { disk, file } = await diskWithFile(seed);
    await file.write(new Uint8Array(1536).fill(2), 0);
    disk.crash();
    const bytes = disk.contents('f/a');
    const sectors = [0, 1, 2].map((i) => {
      const part = bytes.subarray(i * 512, i * 512 + 512);
      if (part.every((byte) => byte === 1)) return 'old';
      return part.every((byte) => byte === 2) ? 'new' : 'torn';
    });
    outcomes.add(sectors.join(' '));
  }
  for (const outcome of ['old old old', 'new new new', 'old new old', 'new old new', 'old old new']) {
    assert.ok(outcomes.has(outcome), outcome);
  }
  assert.ok([...outcomes].some((outcome) => outcome.includes('torn')));
});

test('names that were not synced survive in order', async () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 100; seed++) {
    const { disk } = await diskWithFile(seed);
    await disk.open('f/b', 'create');
    await disk.rename('f/a', 'f/c');
    disk.crash();
    outcomes.add(disk.paths().join(' '));
  }
  assert.deepEqual([...outcomes].sort(), ['f/a', 'f/a f/b', 'f/b f/c']);
});

test('after a failed sync a later one makes only those bytes durable that were written again', async () => {
  const outcomes = new Set<number>();
  for (let seed = 1; seed <= 60; seed++) {
    const { disk, file } = await diskWithFile(seed);
    await file.write(new Uint8Array(1024).fill(2), 0);
    disk.failOperation(1);
    await assert.rejects(file.sync(), hasCode('EIO'));
    await file.write(new Uint8Array(512).fill(2), 512);
    await file.sync();
    assert.equal(disk.contents('f/a')[0], 2, 'it is still read');
    disk.crash();
    const bytes = disk.contents('f/a');
    outcomes.add(bytes[0]);
    assert.ok(bytes.subarray(512, 1024).every((byte) => byte === 2));
  }
  assert.deepEqual([...outcomes].sort(), [1, 2]);
});

test('after a crash handles, the lock and operations on their way are dead; after a kill written bytes remain', async () => {
  const scheduler = new SimulatedScheduler();
  const disk = new SimulatedDisk({ scheduler });
  await scheduler.runUntil(disk.lock());
  await assert.rejects(scheduler.runUntil(disk.lock()), hasCode('EDATALOCKED'));
  const file = await scheduler.runUntil(disk.open('a', 'create'));
  const write = file.write(new Uint8Array([7]), 0);
  disk.kill();
  await assert.rejects(scheduler.runUntil(write), hasCode('EIO'));
  await assert.rejects(scheduler.runUntil(file.sync()), hasCode('EIO'));
  assert.deepEqual(disk.contents('a'), new Uint8Array([7]));
  await scheduler.runUntil(disk.lock());
});

test('a full disk takes what fits and then refuses', async () => {
  const disk = new SimulatedDisk({ capacityBytes: 100 });
  const file = await disk.open('a', 'create');
  await file.write(new Uint8Array(90), 0);
  await assert.rejects(file.write(new Uint8Array(20), 90), hasCode('ENOSPC'));
  assert.equal(await file.size(), 100);
  await file.write(new Uint8Array(100), 0);
  assert.equal((await disk.space()).freeBytes, 0);
});

test('the ordered operation fails once, with the ordered code', async () => {
  const disk = new SimulatedDisk();
  disk.failOperation(2, 'ENOSPC');
  const file = await disk.open('a', 'create');
  assert.equal(disk.failureIsPending, true);
  await assert.rejects(file.write(new Uint8Array(10), 0), hasCode('ENOSPC'));
  assert.equal(disk.failureIsPending, false);
  await file.write(new Uint8Array(10), 0);
});

test('one seed gives one history', async () => {
  const history = async (): Promise<string> => {
    const { disk, file } = await diskWithFile(42);
    await file.write(new Uint8Array(1500).fill(3), 10);
    disk.crash();
    return disk.contents('f/a').join();
  };
  assert.equal(await history(), await history());
  const first = new SimulatedRandom(7);
  const second = new SimulatedRandom(7);
  for (let i = 0; i < 100; i++) assert.equal(first.integer(1000), second.integer(1000));
});

test('simulated time runs timers in order, and says when nothing can go on', async () => {
  const scheduler = new SimulatedScheduler();
  const order: string[] = [];
  scheduler.after(10, () => order.push(`b ${scheduler.nowMs}`));
  scheduler.after(5, () => {
    order.push(`a ${scheduler.nowMs}`);
    scheduler.soon(() => order.push('soon'));
  });
  const cancel = scheduler.after(7, () => order.push('cancelled'));
  cancel();
  await scheduler.advance(9);
  assert.deepEqual(order, ['a 5', 'soon']);
  await scheduler.advance(1);
  assert.deepEqual(order, ['a 5', 'soon', 'b 10']);
  await assert.rejects(scheduler.runUntil(new Promise(() => undefined)), /stands still/);
});
