import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FilterDirectory } from '../../src/storage/filter-directory.ts';
import { idKeyHigh, idKeyLow, pidKey } from '../../src/storage/filter-keys.ts';
import { sortedUnique } from '../../src/storage/sidecar-sort.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';

interface Member {
  readonly name: number;
  readonly maxStampUs: number;
}

const noPause = () => Promise.resolve();

function namesOf(members: readonly Member[]): number[] {
  return members.map((member) => member.name).sort((a, b) => a - b);
}

test('the directory names exactly the members that hold a key, through merges and removals', async () => {
  const keyArbitrary = fc.oneof(
    fc.nat(6),
    fc.integer({ min: 0x7fff_fff8, max: 0x8000_0003 }),
    fc.constant(2 ** 32 - 1),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          keys: fc.array(keyArbitrary, { maxLength: 12 }),
          stampUs: fc.nat(5),
          removes: fc.option(fc.nat(20)),
        }),
        { maxLength: 30 },
      ),
      async (steps) => {
        const directory = new FilterDirectory<Member>(noPause);
        const twin = new Map<Member, Set<number>>();
        for (const [name, step] of steps.entries()) {
          const member = { name, maxStampUs: step.stampUs };
          const keys = sortedUnique(Uint32Array.from(step.keys));
          await directory.add(member, keys);
          await directory.merge();
          twin.set(member, new Set(keys));
          if (step.removes !== null) {
            const gone = [...twin.keys()][step.removes];
            if (gone !== undefined) {
              twin.delete(gone);
              await directory.remove(gone);
            }
          }
        }
        for (const key of [0, 1, 2, 3, 6, 7, 0x7fff_ffff, 0x8000_0000, 0x8000_0003, 2 ** 32 - 1]) {
          for (const sinceUs of [0, 3, 6]) {
            const right = [...twin].filter(([member, keys]) => keys.has(key) && member.maxStampUs >= sinceUs);
            assert.deepEqual(namesOf(directory.candidates(key, sinceUs)), namesOf(right.map(([member]) => member)));
            assert.equal(directory.mayHold(key, sinceUs), right.length > 0);
          }
        }
      },
    ),
    { numRuns: 150 },
  );
});

test('many members lie in few runs, at little more than 3 bytes per key, and wrong answers are rare', async () => {
  const random = new SimulatedRandom(1);
  const directory = new FilterDirectory<Member>(noPause);
  const segments = 40;
  const keysPerSegment = 25_000;
  const kept: Uint32Array[] = [];
  for (let name = 0; name < segments; name++) {
    const keys = new Uint32Array(keysPerSegment);
    for (let i = 0; i < keysPerSegment; i++) {
      const keyOfPid = pidKey(1 + random.integer(1000));
      keys[i] = idKeyHigh(keyOfPid, random.integer(2 ** 32));
    }
    kept.push(sortedUnique(keys));
    await directory.add({ name, maxStampUs: name }, kept[name]);
    await directory.merge();
    assert.ok(directory.runCount <= 7, `${directory.runCount} runs`);
  }
  const count = segments * keysPerSegment;
  assert.ok((directory.bytes - directory.runCount * 262_148) / count <= 3);
  for (const [name, keys] of kept.entries()) {
    for (let i = 0; i < keys.length; i += 97) {
      assert.ok(directory.candidates(keys[i], 0).some((member) => member.name === name));
    }
  }
  let wrong = 0;
  for (let i = 0; i < 200_000; i++) if (directory.mayHold(random.integer(2 ** 32), 0)) wrong++;
  // A million keys of four billion: 0.023 % expected.
  assert.ok(wrong / 200_000 < 0.001, `${wrong} of 200,000 were wrong`);
});

test('the memory of removed members comes back', async () => {
  const directory = new FilterDirectory<Member>(noPause);
  const members = Array.from({ length: 8 }, (_, name) => ({ name, maxStampUs: name }));
  for (const member of members) {
    await directory.add(
      member,
      Uint32Array.from({ length: 10_000 }, (_, i) => i * 400_000 + member.name),
    );
    await directory.merge();
  }
  const { bytes } = directory;
  for (const member of members.slice(0, 4)) await directory.remove(member);
  assert.ok(bytes - directory.bytes >= 40_000 * 3);
  assert.deepEqual(namesOf(directory.candidates(7, 0)), [7]);
  assert.deepEqual(namesOf(directory.candidates(1, 0)), []);
  for (const member of members) await directory.remove(member);
  assert.equal(directory.bytes, 0);
});

test('questions asked during a merge see all that was there before', async () => {
  const asked: boolean[] = [];
  const directory: FilterDirectory<Member> = new FilterDirectory<Member>(async () => {
    asked.push(directory.mayHold(1, 0) && directory.mayHold(2, 0) && directory.mayHold(4_000_000_000, 0));
  });
  await directory.add({ name: 0, maxStampUs: 1 }, Uint32Array.from([1, 4_000_000_000]));
  const many = Uint32Array.from({ length: 200_000 }, (_, i) => 2 + i * 20_000);
  await directory.add({ name: 1, maxStampUs: 1 }, many);
  asked.length = 0;
  await directory.merge();
  assert.ok(asked.length > 0, 'a long merge pauses');
  assert.ok(asked.every((answer) => answer));
});

test('keys of consecutive pids do not meet, and an id is another in each partition', () => {
  const keys = new Set<number>();
  for (let pid = 0; pid < 200_000; pid++) keys.add(pidKey(pid));
  for (let pid = 2 ** 32; pid < 2 ** 32 + 1000; pid++) keys.add(pidKey(pid));
  assert.ok(keys.size >= 200_990);
  const ids = new Set<string>();
  for (let pid = 0; pid < 100_000; pid++) ids.add(`${idKeyHigh(pidKey(pid), 77)} ${idKeyLow(pidKey(pid), 88)}`);
  assert.equal(ids.size, 100_000);
});
