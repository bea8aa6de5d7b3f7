import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PartitionTable } from '../../src/core/partition-table.ts';

/** The same by the book: a map per queue. */
class Twin {
  readonly partitions = new Map<number, { queue: number; name: string; lane: number }>();

  find(queue: number, name: string): number {
    for (const row of this.partitions.values()) if (row.queue === queue && row.name === name) return row.lane;
    return -1;
  }
}

/** Few hashes, so that names collide and removals leave holes in long runs of slots. */
function hashOf(name: string): number {
  return name.length % 3;
}

function addTo(table: PartitionTable, pid: number, queue: number, name: string): number {
  const bytes = Buffer.from(`--${name}--`);
  return table.add(pid, queue, 1000 + pid, hashOf(name), bytes, 2, bytes.length - 2);
}

function findIn(table: PartitionTable, queue: number, name: string): number {
  const bytes = Buffer.from(name);
  return table.find(queue, hashOf(name), bytes, 0, bytes.length);
}

const queueNumber = fc.integer({ min: 1, max: 3 });
const partitionName = fc.integer({ min: 0, max: 25 }).map((n) => 'x'.repeat(n % 5) + n);

describe('the partition table', () => {
  it('finds by name and by pid what a map finds, whatever was added and removed', () => {
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ add: queueNumber, name: partitionName }) },
      { weight: 2, arbitrary: fc.record({ remove: fc.nat(1000) }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const table = new PartitionTable(1);
        const twin = new Twin();
        // Many pids agree in their lowest bits.
        const pids = [0];
        const checkPids = () => {
          for (const pid of pids) assert.equal(table.findPid(pid), twin.partitions.get(pid)?.lane ?? -1);
        };
        for (const { add, name, remove } of steps as { add?: number; name?: string; remove?: number }[]) {
          if (add !== undefined && name !== undefined && twin.find(add, name) < 0) {
            const pid = pids[pids.length - 1] + (pids.length % 3 === 0 ? 1 : 2048);
            pids.push(pid);
            const lane = addTo(table, pid, add, name);
            assert.ok(
              [...twin.partitions.values()].every((row) => row.lane !== lane),
              'a lane is given once',
            );
            twin.partitions.set(pid, { queue: add, name, lane });
          } else if (remove !== undefined && twin.partitions.size > 0) {
            const [pid, row] = [...twin.partitions][remove % twin.partitions.size];
            table.remove(row.lane);
            twin.partitions.delete(pid);
          }
          if (pids.length % 4 === 0) checkPids();
        }
        assert.equal(table.count, twin.partitions.size);
        checkPids();
        for (const queue of [1, 2, 3]) {
          for (let n = 0; n <= 25; n++) {
            const wanted = 'x'.repeat(n % 5) + n;
            assert.equal(findIn(table, queue, wanted), twin.find(queue, wanted));
          }
        }
        for (const [pid, { queue, name, lane }] of twin.partitions) {
          assert.equal(Buffer.from(table.nameBytes(lane)).toString(), name);
          assert.equal(table.names.subarray(table.nameStart(lane), table.nameEnd(lane)).length, name.length);
          assert.deepEqual(
            [table.pid[lane], table.queueNumber[lane], table.createdAtUs[lane], table.nextOffset[lane]],
            [pid, queue, 1000 + pid, 0],
          );
        }
      }),
      { numRuns: 150 },
    );
  });

  it('begins a lane that is used again from nothing', () => {
    const table = new PartitionTable(2);
    const lane = addTo(table, 1, 1, 'a');
    table.nextOffset[lane] = 7;
    table.lastStampUs[lane] = 8;
    table.logStart[lane] = 3;
    table.retainedBytes[lane] = 100;
    table.firstCursor[lane] = 5;
    table.remove(lane);
    assert.equal(addTo(table, 2, 1, 'b'), lane);
    assert.deepEqual(
      [table.nextOffset, table.lastStampUs, table.logStart, table.retainedBytes, table.firstCursor].map((c) => c[lane]),
      [0, 0, 0, 0, -1],
    );
  });

  it('refuses a name twice in one queue and takes it in another', () => {
    const table = new PartitionTable(2);
    addTo(table, 1, 1, 'a');
    assert.throws(() => addTo(table, 2, 1, 'a'), /added once/);
    assert.notEqual(addTo(table, 3, 2, 'a'), findIn(table, 1, 'a'));
  });

  it('gives the memory of removed names back and keeps the others readable', () => {
    const table = new PartitionTable(2);
    const long = (n: number): string => `${n}`.padEnd(400, 'n');
    const lanes = Array.from({ length: 6000 }, (_, n) => addTo(table, n + 1, 1, long(n)));
    for (let n = 0; n < 6000; n++) if (n % 3 !== 0) table.remove(lanes[n]);
    assert.ok(table.names.length < 2_400_000, `${table.names.length} bytes are kept for 800,000 bytes of names`);
    for (let n = 0; n < 6000; n += 3) {
      assert.equal(Buffer.from(table.nameBytes(lanes[n])).toString(), long(n));
      assert.equal(findIn(table, 1, long(n)), lanes[n]);
    }
  });
});
