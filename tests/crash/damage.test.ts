/**
 * Damaged data folders: files cut, flipped, zeroed, swapped, replaced by older copies of themselves, and deleted.
 * A broker recovers with everything that is provable, or it refuses with a message that names the place; it never serves
 * anything that was not pushed. Indexes and snapshots may always be deleted: they are made from the log.
 *
 *   LANEMQ_DAMAGE_RUNS   damaged copies that are looked at (default 28; a few hundred for a thorough run)
 *   LANEMQ_DAMAGE_SEED   the seed of a run that failed
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { PushItem } from '../e2e/broker-client.ts';
import { BrokerProcess, brokerMain } from '../e2e/broker-process.ts';
import { eventually } from '../e2e/clock.ts';
import { type EntrySpan, filesOf, readLog, segmentFiles } from './log-reader.ts';
import { chooseCount, chooseSeed, SeededRandom } from './seeded-random.ts';

const runs = chooseCount('LANEMQ_DAMAGE_RUNS', 28);
const seed = chooseSeed('LANEMQ_DAMAGE_SEED');
const repeat = `LANEMQ_DAMAGE_SEED=${seed} LANEMQ_DAMAGE_RUNS=${runs} node --test dist/tests/crash/damage.test.js`;
/** Of so many damaged copies one is started for real; the others are only verified. */
const startEvery = 3;
const copiesAtOnce = 2;
const queue = 'orders';
const partitions = ['a', 'b', 'c'];
const brokerArgs = ['--segment-bytes', '64KiB', '--snapshot-log-bytes', '64KiB'];

/** A data folder and what is in it. */
interface Sample {
  readonly name: string;
  readonly folder: string;
  /** A copy of the segments made half-way. */
  readonly olderFolder: string;
  readonly entries: readonly EntrySpan[];
  /** Payloads by partition, in offset order. */
  readonly payloads: ReadonlyMap<string, readonly string[]>;
  readonly partitionOfPid: ReadonlyMap<number, string>;
}

interface Damage {
  readonly text: string;
  /** Changes the copy in `folder`; false when the draw does not apply to this sample. */
  apply(folder: string, sample: Sample, random: SeededRandom): Promise<boolean>;
  /** True: not even a refusal is acceptable. */
  readonly harmless?: boolean;
}

let root = '';
let startsCounted = 0;
const samples: Sample[] = [];

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'lanemq-damage-'));
  samples.push(await makeSample('closed'), await makeSample('killed'));
});

after(async () => {
  await rm(root, { recursive: true, force: true });
});

/** Copies a data folder that nobody writes to, without the lock of whoever has it open. */
function copyFolder(from: string, to: string): Promise<void> {
  return cp(from, to, { recursive: true, filter: (path) => !path.endsWith('lock') });
}

/** Pushes one after the other, so that every entry but the last is known to be on disk by a later one. */
async function makeSample(name: 'closed' | 'killed'): Promise<Sample> {
  const random = new SeededRandom(seed);
  const folder = join(root, name);
  const olderFolder = join(root, `${name}-older`);
  const broker = await BrokerProcess.start({ dataFolder: folder, args: brokerArgs });
  const payloads = new Map<string, string[]>(partitions.map((partition) => [partition, []]));
  const pushCount = 260;
  for (let i = 0; i < pushCount; i++) {
    const partition = random.pick(partitions);
    const known = payloads.get(partition) ?? [];
    const items: PushItem[] = [];
    for (let n = random.between(1, 3); n > 0; n--) {
      const payload = `${partition}-${known.length}-${'x'.repeat(random.between(100, 900))}`;
      known.push(payload);
      items.push({ queue, partition, transactionId: `${partition}-${known.length}`, payload });
    }
    await broker.client.push(items);
    if (i === pushCount / 2) {
      // It makes and renames files by itself, and one that vanishes ends the copying.
      await broker.freeze();
      await copyFolder(folder, olderFolder);
      broker.thaw();
    }
    if (i % 20 === 19) await broker.client.ack(await broker.client.pop(queue, { batch: 5, partitions: 3 }));
  }
  const partitionOfPid = new Map<number, string>();
  for (const message of await broker.client.pop(queue, {
    group: 'names',
    mode: 'all',
    batch: 10_000,
    partitions: 64,
  })) {
    partitionOfPid.set(Number(message.partitionId), message.partition);
  }
  const isDerived = async (): Promise<boolean> =>
    filesOf(folder, 'segments', '.idx').length >= 1 && filesOf(folder, 'snapshots', '.snap').length >= 1;
  await eventually(isDerived, 60_000, 'the sample has segment indexes and snapshots');
  if (name === 'closed') await broker.stop();
  else await broker.kill();
  const entries = readLog(folder);
  assert.ok(segmentFiles(folder).length >= 3, 'the sample has several segments');
  const stored = entries.flatMap((entry) => entry.blocks).reduce((sum, block) => sum + block.count, 0);
  const pushed = [...payloads.values()].reduce((sum, list) => sum + list.length, 0);
  assert.equal(stored, pushed, 'the log as read here holds what was pushed');
  return { name, folder, olderFolder, entries, payloads, partitionOfPid };
}

const damages: readonly Damage[] = [
  {
    text: 'a bit of an entry flipped',
    apply: (folder, sample, random) => {
      const entry = random.pick(sample.entries);
      return flip(folder, entry.file, entry.position + random.integer(entry.length), random);
    },
  },
  {
    text: 'a bit of one of the last entries flipped',
    apply: (folder, sample, random) => {
      const entry = random.pick(sample.entries.slice(-3));
      return flip(folder, entry.file, entry.position + random.integer(entry.length), random);
    },
  },
  {
    text: 'a bit of an entry header flipped',
    apply: (folder, sample, random) => {
      const entry = random.pick(sample.entries);
      return flip(folder, entry.file, entry.position + random.integer(64), random);
    },
  },
  {
    text: 'a bit of a segment header flipped',
    apply: (folder, _, random) => flip(folder, random.pick(segmentFiles(folder)), random.integer(64), random),
  },
  {
    text: 'the last entries cut somewhere',
    apply: async (folder, sample, random) => {
      const entry = random.pick(sample.entries.slice(-4));
      await truncate(join(folder, entry.file), entry.position + random.integer(entry.length + 1));
      return true;
    },
  },
  {
    text: 'a segment cut somewhere',
    apply: async (folder, _, random) => {
      const file = join(folder, random.pick(segmentFiles(folder)));
      const { length } = await readFile(file);
      await truncate(file, random.integer(length));
      return true;
    },
  },
  {
    text: 'the tail filled with zeros',
    apply: (folder, sample, random) => {
      const entry = random.pick(sample.entries.slice(-4));
      const last = sample.entries[sample.entries.length - 1];
      const end = entry.file === last.file ? last.position + last.length : entry.position + entry.length;
      return fill(folder, entry.file, entry.position + random.integer(entry.length), end);
    },
  },
  {
    text: 'a sector filled with zeros',
    apply: (folder, sample, random) => {
      const entry = random.pick(sample.entries);
      const from = entry.position + random.integer(entry.length);
      return fill(folder, entry.file, from, from + 512);
    },
  },
  {
    text: 'a segment replaced by an older copy of itself',
    apply: async (folder, sample, random) => {
      const file = random.pick(segmentFiles(sample.olderFolder));
      if (!segmentFiles(folder).includes(file)) return false;
      await cp(join(sample.olderFolder, file), join(folder, file));
      return true;
    },
  },
  {
    text: 'a segment replaced by another one',
    apply: async (folder, _, random) => {
      const files = segmentFiles(folder);
      const from = random.integer(files.length);
      await cp(join(folder, files[from]), join(folder, files[(from + 1) % files.length]));
      return true;
    },
  },
  {
    text: 'a segment deleted',
    apply: async (folder, _, random) => {
      await rm(join(folder, random.pick(segmentFiles(folder))));
      return true;
    },
  },
  {
    text: 'one index deleted',
    harmless: true,
    apply: async (folder, _, random) => {
      await rm(join(folder, random.pick(filesOf(folder, 'segments', '.idx'))));
      return true;
    },
  },
  {
    text: 'an index or a snapshot with a flipped bit',
    apply: async (folder, _, random) => {
      const file = random.pick(derivedFiles(folder));
      const { length } = await readFile(join(folder, file));
      return flip(folder, file, random.integer(length), random);
    },
  },
  {
    text: 'an index or a snapshot cut somewhere',
    apply: async (folder, _, random) => {
      const file = join(folder, random.pick(derivedFiles(folder)));
      const { length } = await readFile(file);
      await truncate(file, random.integer(length));
      return true;
    },
  },
];

function derivedFiles(folder: string): string[] {
  return [...filesOf(folder, 'segments', '.idx'), ...filesOf(folder, 'snapshots', '.snap')];
}

async function flip(folder: string, file: string, position: number, random: SeededRandom): Promise<boolean> {
  const bytes = await readFile(join(folder, file));
  bytes[position] ^= 1 << random.integer(8);
  await writeFile(join(folder, file), bytes);
  return true;
}

async function fill(folder: string, file: string, from: number, to: number): Promise<boolean> {
  const bytes = await readFile(join(folder, file));
  bytes.fill(0, from, Math.min(to, bytes.length));
  await writeFile(join(folder, file), bytes);
  return true;
}

/** What is left of the log once a copy has been damaged. */
interface Remains {
  /** Entries of which a byte is gone or changed. */
  readonly damaged: readonly EntrySpan[];
  /** So many records of each partition lie in entries before the first damage. */
  readonly provable: ReadonlyMap<string, number>;
  /** An entry that is whole proves that damaged bytes had been on disk: they cannot be a torn write. */
  readonly proven: boolean;
  /** Offset of the first damaged record of a partition that has one. */
  readonly holes: ReadonlyMap<string, number>;
}

async function whatRemains(sample: Sample, folder: string): Promise<Remains> {
  const damagedFrom = new Map<string, { from: number; to: number }>();
  for (const file of segmentFiles(sample.folder)) {
    const original = await readFile(join(sample.folder, file));
    const copy = segmentFiles(folder).includes(file) ? await readFile(join(folder, file)) : Buffer.alloc(0);
    let from = 0;
    while (from < copy.length && copy[from] === original[from]) from++;
    if (from === original.length) continue;
    let to = original.length;
    if (copy.length === original.length) while (to > from && copy[to - 1] === original[to - 1]) to--;
    damagedFrom.set(file, { from, to });
  }
  const isDamaged = (entry: EntrySpan): boolean => {
    const range = damagedFrom.get(entry.file);
    return range !== undefined && entry.position < range.to && entry.position + entry.length > range.from;
  };
  const damaged = sample.entries.filter(isDamaged);
  const headers = [...damagedFrom].filter(([, range]) => range.from < 64).map(([file]) => file);
  const lost = sample.entries.filter((entry) => damaged.includes(entry) || headers.includes(entry.file));
  const firstLost = Math.min(Number.POSITIVE_INFINITY, ...lost.map((entry) => entry.address));
  const provable = new Map<string, number>(partitions.map((partition) => [partition, 0]));
  for (const entry of sample.entries) {
    if (entry.address >= firstLost) break;
    for (const block of entry.blocks) {
      const partition = sample.partitionOfPid.get(block.pid) ?? '';
      provable.set(partition, (provable.get(partition) ?? 0) + block.count);
    }
  }
  const witnesses = sample.entries.filter((entry) => !damaged.includes(entry));
  const proven = damaged.some((entry) => witnesses.some((witness) => witness.syncedThrough > entry.address));
  const holes = new Map<string, number>();
  for (const block of damaged.flatMap((entry) => entry.blocks)) {
    const partition = sample.partitionOfPid.get(block.pid) ?? '';
    if (!holes.has(partition)) holes.set(partition, block.firstOffset);
  }
  return { damaged, provable, proven, holes };
}

interface Verdict {
  readonly code: number | string | null;
  readonly output: string;
}

function verify(folder: string): Promise<Verdict> {
  return new Promise((resolve) => {
    execFile(process.execPath, [brokerMain, 'verify', '--data', folder], { timeout: 120_000 }, (error, out, err) => {
      resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? null), output: out + err });
    });
  });
}

/** A message for people: one exit code, a named file or reason, no stack of a surprised program. */
function assertRefusal(code: number | string | null, output: string): void {
  assert.ok(typeof code === 'number' && code > 0 && code < 128, `a refusal exits with a code, got ${code}:\n${output}`);
  assert.match(output, /damage|checksum|snapshot|segment|missing/i);
  assert.ok(!/\n\s+at .*:\d+:\d+/.test(output), `a refusal prints no stack:\n${output}`);
}

/** Starts a broker on the folder. Null when it refused, in the way it may. */
async function startOn(folder: string): Promise<BrokerProcess | null> {
  const broker = await BrokerProcess.prepare({ dataFolder: folder, args: brokerArgs });
  try {
    await broker.launch();
    return broker;
  } catch (error) {
    const code = /ended at its start \((\w+)\)/.exec((error as Error).message)?.[1];
    assertRefusal(Number(code), broker.output);
    return null;
  }
}

/** All that a broker serves, by partition; offsets must be 0, 1, 2 … `batch`: small and large ones are read in other ways. */
async function readAll(broker: BrokerProcess, group: string, batch: number): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>(partitions.map((partition) => [partition, []]));
  for (;;) {
    const options = { group, mode: 'all', batch, partitions: 64, autoAck: true };
    const messages = await broker.client.pop<string>(queue, options);
    if (messages.length === 0) return found;
    for (const message of messages) {
      const list = found.get(message.partition) ?? [];
      assert.equal(message.offset, list.length, `offsets of ${message.partition} are gapless`);
      list.push(message.data);
    }
  }
}

/**
 * A broker that starts from a snapshot need not read what lies before it, so it may find damage only when it comes to
 * deliver it. Then it says so and the partition stands still there: what lies before the damage is served, what lies
 * behind keeps its place.
 */
function assertServed(
  sample: Sample,
  remains: Remains,
  served: ReadonlyMap<string, readonly string[]>,
  output: string,
): void {
  for (const partition of partitions) {
    const pushed = sample.payloads.get(partition) ?? [];
    const got = served.get(partition) ?? [];
    assert.deepEqual(got, pushed.slice(0, got.length), `${partition}: nothing but what was pushed, in order`);
    const hole = remains.holes.get(partition);
    let least = pushed.length;
    if (remains.proven && hole !== undefined && got.length < pushed.length) {
      least = hole;
      assert.match(output, /is not served/, `${partition} stands still, and the broker says why`);
    } else if (remains.damaged.length > 0 && !remains.proven) least = remains.provable.get(partition) ?? 0;
    assert.ok(got.length >= least, `${partition}: ${got.length} records served, ${least} are provable`);
  }
}

/** What a broker that started on the folder serves, before and after it goes on and is killed once more. */
async function assertStart(sample: Sample, remains: Remains, folder: string, mayRefuse: boolean): Promise<void> {
  startsCounted++;
  const batches = startsCounted % 2 === 0 ? [3, 10_000] : [10_000, 3];
  const broker = await startOn(folder);
  if (broker === null) {
    assert.ok(mayRefuse, 'the damage is harmless, but the broker refused');
    return;
  }
  try {
    const served = await readAll(broker, 'first', batches[0]);
    assertServed(sample, remains, served, broker.output);
    for (const partition of partitions) {
      const list = served.get(partition) ?? [];
      const standsStill = remains.proven && list.length < (sample.payloads.get(partition)?.length ?? 0);
      const [result] = await broker.client.pushAll(queue, partition, [`${partition} goes on`]);
      const next = standsStill ? sample.payloads.get(partition)?.length : list.length;
      assert.equal(result.offset, next, `the next offset of ${partition}`);
      if (!standsStill) list.push(`${partition} goes on`);
    }
    await broker.killAndRestart();
    assert.deepEqual(await readAll(broker, 'second', batches[1]), served, 'the same after another restart');
    await broker.stop();
  } catch (error) {
    await broker.kill().catch(() => undefined);
    throw new Error(`${(error as Error).message}\n${broker.output.slice(-2000)}`, { cause: error });
  }
}

/** What is wrong with how a damaged copy is treated; null when nothing is. */
async function examine(number: number, damage: Damage, random: SeededRandom): Promise<string | null> {
  const sample = samples[number % samples.length];
  const folder = join(root, `copy-${number}`);
  await copyFolder(sample.folder, folder);
  try {
    if (!(await damage.apply(folder, sample, random))) return null;
    const remains = await whatRemains(sample, folder);
    const verdict = await verify(folder);
    if (verdict.code !== 0) assertRefusal(verdict.code, verdict.output);
    if (damage.harmless) assert.equal(verdict.code, 0, `verify accepts it:\n${verdict.output}`);
    if (remains.proven) assert.notEqual(verdict.code, 0, 'verify finds damage in what had been synced');
    if (number % startEvery === 0) await assertStart(sample, remains, folder, verdict.code !== 0);
    return null;
  } catch (error) {
    return `${damage.text} (${sample.name}, copy ${number}): ${(error as Error).message}`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs the numbered pieces of work, a few at a time. */
async function inTurns(count: number, work: (number: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: copiesAtOnce }, worker));
}

describe('damaged data folders', () => {
  it('an undamaged folder verifies and starts, closed or killed', async () => {
    for (const sample of samples) {
      const folder = join(root, `${sample.name}-whole`);
      await copyFolder(sample.folder, folder);
      const remains = await whatRemains(sample, folder);
      assert.equal(remains.damaged.length, 0);
      const verdict = await verify(folder);
      assert.equal(verdict.code, 0, verdict.output);
      await assertStart(sample, remains, folder, false);
    }
  });

  it('all indexes and all snapshots may be deleted', async () => {
    for (const suffixes of [['.idx'], ['.snap'], ['.idx', '.snap']]) {
      const folder = join(root, `without${suffixes.join('')}`);
      await copyFolder(samples[1].folder, folder);
      for (const file of derivedFiles(folder)) {
        if (suffixes.some((suffix) => file.endsWith(suffix))) await rm(join(folder, file));
      }
      const remains = await whatRemains(samples[1], folder);
      await assertStart(samples[1], remains, folder, false);
    }
  });

  // S-060
  it('a damaged folder is recovered as far as it is provable, or refused by name, and never served wrong', async (context) => {
    context.diagnostic(`repeat with: ${repeat}`);
    const random = new SeededRandom(seed);
    const draws = Array.from({ length: runs }, () => random.fork());
    const failures: string[] = [];
    await inTurns(runs, async (number) => {
      const failure = await examine(number, damages[number % damages.length], draws[number]);
      if (failure !== null) failures.push(failure);
    });
    assert.equal(failures.length, 0, [...failures, `repeat with: ${repeat}`].join('\n'));
  });
});
