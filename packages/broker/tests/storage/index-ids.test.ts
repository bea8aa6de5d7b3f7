import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdTable } from '../../src/storage/index-ids.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';

test('the newest record of an id is found, ids of other partitions with equal keys are not', () => {
  const random = new SimulatedRandom(1);
  const pidOf: number[] = [];
  const table = new IdTable({ pidOfOrdinal: (ordinal) => pidOf[ordinal] });
  const twin = new Map<string, number>();
  for (let ordinal = 0; ordinal < 60_000; ordinal++) {
    // Few keys for many records: repeats, and equal keys in several partitions.
    const pid = random.integer(3);
    const high = random.integer(2) === 0 ? random.integer(2 ** 32) : random.integer(4) << 30;
    const low = random.integer(2) === 0 ? random.integer(2 ** 32) : random.integer(500);
    pidOf.push(pid);
    table.add(pid, high, low, ordinal);
    twin.set(`${pid} ${high >>> 0} ${low >>> 0}`, ordinal);
  }
  assert.equal(table.count, twin.size);
  for (const [key, ordinal] of twin) {
    const [pid, high, low] = key.split(' ').map(Number);
    assert.equal(table.find(pid, high, low), ordinal);
    assert.equal(table.find(pid + 3, high, low), -1);
  }
});

test('a record that repeats one id for ever takes one place', () => {
  const table = new IdTable({ pidOfOrdinal: () => 1 });
  const { bytes } = table;
  for (let ordinal = 0; ordinal < 100_000; ordinal++) table.add(1, 5, 5, ordinal);
  assert.equal(table.count, 1);
  assert.equal(table.bytes, bytes);
  assert.equal(table.find(1, 5, 5), 99_999);
});

test('while a table grows it uses at most 24 bytes per id', () => {
  const random = new SimulatedRandom(2);
  const table = new IdTable({ pidOfOrdinal: () => 1 });
  for (let ordinal = 0; ordinal < 200_000; ordinal++) {
    table.add(1, random.integer(2 ** 32), random.integer(2 ** 32), ordinal);
    if (ordinal > 10_000 && ordinal % 1000 === 0) {
      assert.ok(table.bytes / table.count <= 24, `${table.bytes / table.count} bytes per id at ${table.count}`);
    }
  }
});

test('the table of the next segment begins with the size that was needed, and shrinks again', () => {
  const random = new SimulatedRandom(3);
  const records = { pidOfOrdinal: () => 1 };
  let table = new IdTable(records);
  for (let i = 0; i < 50_000; i++) table.add(1, random.integer(2 ** 32), random.integer(2 ** 32), i);
  const { bytes } = table;
  table = new IdTable(records, table);
  assert.equal(table.bytes, bytes);
  const sizes = [];
  for (let i = 0; i < 12; i++) {
    table = new IdTable(records, table);
    sizes.push(table.bytes);
  }
  assert.ok(sizes[0] < bytes);
  assert.equal(sizes[11], new IdTable(records).bytes);
});
