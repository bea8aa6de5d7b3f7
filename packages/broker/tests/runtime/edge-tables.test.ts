/** Edge tables on a broker in virtual time: reclaiming, waiting polls, restarts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EdgeMachine, type Polled, seqOf } from './edge-machine.ts';

const long = 'y'.repeat(200);

describe('reclaiming of edge values', () => {
  it('keeps segments with live values, and gives back those of committed messages', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    const { partitions } = await machine.enqueue([{ seq: 0, value: 'first' }]);
    const [partition] = partitions;
    for (let seq = 1; seq <= 300; seq++) await machine.enqueue([{ seq, value: `${seq}${long}` }]);
    const full = machine.segmentFiles().length;
    assert.ok(full > 6);
    await machine.pass(60);
    assert.ok(machine.segmentFiles().length >= full - 1, 'all values are needed');
    assert.equal(await machine.commit(partition, 290), 291);
    await machine.pass(60);
    assert.ok(machine.segmentFiles().length <= 3, `${machine.segmentFiles()}`);
    await machine.check();
    await machine.restart();
    const { seqs, values } = await machine.poll(partition);
    assert.deepEqual(
      seqs,
      Array.from({ length: 10 }, (_, i) => `${291 + i}`),
    );
    for (const [i, value] of values.entries()) assert.equal(value, JSON.stringify(`${291 + i}${long}`));
    await machine.check();
  });

  it('moves the few values that are left in sparse segments, and they are read from where they went', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    const kept: string[] = [];
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 20; i++) {
        const value = `kept ${kept.length}`;
        await machine.enqueue([{ seq: 1_000_000 + kept.length, value }]);
        await machine.insert([{ source: 'kept', target: kept.length, rank: -kept.length, text: value }]);
        kept.push(value);
        for (let seq = 0; seq < 4; seq++) await machine.enqueue([{ seq, value: long }]);
        await machine.insert([{ source: 'noise', target: i, rank: i, text: long }]);
      }
      await machine.commit(0, 1000);
      await machine.commit(1, 1000);
      assert.equal(await machine.scanDelete('noise', 1000), 20);
      await machine.pass(40);
      await machine.check();
      if (round === 0) await machine.restart();
      if (round === 1) {
        machine.kill('power');
        await machine.start();
      }
    }
    assert.ok(machine.shard.metrics()['relocatedBytes'] > 0);
    assert.ok(machine.segmentFiles().length <= 6, `${machine.segmentFiles()}`);
    for (const isCold of [false, true]) {
      if (isCold) await machine.restart();
      const values = [...(await machine.poll(0)).values, ...(await machine.poll(1)).values];
      assert.deepEqual(
        values,
        kept.map((value) => JSON.stringify(value)),
      );
      const edges = await machine.scan('kept');
      assert.deepEqual(
        edges.map((text) => JSON.parse(`{${text}}`).properties.text),
        kept,
      );
    }
    await machine.check();
  });

  it('gives back what a deleted queue and an emptied table took', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    for (let i = 0; i < 150; i++) {
      await machine.enqueue([{ seq: i, value: long }]);
      await machine.insert([{ source: 's', target: i, rank: i, text: long }]);
    }
    const { edgeQueues } = machine.shard;
    await machine.call<object, null>(
      (reply) => edgeQueues.setActive('ns', 'q', false, reply),
      () => null,
    );
    await machine.call<object, null>(
      (reply) => edgeQueues.delete('ns', 'q', reply),
      () => null,
    );
    assert.equal(await machine.scanDelete('s', 1000), 150);
    await machine.pass(60);
    assert.ok(machine.segmentFiles().length <= 3, `${machine.segmentFiles()}`);
    await machine.restart();
    await machine.check();
  });
});

describe('waiting polls', () => {
  it('are answered by the message that enters their range, and empty when their time is over', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    const { partitions } = await machine.enqueue([{ seq: 5 }]);
    const [partition] = partitions;
    const waiting = machine.beginPoll(partition, { after: seqOf(10) }, 5000);
    await machine.enqueue([{ seq: 7 }]);
    await machine.enqueue([{ seq: 11, value: 'here' }]);
    assert.deepEqual((await waiting).values, ['"here"']);
    const began = machine.scheduler.nowMs;
    assert.deepEqual((await machine.poll(partition, { after: seqOf(11) }, 5000)).values, []);
    assert.ok(machine.scheduler.nowMs - began >= 5000 && machine.scheduler.nowMs - began < 5100);
  });

  it('with until=now are answered when a message comes due', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    const nowMs = Math.floor(machine.shard.nowUs() / 1000);
    const { partitions } = await machine.enqueue([{ seq: nowMs + 3000, value: 'due' }]);
    const began = machine.scheduler.nowMs;
    const early = await machine.poll(partitions[0], { until: 'now' });
    assert.deepEqual([early.seqs, early.hasNext], [[], false]);
    assert.deepEqual((await machine.poll(partitions[0], { until: 'now' }, 30_000)).values, ['"due"']);
    const tookMs = machine.scheduler.nowMs - began;
    assert.ok(tookMs >= 2990 && tookMs < 3100, `${tookMs}`);
  });

  it('are refused when their queue is disabled, and answered empty when the broker stops', async () => {
    const machine = new EdgeMachine();
    await machine.begin();
    const waiting = machine.beginPoll(0, {}, 30_000);
    const disabled = machine.call<object, null>(
      (reply) => machine.shard.edgeQueues.setActive('ns', 'q', false, reply),
      () => null,
    );
    await Promise.all([disabled, assert.rejects(waiting, /queue is disabled/)]);
    await machine.call<object, null>(
      (reply) => machine.shard.edgeQueues.setActive('ns', 'q', true, reply),
      () => null,
    );
    const last: Promise<Polled> = machine.beginPoll(0, {}, 30_000);
    const began = machine.scheduler.nowMs;
    await machine.stop();
    assert.deepEqual((await last).seqs, []);
    assert.ok(machine.scheduler.nowMs - began < 1000);
  });
});

describe('dedupId', () => {
  it('is remembered across restarts and a snapshot for its time, and takes effect once', async () => {
    const machine = new EdgeMachine(4096);
    await machine.begin();
    assert.equal(
      (
        await machine.enqueue([
          { seq: 1, dedupId: 'a' },
          { seq: 2, dedupId: 'a' },
        ])
      ).created,
      1,
    );
    for (let seq = 10; seq < 60; seq++) await machine.enqueue([{ seq, value: long }]);
    await machine.restart();
    assert.equal(
      (
        await machine.enqueue([
          { seq: 3, dedupId: 'a' },
          { seq: 4, dedupId: 'b' },
        ])
      ).created,
      1,
    );
    machine.kill('power');
    await machine.start();
    assert.equal((await machine.enqueue([{ seq: 5, dedupId: 'b' }])).created, 0);
    await machine.pass(61);
    assert.equal((await machine.enqueue([{ seq: 6, dedupId: 'b' }])).created, 1);
    await machine.check();
  });
});
