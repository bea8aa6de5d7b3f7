/** The Nth disk operation fails, for N = 1, 2, 3 … until the scenario passes untouched. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SoloLog } from '../../../src/log/solo-log.ts';
import type { LogOptions } from '../../../src/storage/log-options.ts';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { append, durable, openLog, readAll, smallOptions } from './log-driver.ts';

/** How segments get their length. */
const kinds: Record<string, { readonly options: Partial<LogOptions>; readonly operationsMin: number }> = {
  'that are filled with zeros first': { options: smallOptions, operationsMin: 150 },
  'that grow': { options: { ...smallOptions, largeWriteBytes: 64 }, operationsMin: 100 },
};

/** What the world was told. */
interface Told {
  /** Body lengths by sequence − 1, of all entries that were sealed; −1 for marks of a clean end. */
  readonly sealed: number[];
  durable: number;
  failures: number;
  /** The last `close` resolved. */
  isClosed: boolean;
}

/** Opens, appends through several segments, reads old entries back, closes, and all that once more. */
async function scenario(disk: SimulatedDisk, told: Told, options: Partial<LogOptions>): Promise<void> {
  for (let round = 0; round < 2; round++) {
    told.isClosed = false;
    const log = await openLog(disk, options);
    await readAll(log);
    const first = append(log, 700);
    told.sealed.push(700);
    for (let i = 0; i < 25; i++) {
      append(log, (i * 61) % 600);
      told.sealed.push((i * 61) % 600);
      if (i % 4 === 0) await waitDurable(log, told);
    }
    await waitDurable(log, told);
    await log.load(first.address, first.length);
    await log.close();
    told.sealed.push(-1);
    told.durable = log.durableSequence;
    told.isClosed = true;
  }
}

async function waitDurable(log: SoloLog, told: Told): Promise<void> {
  try {
    await durable(log, log.nextSequence - 1);
  } catch (error) {
    told.failures++;
    const { durableSequence } = log;
    append(log, 10);
    assert.equal(log.durableSequence, durableSequence, 'nothing goes on after a failure');
    await log.close();
    throw error;
  } finally {
    told.durable = log.durableSequence;
  }
}

async function assertNothingLost(disk: SimulatedDisk, told: Told, options: Partial<LogOptions>): Promise<void> {
  const log = await openLog(disk, options);
  const found = [...(await readAll(log)).values()];
  assert.ok(found.length >= told.durable, `${told.durable} entries were durable, ${found.length} are there`);
  // An entry that was sealed without anybody waiting for it may be there or not; the mark of a clean end as well.
  const expected = [...told.sealed];
  if (found.length > expected.length && found[expected.length] === -1) expected.push(-1);
  assert.deepEqual(found, expected.slice(0, found.length));
  append(log, 44);
  await log.close();
  const again = await openLog(disk, options);
  assert.deepEqual([...(await readAll(again)).values()], [...found, 44, -1]);
  await again.close();
}

for (const code of ['EIO', 'ENOSPC']) {
  for (const aftermath of ['reopened', 'killed', 'powerless'] as const) {
    for (const [kind, { options, operationsMin }] of Object.entries(kinds)) {
      test(`nothing durable is lost whichever disk operation fails with ${code} (then ${aftermath}), in segments ${kind}`, async () => {
        let count = 0;
        for (let number = 1; ; number++) {
          const disk = new SimulatedDisk({ seed: number });
          const told: Told = { sealed: [], durable: 0, failures: 0, isClosed: false };
          disk.failOperation(number, code);
          const error = await scenario(disk, told, options).then(
            () => null,
            (reason: NodeJS.ErrnoException) => reason,
          );
          const isUntouched = disk.failureIsPending;
          if (isUntouched) {
            assert.equal(error, null);
            break;
          }
          if (error !== null) assert.equal(error.code, code);
          count++;
          if (aftermath === 'killed') disk.kill();
          if (aftermath === 'powerless') disk.crash();
          await assertNothingLost(disk, told, options);
        }
        assert.ok(count > operationsMin, `${count} operations`);
      });
    }
  }
}

test('after a failed write nothing is believed to be on disk that the system has given up', async () => {
  const left = new Set<number>();
  for (let seed = 1; seed <= 20; seed++) {
    const world = new SimulatedDisk({ seed });
    const first = await openLog(world);
    append(first, 100);
    await durable(first, 1);
    append(first, 200);
    world.failOperation(1);
    await assert.rejects(durable(first, 2), /write/);
    await first.close();
    // While the bytes are in the page cache, the next broker finds the entry; then it must survive whatever comes.
    const second = await openLog(world);
    const found = [...(await readAll(second)).values()];
    assert.deepEqual(found, [100, 200].slice(0, found.length));
    left.add(found.length);
    world.crash();
    const third = await openLog(world);
    assert.deepEqual([...(await readAll(third)).values()], found);
  }
  assert.deepEqual([...left].sort(), [1, 2]);
});

for (const [kind, { options }] of Object.entries(kinds)) {
  test(`a full disk fails the log with the system's code, and it goes on when there is room again, in segments ${kind}`, async () => {
    const disk = new SimulatedDisk({ capacityBytes: 10_000 });
    const log = await openLog(disk, options);
    const failure = new Promise<NodeJS.ErrnoException>((fulfil) => {
      log.onFailure = fulfil;
    });
    for (let i = 0; i < 30; i++) append(log, 500);
    assert.equal((await failure).code, 'ENOSPC');
    const count = log.durableSequence;
    await log.close();
    disk.setCapacity(100_000);
    const again = await openLog(disk, options);
    assert.ok((await readAll(again)).size >= count);
    append(again, 500);
    await again.close();
  });
}
