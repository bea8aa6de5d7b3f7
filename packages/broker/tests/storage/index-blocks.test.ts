import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockRows, blockBytesMax } from '../../src/storage/index-blocks.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';

interface Row {
  number: number;
  lane: number;
  pid: number;
  firstOffset: number;
  count: number;
  stampUs: number;
  address: number;
  length: number;
}

/** Adds `rowCount` random rows, lets the oldest leave now and then, and compares every answer with the list of rows. */
function runAgainstList(firstRow: number, seed: number, rowCount: number, laneCount: number): void {
  const random = new SimulatedRandom(seed);
  const rows = new BlockRows(firstRow);
  const pids = Array.from({ length: laneCount }, (_, lane) => lane + 1);
  const next = new Float64Array(laneCount);
  let nextPid = laneCount + 1;
  const list: Row[] = [];
  let firstLive = firstRow;
  for (let i = 0; i < rowCount; i++) {
    const lane = Math.min(random.integer(laneCount), random.integer(laneCount));
    if (random.chance(0.0005)) {
      rows.forgetLane(lane);
      pids[lane] = nextPid++;
      next[lane] = 0;
    }
    const number = rows.nextRow;
    assert.equal(number, firstRow + i);
    const row = {
      number,
      lane,
      pid: pids[lane],
      firstOffset: next[lane],
      count: 1 + random.integer(5),
      stampUs: 1000 + i * 2,
      address: 64 + i * 100,
      length: 53 + random.integer(blockBytesMax - 53),
    };
    next[lane] += row.count;
    if (i === rowCount - 1) {
      // At least once, all rows are from before the last pages.
      firstLive = Math.max(firstLive, rows.nextRow - 5000);
      rows.releaseBefore(firstLive);
    }
    rows.add(lane, row.pid, row.firstOffset, row.stampUs, row.address, row.length, row.count);
    list.push(row);
    if (random.chance(0.001)) {
      firstLive += random.integer((rows.nextRow - firstLive) >>> 1);
      rows.releaseBefore(firstLive);
      assert.equal(rows.liveRows, rows.nextRow - firstLive);
    }
  }
  const live = list.filter((row) => row.number >= firstLive);
  assert.ok(live.length > 100, 'the run leaves something to compare');
  for (const row of live) {
    const index = rows.indexOf(row.number);
    assert.deepEqual(
      [rows.pidAt(index), rows.firstOffsetAt(index), rows.stampAt(index), rows.addressAt(index), rows.lengthAt(index)],
      [row.pid, row.firstOffset, row.stampUs, row.address, row.length],
    );
    assert.equal(rows.countAt(index), row.count);
  }
  for (let lane = 0; lane < laneCount; lane++) {
    const mine = live.filter((row) => row.pid === pids[lane]);
    assert.equal(rows.lastOf(lane, pids[lane]), mine.length === 0 ? -1 : rows.indexOf(mine[mine.length - 1].number));
    for (let k = 0; k < 20; k++) {
      const offset = random.integer(next[lane] + 2);
      const byOffset = mine.filter((row) => row.firstOffset <= offset).pop();
      assert.equal(
        rows.findByOffset(lane, pids[lane], offset),
        byOffset === undefined ? -1 : rows.indexOf(byOffset.number),
      );
      const stampUs = 1000 + random.integer(rowCount * 2 + 10);
      const byTime = mine.find((row) => row.stampUs >= stampUs);
      assert.equal(rows.findByTime(lane, pids[lane], stampUs), byTime === undefined ? -1 : rows.indexOf(byTime.number));
    }
  }
  let distance = 0;
  for (const row of live.slice(0, 3000)) {
    for (const within of [0, row.count - 1]) {
      assert.equal(rows.findByOrdinal(firstLive, rows.nextRow, distance + within), rows.indexOf(row.number));
    }
    distance += row.count;
  }
}

test('rows are found by offset, time and ordinal as in a plain list, few lanes and many', () => {
  for (const [seed, laneCount] of [
    [1, 1],
    [2, 3],
    [3, 40],
    [4, 3000],
  ]) {
    runAgainstList(0, seed, 12_000, laneCount);
  }
});

test('row numbers beyond 32 bits change nothing', () => {
  runAgainstList(2 ** 32 - 6000, 5, 12_000, 30);
  runAgainstList(2 ** 31 - 6000, 6, 12_000, 30);
});

test('a lane of many blocks is searched in few steps', () => {
  const rows = new BlockRows();
  for (let i = 0; i < 200_000; i++) rows.add(0, 1, i, i, i, 53, 1);
  let steps = 0;
  const read = rows.firstOffsetAt.bind(rows);
  rows.firstOffsetAt = (index) => {
    steps++;
    return read(index);
  };
  for (let offset = 0; offset < 200_000; offset += 997) {
    steps = 0;
    assert.equal(rows.findByOffset(0, 1, offset), offset);
    assert.ok(steps <= 120, `${steps} rows were read`);
  }
});

test('a block longer than the row can hold is an assertion, not a wrong answer', () => {
  assert.throws(() => new BlockRows().add(0, 1, 0, 0, 0, blockBytesMax, 1), /longer than the index can hold/);
});

test('the pages of a segment of small blocks serve the next one: the collector does not count shared memory', () => {
  const rows = new BlockRows();
  const rowsPerSegment = 250_000;
  const buffers = new Set<SharedArrayBuffer>();
  for (let segment = 0; segment < 4; segment++) {
    const first = rows.nextRow;
    for (let i = 0; i < rowsPerSegment; i++)
      rows.add(i % 100, 1 + (i % 100), segment * 2500 + i, i, 64 + i * 256, 200, 1);
    for (const page of rows.sharedPages(first, rows.nextRow).pages) buffers.add(page);
    rows.releaseBefore(rows.nextRow);
  }
  assert.ok(buffers.size <= 64, `${buffers.size} pages for ${Math.ceil(rowsPerSegment / 4096)}`);
});
