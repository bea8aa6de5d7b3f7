/** Retention, relocation, reclaiming and cleanup of a broker in virtual time, on a disk that can be looked at. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BlockReader, scanAckBody, scanPushBody } from '../../src/codec/mod.ts';
import { type AckOutcome, idText, itemStatus, type PopOutcome, type PushOutcome } from '../../src/core/mod.ts';
import type { DeadLetterPage, PopRequest, QueueDetail, Reply } from '../../src/runtime/mod.ts';
import { VirtualMachine } from './virtual-machine.ts';

const segmentBytes = 8192;
const reader = new BlockReader();
const textDecoder = new TextDecoder();

interface Delivered {
  readonly leaseStamp: number;
  readonly records: { readonly pid: number; readonly offset: number; readonly id: string; readonly payload: string }[];
}

class Machine extends VirtualMachine {
  constructor(cleanupUs = 0, snapshotLogBytes = 65_536) {
    super(segmentBytes, { snapshotLogBytes, housekeeping: { intervalMs: 1000, cleanupUs } });
  }

  pass(seconds: number): Promise<void> {
    return this.scheduler.advance(seconds * 1000);
  }

  push(items: readonly { partition?: string; id?: string; payload?: unknown; queue?: string }[]): Promise<PushOutcome> {
    const body = {
      items: items.map(({ queue = 'q', partition = 'p', id, payload = 'x' }) => ({
        queue,
        partition,
        payload,
        ...(id === undefined ? {} : { transactionId: id }),
      })),
    };
    const scanned = scanPushBody(Buffer.from(JSON.stringify(body)));
    if (!scanned.ok) throw new Error(scanned.message);
    return this.call<PushOutcome, PushOutcome>(
      (reply) => this.shard.push(scanned.items, reply),
      (outcome) => ({
        ...outcome,
        statuses: outcome.statuses.slice(0, outcome.count),
        offsets: outcome.offsets.slice(0, outcome.count),
        stamps: outcome.stamps.slice(0, outcome.count),
        pids: outcome.pids.slice(0, outcome.count),
        indexes: outcome.indexes.slice(0, outcome.count),
      }),
    );
  }

  pop(group: string, batch = 10, partitions = 1, queue = 'q'): Promise<Delivered> {
    const request: PopRequest = {
      target: { kind: 'queue', queue },
      group,
      batch,
      partitions,
      wait: false,
      timeoutMs: 1000,
      leaseSeconds: 60,
      subscriptionMode: 'all',
      subscriptionFrom: null,
      commitOnDelivery: false,
      conflation: false,
      autopilot: false,
    };
    return this.call<PopOutcome, Delivered>(
      (reply) => this.shard.pop(request, reply),
      ({ leaseStamp, runs }) => ({
        leaseStamp,
        records: runs.flatMap((run) =>
          run.pieces.flatMap(({ bytes, view, at, fromIndex, toIndex }) => {
            reader.open(bytes, view, at);
            return Array.from({ length: toIndex - fromIndex }, (_, i) => {
              const record = reader.select(fromIndex + i);
              return {
                pid: run.pid,
                offset: reader.firstOffset + fromIndex + i,
                id: record.idStart < 0 ? '' : textDecoder.decode(bytes.subarray(record.idStart, record.idEnd)),
                payload: textDecoder.decode(bytes.subarray(record.payloadStart, record.payloadEnd)),
              };
            });
          }),
        ),
      }),
    );
  }

  ack(
    group: string,
    leaseStamp: number,
    items: readonly { id: string; pid?: number; status?: string }[],
  ): Promise<{ errors: number[]; deadLettered: number[] }> {
    const { identity } = this.shard;
    const leaseId = leaseStamp === 0 ? null : idText(identity, leaseStamp, 0, 0);
    const acknowledgments = items.map(({ id, pid = 1, status = 'completed' }) => ({
      transactionId: id,
      partitionId: String(pid),
      leaseId,
      status,
      error: 'boom',
    }));
    const scanned = scanAckBody(Buffer.from(JSON.stringify({ acknowledgments, consumerGroup: group })), identity);
    if (!scanned.ok) throw new Error(scanned.message);
    return this.call<AckOutcome, { errors: number[]; deadLettered: number[] }>(
      (reply) => this.shard.ack(group, scanned.items, reply),
      (outcome) => ({
        errors: [...outcome.errors.subarray(0, outcome.count)],
        deadLettered: [...outcome.deadLettered.subarray(0, outcome.count)],
      }),
    );
  }

  configure(options: Record<string, number | boolean>, queue = 'q'): Promise<QueueDetail> {
    const request = { queue, namespace: null, task: null, mode: 'merge' as const, options };
    return this.call<QueueDetail, QueueDetail>(
      (reply) => this.shard.configureQueue(request, reply),
      (detail) => detail,
    );
  }

  async detail(queue = 'q'): Promise<QueueDetail> {
    const detail = await this.call<QueueDetail | null, QueueDetail | null>(
      (reply) => this.shard.queueDetail(queue, reply),
      (found) => found,
    );
    assert.ok(detail);
    return detail;
  }

  deadLetters(): Promise<DeadLetterPage> {
    return this.call<DeadLetterPage, DeadLetterPage>(
      (reply) => this.shard.deadLetters({ queue: null, group: null, limit: 100, offset: 0 }, reply),
      (page) => page,
    );
  }

  segmentFiles(): string[] {
    return this.disk.paths().filter((path) => path.endsWith('.seg'));
  }

  sidecarFiles(): string[] {
    return this.disk.paths().filter((path) => path.endsWith('.idx'));
  }
}

/** Numbered records of one partition, one append each; their payloads fill segments. */
function records(from: number, count: number, partition = 'p') {
  return Array.from({ length: count }, (_, i) => ({
    partition,
    id: `${partition}-${from + i}`,
    payload: 'y'.repeat(200),
  }));
}

async function pushEach(machine: Machine, items: ReturnType<typeof records>): Promise<void> {
  for (const item of items) await machine.push([item]);
}

describe('retention', () => {
  // S-020, S-023: ids outlive their messages
  it('removes what is older than retentionSeconds, keeps offsets, and remembers ids', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 });
    await pushEach(machine, records(0, 5));
    await machine.pass(6);
    await pushEach(machine, records(5, 3));
    await machine.pass(6);
    const { partitions, messages, retainedBytes } = await machine.detail();
    assert.equal(messages.total, 3);
    assert.equal(partitions[0].counts.total, 3);
    assert.equal(partitions[0].retainedBytes, retainedBytes);
    const { records: got } = await machine.pop('g');
    assert.deepEqual(
      got.map(({ offset }) => offset),
      [5, 6, 7],
    );
    const again = await machine.push([{ id: 'p-0' }, { id: 'p-8' }]);
    assert.deepEqual([...again.statuses], [itemStatus.duplicate, itemStatus.queued]);
    assert.deepEqual([...again.offsets], [0, 8]);
    await machine.check();
  });

  it('gives the disk back, survives restarts, and goes on where it was', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 });
    await pushEach(machine, records(0, 400));
    assert.ok(machine.segmentFiles().length > 8);
    await machine.pass(30);
    assert.ok(machine.segmentFiles().length <= 2, `${machine.segmentFiles()}`);
    assert.ok(machine.sidecarFiles().length > 8, 'ids outlive their segments');
    await machine.check();
    await machine.restart();
    await machine.check();
    const outcome = await machine.push([{ id: 'p-17' }, { id: 'new' }]);
    assert.deepEqual([...outcome.statuses], [itemStatus.duplicate, itemStatus.queued]);
    assert.deepEqual([...outcome.offsets], [17, 400]);
    machine.kill('power');
    await machine.start();
    await machine.check();
    assert.deepEqual(
      (await machine.pop('g')).records.map(({ offset }) => offset),
      [400],
    );
  });

  it('is done also by a broker that is killed before its second pass, time and again, while messages come', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 });
    await pushEach(machine, records(0, 400));
    assert.ok(machine.segmentFiles().length > 8);
    machine.kill('kill');
    await machine.scheduler.advance(60_000);
    for (let life = 0; life < 6; life++) {
      await machine.start();
      await machine.pass(0.9);
      await machine.check();
      await pushEach(machine, records(400 + life, 1));
      machine.kill(life % 2 === 0 ? 'kill' : 'power');
    }
    assert.ok(machine.segmentFiles().length <= 2, `${machine.segmentFiles()}`);
    await machine.start();
    const { records: got } = await machine.pop('g');
    assert.deepEqual(
      got.map(({ offset }) => offset),
      [400, 401, 402, 403, 404, 405],
    );
  });

  it('by completedRetentionSeconds removes only what every group consumed, and a group that begins holds it back', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, completedRetentionSeconds: 2 });
    await pushEach(machine, records(0, 6));
    await machine.pass(8);
    assert.equal((await machine.detail()).messages.total, 6, 'nobody consumed it');
    const first = await machine.pop('a', 4);
    await machine.ack('a', first.leaseStamp, first.records);
    await machine.pass(3);
    assert.equal((await machine.detail()).messages.total, 2, 'the one group that there is consumed four');
    // A group that begins with everything has consumed nothing, and has no position in the second partition.
    await pushEach(machine, records(0, 2, 'other'));
    assert.equal((await machine.pop('b', 1)).records[0].offset, 4);
    const rest = await machine.pop('a', 10, 10);
    await machine.ack('a', rest.leaseStamp, rest.records);
    await machine.pass(8);
    assert.equal((await machine.detail()).messages.total, 4);
    await machine.check();
  });

  it('by maxWaitTimeSeconds removes also what is leased; the ack that comes then is answered and moves the cursor', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ maxWaitTimeSeconds: 5, retryLimit: 0 });
    await pushEach(machine, records(0, 3));
    await machine.push([{ payload: 'without an id' }]);
    const { leaseStamp, records: leased } = await machine.pop('g', 4);
    assert.equal(leased.length, 4);
    await machine.pass(10);
    const { messages, partitions } = await machine.detail();
    assert.deepEqual(messages, { total: 0, pending: 0, processing: 0, completed: 0, deadLetter: 0 });
    assert.equal(partitions[0].counts.processing, 0);
    await pushEach(machine, records(10, 2));
    const { identity } = machine.shard;
    const minted = idText(identity, 1_700_000_000_000_100, 1, 0);
    const failed = await machine.ack('g', leaseStamp, [{ id: 'p-0' }, { id: 'p-1', status: 'failed' }, { id: minted }]);
    assert.deepEqual(failed.deadLettered, [0, 0, 0], 'what is gone is not filed');
    const next = await machine.pop('g');
    assert.deepEqual(
      next.records.map(({ offset }) => offset),
      [4, 5],
    );
    assert.deepEqual((await machine.ack('g', next.leaseStamp, next.records)).errors, [0, 0]);
    assert.equal((await machine.detail()).messages.pending, 0);
    await machine.check();
  });

  // S-047
  it('never delivers an expired message, also before it was removed', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 1 });
    await pushEach(machine, records(0, 3));
    await machine.pass(0.95);
    await pushEach(machine, records(3, 1));
    await machine.pass(0.3);
    assert.deepEqual(
      (await machine.pop('g')).records.map(({ offset }) => offset),
      [3],
    );
    await machine.pass(5);
    assert.equal((await machine.detail()).messages.total, 0);
    await machine.check();
  });

  // S-046
  it('under readers removes only at the old end: what they get is whole and in order', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 3 });
    const next = new Map([
      ['fast', 0],
      ['slow', 0],
    ]);
    let holes = 0;
    for (let round = 0; round < 100; round++) {
      await pushEach(machine, records(round * 4, 4));
      for (const [group, from] of next) {
        // Not right before a pass: what a pop has passed over nobody misses.
        if (group === 'slow' && round % 5 !== 2) continue;
        const { leaseStamp, records: got } = await machine.pop(group, 6);
        if (got.length === 0) continue;
        const [{ offset: first }] = got;
        assert.ok(first >= from);
        if (first > from) holes++;
        got.forEach(({ offset, id, payload }, i) => {
          assert.deepEqual([offset, id, payload.length], [first + i, `p-${first + i}`, 202]);
        });
        assert.deepEqual(new Set((await machine.ack(group, leaseStamp, got)).errors), new Set([0]));
        next.set(group, first + got.length);
      }
      await machine.pass(0.2);
    }
    assert.ok(holes > 0 && (machine.shard.metrics()['missedRecords'] ?? 0) > 0);
    await machine.check();
  });

  it('takes hold of what exists when its options are set later, and lets go when they are taken back', async () => {
    const machine = new Machine();
    await machine.start();
    for (let i = 0; i < 30; i++) await pushEach(machine, records(0, 2, `p${i}`));
    await machine.pass(10);
    await machine.configure({ retentionEnabled: true, retentionSeconds: 5 });
    await machine.pass(3);
    assert.equal((await machine.detail()).messages.total, 0);
    await pushEach(machine, records(10, 2));
    await machine.configure({ retentionEnabled: false });
    await machine.restart();
    await machine.pass(20);
    assert.equal((await machine.detail()).messages.total, 2);
    await machine.check();
  });
});

describe('reclaiming', () => {
  // S-018
  it('keeps dead letters readable after their message, and their segment, are gone', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10, retryLimit: 0 });
    await machine.push([{ id: 'bad', payload: 'spoilt' }]);
    const { leaseStamp } = await machine.pop('g');
    assert.deepEqual((await machine.ack('g', leaseStamp, [{ id: 'bad', status: 'dlq' }])).deadLettered, [1]);
    await pushEach(machine, records(0, 400));
    const [first] = machine.segmentFiles();
    await machine.pass(40);
    assert.ok(!machine.segmentFiles().includes(first));
    for (const restart of [false, true]) {
      if (restart) await machine.restart();
      const { rows } = await machine.deadLetters();
      assert.equal(rows.length, 1);
      assert.equal(textDecoder.decode(rows[0].payload), '"spoilt"');
      assert.equal(rows[0].transactionId, 'bad');
      assert.equal(rows[0].offset, 0);
      await machine.check();
    }
  });

  it('relocates what is left in sparse segments, again and again, and every record is delivered in order', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 }, 'noise');
    const kept: string[] = [];
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 20; i++) {
        const id = `k-${kept.length}`;
        await machine.push([{ id, payload: id, partition: 'kept' }]);
        kept.push(id);
        for (const item of records(kept.length * 10, 8, 'noise')) await machine.push([{ ...item, queue: 'noise' }]);
      }
      await machine.pass(30);
      await machine.check();
      if (round === 1) await machine.restart();
      if (round === 2) {
        machine.kill('power');
        await machine.start();
      }
    }
    assert.ok(machine.shard.metrics()['relocatedBytes'] > 0);
    assert.ok(machine.segmentFiles().length <= 6, `${machine.segmentFiles()}`);
    for (const group of ['a', 'b']) {
      const { records: got } = await machine.pop(group, 1000);
      assert.deepEqual(
        got.map(({ id }) => id),
        kept,
      );
      assert.deepEqual(
        got.map(({ offset }) => offset),
        kept.map((_, i) => i),
      );
      await machine.restart();
    }
    assert.deepEqual([...(await machine.push([{ id: 'k-3', partition: 'kept' }])).offsets], [3]);
    await machine.check();
  });

  it('frees segments that hold little else than positions of groups, though nothing was removed', async () => {
    const machine = new Machine();
    await machine.start();
    await pushEach(machine, records(0, 40));
    const before = machine.segmentFiles().length;
    for (let i = 0; i < 300; i++) {
      const { leaseStamp, records: got } = await machine.pop(`g${i}`, 1);
      await machine.ack(`g${i}`, leaseStamp, [{ id: got[0].id, pid: got[0].pid, status: 'completed' }]);
    }
    const grown = machine.segmentFiles().length;
    await machine.pass(60);
    const after = machine.segmentFiles().length;
    assert.ok(grown > before + 3 && after <= before + 3, `${before} segments, then ${grown}, then ${after}`);
    await machine.check();
    await machine.restart();
    assert.equal((await machine.pop('new', 100)).records.length, 40);
  });

  it('reads no sidecar again and again while nothing is removed', async () => {
    const machine = new Machine();
    await machine.start();
    let visits = 0;
    const { segments } = machine.store;
    const visit = segments.visitBlocks;
    segments.visitBlocks = (...given) => {
      visits++;
      return visit(...given);
    };
    await pushEach(machine, records(0, 400));
    await machine.pass(60);
    assert.ok(machine.sidecarFiles().length > 10);
    assert.equal(visits, 0);
  });

  it('is verified from where the log is complete, also when a power cut brings an older snapshot back', async () => {
    const machine = new Machine(0, 4096);
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 });
    await pushEach(machine, records(0, 60));
    await machine.pass(1);
    const superseded = machine.disk.paths().filter((path) => path.endsWith('.snap'))[0];
    const bytes = machine.disk.contents(superseded);
    await pushEach(machine, records(60, 300));
    await machine.pass(40);
    assert.ok(machine.shard.metrics()['reclaimedSegments'] > 5);
    assert.ok(!machine.disk.paths().includes(superseded));
    machine.disk.place(superseded, bytes);
    await machine.check();
    await machine.restart();
    await machine.check();
  });

  it('frees the segments of a deleted queue', async () => {
    const machine = new Machine();
    await machine.start();
    await pushEach(machine, records(0, 300));
    await machine.call(
      (reply: Reply<{ existed: boolean }>) => machine.shard.deleteQueue('q', reply),
      ({ existed }) => assert.ok(existed),
    );
    await machine.push([{ queue: 'other', id: 'one' }]);
    await machine.pass(20);
    assert.ok(machine.segmentFiles().length <= 2, `${machine.segmentFiles()}`);
    await machine.check();
    await machine.restart();
    await machine.check();
  });

  it('forgets the ids of a reclaimed segment when the window is over, and removes its sidecar', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ maxWaitTimeSeconds: 5, dedupWindowSeconds: 1000 });
    await pushEach(machine, records(0, 200));
    await machine.pass(20);
    assert.equal((await machine.push([{ id: 'p-3' }])).statuses[0], itemStatus.duplicate);
    await machine.pass(1000);
    assert.deepEqual(machine.sidecarFiles().length <= 2, true);
    assert.deepEqual(
      machine.disk.paths().filter((path) => path.endsWith('.copy')),
      [],
    );
    assert.equal((await machine.push([{ id: 'p-3' }])).statuses[0], itemStatus.queued);
    await machine.check();
  });

  it('keeps the ids of reclaimed segments through damage to their sidecars, and says so when both copies are gone', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ maxWaitTimeSeconds: 5, dedupWindowSeconds: 100_000 });
    await pushEach(machine, records(0, 400));
    await machine.pass(30);
    assert.ok(machine.segmentFiles().length <= 2);
    const sidecars = machine.sidecarFiles().filter((path) => machine.disk.paths().includes(`${path}.copy`));
    assert.ok(sidecars.length > 8);
    /** Page 0 is the header, the blocks follow, then the ids. */
    const damage = (path: string): void => {
      const { length } = machine.disk.contents(path);
      for (let at = 100; at < length; at += 4096) machine.disk.flip(path, at);
    };
    const pushAgain = async (): Promise<number[]> => {
      const outcome = await machine.push(records(0, 400));
      return [...outcome.statuses];
    };
    const all = (status: number) => Array.from({ length: 400 }, () => status);
    // Met by a question.
    await machine.restart();
    for (const path of sidecars) damage(path);
    assert.deepEqual(await pushAgain(), all(itemStatus.duplicate));
    // Met at a start, and missing altogether.
    for (const [i, path] of sidecars.entries()) {
      if (i % 2 === 0) damage(path);
      else await machine.scheduler.runUntil(machine.disk.remove(path));
    }
    await machine.restart();
    assert.deepEqual(await pushAgain(), all(itemStatus.duplicate));
    await machine.check();
    // A damaged copy changes nothing as long as the sidecar holds.
    for (const path of sidecars) damage(`${path}.copy`);
    await machine.restart();
    assert.deepEqual(await pushAgain(), all(itemStatus.duplicate));
    assert.deepEqual(machine.complaints, []);
    damage(sidecars[0]);
    await machine.restart();
    assert.equal((await pushAgain()).filter((status) => status === itemStatus.queued).length > 0, true);
    assert.equal(machine.complaints.length, 1);
    assert.match(machine.complaints[0], /ids in it are forgotten/);
    assert.equal(machine.disk.paths().includes(`${sidecars[0]}.copy`), false);
  });

  it('a segment that is missing and was not reclaimed is damage with a name', async () => {
    const machine = new Machine();
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 10 });
    await pushEach(machine, records(0, 200));
    await machine.pass(30);
    await machine.configure({ retentionEnabled: false });
    await pushEach(machine, records(200, 200));
    await machine.stop();
    const victim = machine.segmentFiles()[2];
    machine.disk.takeAway(victim);
    await assert.rejects(machine.start(), /was not reclaimed: a segment is missing or cut/);
  });
});

describe('when the disk fails while segments are emptied and given back', () => {
  for (const kind of ['fails', 'is the last one before a power cut'] as const) {
    it(`whichever operation ${kind}: nothing that is kept is lost, and the disk is given back in the end`, async () => {
      let isReached = true;
      for (let number = 1; isReached; number += kind === 'fails' ? 1 : 3) {
        const machine = new Machine(0, 4096);
        await machine.start();
        await machine.configure({ retentionEnabled: true, retentionSeconds: 10 }, 'noise');
        await machine.configure({ retryLimit: 0, retentionEnabled: true, retentionSeconds: 10 }, 'dead');
        await machine.push([{ queue: 'dead', id: 'bad', payload: 'spoilt' }]);
        const { leaseStamp, records: got } = await machine.pop('g', 1, 1, 'dead');
        await machine.ack('g', leaseStamp, [{ id: 'bad', pid: got[0].pid, status: 'dlq' }]);
        for (let i = 0; i < 4; i++) {
          await machine.push([{ id: `kept-${i}`, partition: 'kept', payload: `${i}` }]);
          for (const item of records(i * 30, 24, 'noise')) await machine.push([{ ...item, queue: 'noise' }]);
        }
        await machine.pass(9);
        if (kind === 'fails') machine.disk.failOperation(number);
        const endOperations = machine.disk.operations + number;
        for (let step = 0; step < 1200 && (kind === 'fails' || machine.disk.operations < endOperations); step++) {
          await machine.scheduler.advance(10);
        }
        isReached = kind === 'fails' ? !machine.disk.failureIsPending : machine.disk.operations >= endOperations;
        machine.complaints.length = 0;
        machine.kill('power');
        await machine.start();
        await machine.pass(15);
        assert.ok(machine.segmentFiles().length <= 3, `operation ${number} leaves ${machine.segmentFiles()}`);
        await machine.check();
        assert.deepEqual(
          (await machine.pop('h')).records.map(({ id }) => id),
          ['kept-0', 'kept-1', 'kept-2', 'kept-3'],
        );
        assert.equal(textDecoder.decode((await machine.deadLetters()).rows[0].payload), '"spoilt"');
        const again = await machine.push([{ id: 'noise-3', queue: 'noise', partition: 'noise' }]);
        assert.deepEqual([...again.statuses], [itemStatus.duplicate]);
        assert.deepEqual(machine.complaints, []);
      }
    });
  }
});

describe('cleanup of partitions', () => {
  // S-079
  it('deletes one that was emptied long ago, keeps those with dead letters, and begins anew with the next push', async () => {
    const machine = new Machine(60_000_000);
    await machine.start();
    await machine.configure({ retentionEnabled: true, retentionSeconds: 5, retryLimit: 0 });
    for (const partition of ['a', 'b', 'c', 'd']) await machine.push([{ partition, id: `${partition}-0` }]);
    const { leaseStamp, records: got } = await machine.pop('g', 10, 10);
    const bad = got.find(({ id }) => id === 'b-0');
    assert.ok(bad);
    await machine.ack('g', leaseStamp, [{ ...bad, status: 'dlq' }]);
    await machine.pass(50);
    await machine.pass(60);
    assert.equal((await machine.detail()).partitionCount, 4, 'their leases ended less than a minute ago');
    await machine.push([{ partition: 'c', id: 'c-1' }]);
    await machine.pass(20);
    await machine.restart();
    await machine.pass(20);
    const { partitions, partitionCount } = await machine.detail();
    assert.equal(partitionCount, 2);
    assert.deepEqual(
      partitions.map(({ name }) => name),
      ['b', 'c'],
    );
    await machine.check();
    const again = await machine.push([
      { partition: 'd', id: 'd-0' },
      { partition: 'a', id: 'a-1' },
    ]);
    assert.deepEqual([...again.statuses], [itemStatus.queued, itemStatus.queued], 'a new partition knows no ids');
    assert.deepEqual([...again.offsets], [0, 0]);
    assert.ok(again.pids.every((pid) => pid > 4));
    const next = await machine.pop('g', 10, 10);
    assert.deepEqual(next.records.map(({ id }) => id).sort(), ['a-1', 'd-0']);
    await machine.check();
  });
});
