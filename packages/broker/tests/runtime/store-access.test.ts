/** Decisions that need more of a partition's backlog at once than one reading from disk brings. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BlockReader, scanAckBody, scanPushBody } from '../../src/codec/mod.ts';
import { type AckOutcome, idText, type PopOutcome } from '../../src/core/mod.ts';
import type { PopRequest } from '../../src/runtime/mod.ts';
import { VirtualMachine } from './virtual-machine.ts';

const appends = 3000;
const reader = new BlockReader();

class Machine extends VirtualMachine {
  constructor() {
    super(65_536);
  }

  /** One append per record; its id and payload are its offset. */
  async push(): Promise<void> {
    const answered: Promise<unknown>[] = [];
    for (let n = 0; n < appends; n++) {
      const items = [{ queue: 'q', partition: 'p', transactionId: `id-${n}`, payload: n }];
      const scanned = scanPushBody(Buffer.from(JSON.stringify({ items })));
      if (!scanned.ok) throw new Error(scanned.message);
      answered.push(
        new Promise((resolve) => {
          this.shard.push(scanned.items, { encode: () => undefined, send: resolve });
        }),
      );
    }
    await this.scheduler.runUntil(Promise.all(answered));
  }

  pop(conflation: boolean): Promise<{ leaseStamp: number; offsets: number[] }> {
    const request: PopRequest = {
      target: { kind: 'queue', queue: 'q' },
      group: 'g',
      batch: 1,
      partitions: null,
      wait: false,
      timeoutMs: 1000,
      leaseSeconds: 60,
      subscriptionMode: 'all',
      subscriptionFrom: null,
      commitOnDelivery: false,
      conflation,
      autopilot: false,
    };
    return this.call<PopOutcome, { leaseStamp: number; offsets: number[] }>(
      (reply) => this.shard.pop(request, reply),
      ({ leaseStamp, runs }) => ({
        leaseStamp,
        offsets: runs.flatMap((run) =>
          run.pieces.map(({ bytes, view, at, fromIndex }) => reader.open(bytes, view, at).firstOffset + fromIndex),
        ),
      }),
    );
  }

  ack(id: string, leaseStamp: number): Promise<number[]> {
    const { identity } = this.shard;
    const leaseId = leaseStamp === 0 ? null : idText(identity, leaseStamp, 0, 0);
    const acknowledgments = [{ transactionId: id, partitionId: '1', leaseId, status: 'completed' }];
    const scanned = scanAckBody(Buffer.from(JSON.stringify({ acknowledgments, consumerGroup: 'g' })), identity);
    if (!scanned.ok) throw new Error(scanned.message);
    return this.call<AckOutcome, number[]>(
      (reply) => this.shard.ack('g', scanned.items, reply),
      (outcome) => [...outcome.errors.subarray(0, outcome.count)],
    );
  }

  configure(delayedProcessing: number): Promise<null> {
    const request = {
      queue: 'q',
      namespace: null,
      task: null,
      mode: 'merge' as const,
      options: { delayedProcessing },
    };
    return this.call(
      (reply) => this.shard.configureQueue(request, reply),
      () => null,
    );
  }
}

describe('a long backlog on disk', () => {
  it('is searched to its end for an ack without a lease', async () => {
    const machine = new Machine();
    await machine.restart();
    await machine.push();
    const { leaseStamp } = await machine.pop(false);
    assert.deepEqual(await machine.ack('id-0', leaseStamp), [0]);
    await machine.restart();
    assert.deepEqual(await machine.ack(`id-${appends - 1}`, 0), [0]);
    assert.deepEqual((await machine.pop(false)).offsets, [], 'everything below was committed with it');
  });

  it('is delivered by its newest record to a group that conflates', async () => {
    const machine = new Machine();
    await machine.restart();
    await machine.push();
    await machine.restart();
    assert.deepEqual((await machine.pop(true)).offsets, [appends - 1]);
  });

  it('that is still held back is given to nobody, and then by its newest record', async () => {
    const machine = new Machine();
    await machine.restart();
    await machine.configure(1000);
    await machine.push();
    await machine.restart();
    assert.deepEqual((await machine.pop(true)).offsets, []);
    await machine.configure(0);
    assert.deepEqual((await machine.pop(true)).offsets, [appends - 1]);
  });
});
