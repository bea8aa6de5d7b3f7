/** Decisions that need more of a partition's backlog at once than one reading from disk brings. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BlockReader, createHasher, scanAckBody, scanPushBody } from '../../src/codec/mod.ts';
import { type AckOutcome, idText, type PopOutcome } from '../../src/core/mod.ts';
import type { PopRequest, Reply, Shard } from '../../src/runtime/mod.ts';
import { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { SimulatedProcess } from '../simulation/simulated-process.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';
import { SimulatedScheduler } from '../simulation/simulated-scheduler.ts';

const appends = 3000;
const reader = new BlockReader();

class Machine {
  readonly scheduler = new SimulatedScheduler();
  readonly #disk = new SimulatedDisk({ scheduler: this.scheduler, latencyMsMax: 0.01 });
  #process: SimulatedProcess | null = null;

  get shard(): Shard {
    const shard = this.#process?.shard;
    if (shard === undefined) throw new Error('the broker does not run');
    return shard;
  }

  /** Stops the broker, so that nothing of the log is in memory, and starts it again. */
  async restart(): Promise<void> {
    await createHasher(0, 0);
    if (this.#process !== null) await this.scheduler.runUntil(this.#process.stop());
    this.#process = new SimulatedProcess({
      disk: this.#disk,
      scheduler: this.scheduler,
      random: new SimulatedRandom(1),
      cipher: null,
      logOptions: { segmentBytes: 65_536, slabBytes: 4096, tailBytes: 4096, coldBytes: 0, coldPageBytes: 1024 },
      indexOptions: {},
      snapshotLogBytes: 2 ** 30,
      turnDelayMsMax: 0,
      hooks: {},
      wallUs: () => 1_700_000_000_000_000,
      isDiskFull: () => false,
      log: () => undefined,
      fatal: (error) => {
        throw error;
      },
      opened: async () => undefined,
    });
    await this.scheduler.runUntil(this.#process.start());
  }

  async call<Outcome, Answer>(
    send: (reply: Reply<Outcome>) => void,
    read: (outcome: Outcome) => Answer,
  ): Promise<Answer> {
    let answer: Answer | undefined;
    const answered = new Promise<Answer>((resolve, reject) => {
      send({
        encode: (outcome) => {
          answer = read(outcome);
        },
        send: (failure) => (failure === null ? resolve(answer as Answer) : reject(new Error(failure.message))),
      });
    });
    return this.scheduler.runUntil(answered);
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
