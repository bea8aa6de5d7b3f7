/** A broker on a machine in virtual time, whose log is small enough that hardly any of it stays in memory. */
import assert from 'node:assert/strict';
import { createHasher } from '../../src/codec/mod.ts';
import { hashState, StateReplay } from '../../src/data-folder.ts';
import type { Reply, Shard, Store } from '../../src/runtime/mod.ts';
import { verifyLog } from '../../src/storage/offline.ts';
import { SimulatedDisk } from '../simulation/simulated-disk.ts';
import { type ProcessHost, SimulatedProcess } from '../simulation/simulated-process.ts';
import { SimulatedRandom } from '../simulation/simulated-random.ts';
import { SimulatedScheduler } from '../simulation/simulated-scheduler.ts';

export class VirtualMachine {
  readonly scheduler = new SimulatedScheduler();
  readonly disk = new SimulatedDisk({ scheduler: this.scheduler, latencyMsMax: 0.01 });
  /** What the broker logged as errors. */
  readonly complaints: string[] = [];
  readonly #segmentBytes: number;
  readonly #host: Partial<ProcessHost>;
  #process: SimulatedProcess | null = null;

  /** @param host what is not as usual here. */
  constructor(segmentBytes: number, host: Partial<ProcessHost> = {}) {
    this.#segmentBytes = segmentBytes;
    this.#host = host;
  }

  get shard(): Shard {
    const shard = this.#process?.shard;
    if (shard === undefined) throw new Error('the broker does not run');
    return shard;
  }

  get store(): Store {
    const store = this.#process?.store;
    if (store === undefined) throw new Error('the broker does not run');
    return store;
  }

  async start(): Promise<void> {
    await createHasher(0, 0);
    this.#process = new SimulatedProcess({
      disk: this.disk,
      scheduler: this.scheduler,
      random: new SimulatedRandom(1),
      cipher: null,
      logOptions: {
        segmentBytes: this.#segmentBytes,
        slabBytes: 4096,
        tailBytes: 4096,
        coldBytes: 0,
        coldPageBytes: 1024,
      },
      indexOptions: {},
      snapshotLogBytes: 2 ** 30,
      turnDelayMsMax: 0,
      hooks: {},
      wallUs: () => 1_700_000_000_000_000 + Math.floor(this.scheduler.nowMs * 1000),
      isDiskFull: () => false,
      log: (level, text) => {
        if (level === 'error') this.complaints.push(text);
      },
      fatal: (error) => {
        throw error;
      },
      opened: async () => undefined,
      ...this.#host,
    });
    await this.scheduler.runUntil(this.#process.start());
  }

  async stop(): Promise<void> {
    if (this.#process !== null) await this.scheduler.runUntil(this.#process.stop());
    this.#process = null;
  }

  kill(kind: 'kill' | 'power'): void {
    this.#process?.die();
    this.#process = null;
    if (kind === 'power') this.disk.crash();
    else this.disk.kill();
  }

  /** Stops the broker, if it runs, so that nothing of the log is in memory, and starts it. */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Replays the folder from its oldest snapshot and compares with the state that the broker has. */
  async check(): Promise<void> {
    const hasher = await createHasher(0, 0);
    const copy = this.disk.copy();
    const replay = await StateReplay.over(copy, hasher);
    const report = await verifyLog(copy, hasher, (header, bytes, view, from, to) => {
      replay.visit(header, bytes, view, from, to);
    });
    assert.deepEqual(report.damage, []);
    assert.equal(await hashState(replay.state), await hashState(this.shard.context.state));
    assert.deepEqual(this.complaints, []);
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
}
