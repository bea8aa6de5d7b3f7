/**
 * One seed's world: a machine with a disk, a broker process that dies and comes back, clients, and an auditor. It runs in
 * two phases. First everything goes wrong that the world has in store, and the auditor watches that no promise is
 * broken. Then all faults end, and the broker must get everything done: whatever was stored reaches every group, and
 * what is left at the end is exactly what is expected.
 */
import { createHasher, recordType } from '../../src/codec/mod.ts';
import { type BrokerState, idText } from '../../src/core/mod.ts';
import { hashState, StateReplay } from '../../src/data-folder.ts';
import type { DuePage, PopRequest, Store } from '../../src/runtime/mod.ts';
import { verifyLog } from '../../src/storage/offline.ts';
import { edgePartitions, type Page } from './audited-edges.ts';
import { AuditedEngine, type NetworkOptions, type Result } from './audited-engine.ts';
import { type AuditCounts, Auditor, type PopAnswer, Violation } from './auditor.ts';
import { DueOperator } from './due-operator.ts';
import type { EdgeAudit } from './edge-audit.ts';
import { EdgeClient } from './edge-client.ts';
import type { ExpectedQueue } from './expected-state.ts';
import { FaultInjector } from './faults.ts';
import type { GroupAudit } from './group-audit.ts';
import { GroupOperator, resumptions } from './group-operator.ts';
import { SimulatedCipher } from './simulated-cipher.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import { type ProcessHooks, SimulatedProcess } from './simulated-process.ts';
import { SimulatedRandom } from './simulated-random.ts';
import { SimulatedScheduler } from './simulated-scheduler.ts';
import { Trace } from './trace.ts';
import { startClients } from './workload.ts';
import type { WorldOptions } from './world-options.ts';

export interface WorldReport {
  /** null = all promises were kept. */
  readonly failure: Error | null;
  /** Of everything that happened, and of the state in the end: equal for equal seeds. */
  readonly hash: string;
  readonly counts: AuditCounts;
  readonly groupCounts: GroupAudit['counts'];
  readonly edgeCounts: EdgeAudit['counts'];
  readonly crashes: number;
  readonly reloads: number;
  readonly snapshots: number;
  readonly segments: number;
  readonly coldReads: number;
  readonly reclaimed: number;
  readonly relocatedBytes: number;
  readonly virtualMs: number;
  /** The last events, oldest first. */
  readonly events: readonly string[];
}

const withoutRetention = { retentionEnabled: false, maxWaitTimeSeconds: 0 };
const startUs = 1_700_000_000_000_000;
const stepMs = 50;
/** Virtual time within which a healed broker must have delivered everything: the longest lease, and some. */
const drainMsMax = 150_000;
const restartMsMax = 300;
/** What waits longer than this is not waited for. */
const distantUs = 60_000_000;

const compareEveryMs = 400;

export async function runWorld(options: WorldOptions, hooks: ProcessHooks = {}): Promise<WorldReport> {
  // The hash is loaded by the host, once, in real time: nothing in the world may wait for that.
  await createHasher(0, 0);
  const unheard: Error[] = [];
  const listen = (error: unknown): void => void unheard.push(error as Error);
  process.on('unhandledRejection', listen);
  const report = await new World(options, hooks).run();
  // The host tells of rejections that nobody heard between two of its own turns.
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', listen);
  if (unheard.length === 0 || report.failure !== null) return report;
  return { ...report, failure: new Violation(`a rejection goes unheard: ${unheard[0].stack}`) };
}

class World {
  readonly #options: WorldOptions;
  readonly #hooks: ProcessHooks;
  readonly #scheduler = new SimulatedScheduler();
  readonly #random: SimulatedRandom;
  readonly #disk: SimulatedDisk;
  readonly #auditor: Auditor;
  readonly #engine: AuditedEngine;
  readonly #network: NetworkOptions;
  readonly #faults: FaultInjector;
  readonly #trace = new Trace();
  #process: SimulatedProcess | null = null;
  #failure: Error | null = null;
  #wallOffsetUs = 0;
  #isDiskFull = false;
  #clientsAreOver = false;
  /** The world is coming to its end: processes are started by it alone. */
  #isEnding = false;
  #crashes = 0;
  #reloads = 0;
  #snapshots = 0;
  #coldReads = 0;
  #reclaimed = 0;
  /** Of the state as the folder was opened last. */
  #openedHash = '';
  #relocatedBytes = 0;

  constructor(options: WorldOptions, hooks: ProcessHooks) {
    this.#options = options;
    this.#hooks = hooks;
    const { seed } = options;
    const scheduler = this.#scheduler;
    this.#random = new SimulatedRandom(seed, 1);
    this.#disk = new SimulatedDisk({ seed, scheduler, latencyMsMax: options.diskLatencyMsMax });
    this.#auditor = new Auditor(
      500_000 + (options.diskLatencyMsMax + options.turnDelayMsMax) * 500_000,
      options.retention.housekeeping.cleanupUs,
    );
    this.#network = { delayMsMax: options.networkDelayMsMax, lossShare: options.lossShare };
    const cipher = new SimulatedCipher();
    this.#engine = new AuditedEngine({
      auditor: this.#auditor,
      scheduler,
      random: new SimulatedRandom(seed, 2),
      cipher,
      network: this.#network,
      process: () => this.#process,
      fail: (error) => this.#fail(error),
      trace: (text) => this.#note(text),
    });
    this.#faults = new FaultInjector({
      disk: this.#disk,
      scheduler,
      random: new SimulatedRandom(seed, 3),
      options,
      crash: (kind) => this.#crash(kind),
      restart: () => void this.#restart(),
      setDiskFull: (isFull) => {
        this.#isDiskFull = isFull;
      },
      sleep: (us) => this.#sleep(us),
      stepWallClock: (us) => {
        this.#wallOffsetUs += us;
      },
      segmentDamaged: () => {
        this.#auditor.mayStandStill = true;
      },
      trace: (text) => this.#note(text),
    });
  }

  async run(): Promise<WorldReport> {
    const { seed, durationMs, recordsMax } = this.#options;
    let finalHash = '';
    try {
      await this.#boot();
      await this.#pass(() => this.#process?.shard !== undefined, 10_000, 'the broker starts');
      const random = new SimulatedRandom(seed, 4);
      const host = {
        engine: this.#engine,
        scheduler: this.#scheduler,
        random,
        options: this.#options,
        wallUs: () => this.#wallUs(),
        identity: () => this.#process?.store?.state.identity ?? null,
        isOver: () => this.#clientsAreOver || this.#failure !== null,
      };
      startClients(host);
      if (GroupOperator.isNeeded(host)) new GroupOperator(host).start();
      if (DueOperator.isNeeded(host)) new DueOperator(host).start();
      EdgeClient.startAll(host);
      this.#faults.start();
      this.#compareAgainAndAgain();
      await this.#pass(() => this.#auditor.counts.pushed >= recordsMax, durationMs, null);
      finalHash = await this.#heal();
    } catch (error) {
      this.#fail(error as Error);
    }
    const process = this.#process;
    this.#takeStats();
    process?.die();
    return {
      failure: this.#failure,
      hash: `${this.#trace.hash} ${finalHash}`,
      counts: this.#auditor.counts,
      groupCounts: this.#auditor.groups.counts,
      edgeCounts: this.#auditor.edges.counts,
      crashes: this.#crashes,
      reloads: this.#reloads,
      snapshots: this.#snapshots,
      segments: this.#disk.paths().filter((path) => path.endsWith('.seg')).length,
      coldReads: this.#coldReads,
      reclaimed: this.#reclaimed,
      relocatedBytes: this.#relocatedBytes,
      virtualMs: this.#scheduler.nowMs,
      events: this.#trace.last(),
    };
  }

  #note(text: string): void {
    this.#trace.note(this.#scheduler.nowMs, text);
  }

  #fail(error: Error): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    this.#note(`FAILED: ${error.message}`);
  }

  #wallUs(): number {
    return startUs + this.#wallOffsetUs + Math.floor(this.#scheduler.nowMs * 1000);
  }

  /** Lets time pass until something holds. With a promise it is an error when it does not in time. */
  async #pass(holds: () => boolean, limitMs: number, promise: string | null): Promise<void> {
    const endMs = this.#scheduler.nowMs + limitMs;
    while (!holds()) {
      if (this.#failure !== null) throw this.#failure;
      if (this.#scheduler.nowMs >= endMs) {
        if (promise === null) return;
        throw new Violation(`${promise}, within ${limitMs} ms`);
      }
      await this.#scheduler.advance(Math.min(stepMs, endMs - this.#scheduler.nowMs));
    }
  }

  // The process

  async #boot(): Promise<void> {
    const process: SimulatedProcess = new SimulatedProcess({
      disk: this.#disk,
      scheduler: this.#scheduler,
      random: new SimulatedRandom(this.#options.seed, 5),
      cipher: new SimulatedCipher(),
      logOptions: {
        segmentBytes: this.#options.segmentBytes,
        slabBytes: this.#options.slabBytes,
        tailBytes: this.#options.tailBytes,
        coldBytes: this.#options.coldBytes,
        coldPageBytes: this.#options.coldPageBytes,
        zeroStepBytes: this.#options.zeroStepBytes,
        largeWriteBytes: this.#options.largeWriteBytes,
        openSegmentsMax: this.#options.openSegmentsMax,
        scanBytes: 65_536,
      },
      indexOptions: {
        keptRowBytes: this.#options.keptRowBytes,
        indexCacheBytes: this.#options.indexCacheBytes,
        rememberedBlocksMax: this.#options.rememberedBlocksMax,
        openSidecarsMax: this.#options.openSegmentsMax,
      },
      snapshotLogBytes: this.#options.snapshotLogBytes,
      housekeeping: this.#options.retention.housekeeping,
      turnDelayMsMax: this.#options.turnDelayMsMax,
      hooks: this.#hooks,
      wallUs: () => this.#wallUs(),
      isDiskFull: () => this.#isDiskFull,
      log: (level, text) => this.#logged(level, text),
      fatal: (error) => this.#fail(new Violation(`the broker ended itself: ${error.stack}`)),
      opened: (store) => this.#opened(store),
    });
    this.#process = process;
    this.#note('boot');
    process.start().then(
      () => this.#note('serving'),
      (error: unknown) => this.#startFailed(process, error as Error),
    );
  }

  #startFailed(process: SimulatedProcess, error: Error): void {
    this.#note(`the start failed: ${error.message}`);
    if (!this.#faults.mayComplain || error instanceof Violation) this.#fail(error);
    this.#bootLater(process, 500);
  }

  /** Starts the next process after this one, unless somebody else does. */
  #bootLater(process: SimulatedProcess, delayMs: number): void {
    this.#scheduler.after(delayMs, () => {
      if (this.#process === process && this.#failure === null) void this.#boot();
    });
  }

  #logged(level: string, text: string): void {
    this.#note(`${level}: ${text}`);
    // What cannot be built again is lost with its file, and the broker says so.
    if (text.includes('the ids in it are forgotten')) this.#auditor.mayForgetIds = true;
    if (level === 'error' && !this.#faults.mayComplain) this.#fail(new Violation(`the broker complains: ${text}`));
  }

  /** Every opening of the folder: what came out must be what the whole log says, and what the auditor expects. */
  async #opened(store: Store): Promise<void> {
    try {
      const lastDecided = await this.#checkReplay(store.state);
      this.#auditor.recovered(store.log.durableSequence, lastDecided, store.state);
      this.#auditor.mayStandStill = this.#faults.hasDamagedSegments;
      this.#openedHash = await hashState(store.state);
      this.#note(`opened at entry ${store.log.durableSequence}`);
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  /** Replays the whole log. Returns its last entry that holds decisions; a start that failed may leave a mark behind it. */
  async #checkReplay(state: BrokerState): Promise<number> {
    const hasher = await createHasher(0, 0);
    const replay = await StateReplay.over(this.#disk.copy(), hasher);
    const isWhole = !this.#faults.hasDamagedSegments;
    let lastDecided = 0;
    const report = await verifyLog(this.#disk.copy(), hasher, (header, bytes, view, from, to) => {
      if (view.getUint8(from + 4) !== recordType.closed) lastDecided = header.sequence;
      if (isWhole) replay.visit(header, bytes, view, from, to);
    });
    if (!isWhole) return lastDecided;
    if (report.damage.length > 0) throw new Violation(`the log is damaged: ${report.damage[0].reason}`);
    const live = await hashState(state);
    const replayed = await hashState(replay.state);
    if (live !== replayed)
      throw new Violation(`replaying the log gives the state ${replayed}, the live one is ${live}`);
    return lastDecided;
  }

  #crash(kind: 'power' | 'kill'): void {
    const process = this.#process;
    if (process === null || this.#isEnding) return;
    this.#takeStats();
    this.#crashes++;
    process.die();
    if (kind === 'power') this.#disk.crash();
    else this.#disk.kill();
    this.#engine.loseAll();
    this.#bootLater(process, this.#random.integer(restartMsMax));
  }

  async #restart(): Promise<void> {
    const process = this.#process;
    if (process?.shard === undefined || this.#isEnding) return;
    this.#takeStats();
    try {
      await process.stop();
      this.#note('stopped');
    } catch (error) {
      // The last bytes could not be written, and that is what it says.
      this.#note(`the stop failed: ${(error as Error).message}`);
      if (!this.#faults.mayComplain) this.#fail(error as Error);
      process.die();
      this.#disk.kill();
    }
    this.#engine.loseAll();
    this.#bootLater(process, this.#random.integer(restartMsMax));
  }

  #sleep(us: number): void {
    const clock = this.#process?.clock;
    clock?.sleep(us);
    this.#wallOffsetUs += us;
    this.#auditor.sleptAtUs = clock?.nowUs() ?? 0;
  }

  #takeStats(): void {
    const process = this.#process;
    const shard = process?.shard;
    if (process?.store === undefined || shard === undefined) return;
    const metrics = shard.metrics();
    this.#reloads += metrics['reloads'];
    this.#snapshots += metrics['snapshots'];
    this.#coldReads += metrics['coldReads'];
    this.#reclaimed += metrics['reclaimedSegments'];
    this.#relocatedBytes += metrics['relocatedBytes'];
  }

  #compareAgainAndAgain(): void {
    this.#scheduler.after(compareEveryMs, () => {
      if (this.#process !== null && this.#failure === null) this.#compare(this.#process);
      if (!this.#isEnding) this.#compareAgainAndAgain();
    });
  }

  #compare(process: SimulatedProcess): void {
    const { store, shard } = process;
    if (store === undefined || shard === undefined) return;
    try {
      const nowUs = Math.max(process.clock.nowUs(), shard.context.nowUs);
      this.#auditor.compare({ state: store.state, nowUs, sequence: store.log.nextSequence - 1 });
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  // The second phase

  /** All faults end; everything must get done. Returns the hash of the last state. */
  async #heal(): Promise<string> {
    this.#note('healing');
    this.#faults.heal();
    this.#network.lossShare = 0;
    this.#clientsAreOver = true;
    await this.#pass(() => this.#isServing(), 60_000, 'a healed broker serves');
    // What clients had begun comes to its end.
    await this.#pass(() => false, 12_000, null);
    await this.#pass(() => this.#isServing(), 60_000, 'a healed broker serves');
    if (this.#auditor.mayStandStill) {
      const process = this.#process;
      void this.#restart();
      await this.#pass(() => this.#process !== process && this.#isServing(), 60_000, 'a healed broker serves');
    }
    for (const queue of this.#auditor.queues.keys()) await this.#relax(queue);
    await this.#callInDistant();
    for (const queue of this.#auditor.queues.keys()) await this.#probe(queue);
    const drains = [...this.#auditor.queues.values()].flatMap((queue) =>
      [...queue.subscriptions].filter(([, { registered }]) => registered).map(([group]) => ({ queue, group })),
    );
    for (const drain of drains) this.#drain(drain.queue, drain.group);
    // By now pops wait for what is paused, and nothing but the end of the pause tells them that it is there.
    await this.#pass(() => false, 500, null);
    for (const request of resumptions(this.#auditor.queues.values())) {
      await this.#until((done) => this.#engine.groups.pause(request, done), `${JSON.stringify(request)} is resumed`);
    }
    await this.#pass(
      () => drains.every(({ queue, group }) => this.#isDrained(queue, group)),
      drainMsMax,
      `every message reaches every group: ${drains.map(({ queue, group }) => `${queue.name} of ${group}`).join(', ')}`,
    );
    await this.#readDeadLetters();
    if (!this.#faults.hasDamagedSegments) await this.#readEdges();
    this.#isEnding = true;
    return this.#end();
  }

  #isServing(): boolean {
    return this.#process?.shard?.health().state === 'healthy';
  }

  /** One call, until it succeeds. */
  async #until<Answer>(call: (done: (result: Result<Answer>) => void) => void, promise: string): Promise<Answer> {
    for (let attempt = 0; attempt < 100; attempt++) {
      let result: Result<Answer> | null = null;
      call((given) => {
        result = given;
      });
      await this.#pass(() => result !== null, 60_000, promise);
      const got = result as unknown as Result<Answer>;
      if (got.kind === 'answered') return got.answer;
    }
    throw new Violation(`${promise}, within 100 attempts`);
  }

  /** Nothing holds messages back any longer. */
  async #relax(queue: string): Promise<void> {
    const limits = { maxDeliveries: 0, maxLeaseSeconds: 0, maxLeasedPartitions: 0, maxPerSecond: 0 };
    const options = {
      delayedProcessing: 0,
      windowBuffer: 0,
      maxSize: 0,
      ttl: 0,
      retryDelay: null,
      ...withoutRetention,
      ...limits,
    };
    const request = { queue, namespace: null, task: null, mode: 'merge' as const, options };
    await this.#until<null>((done) => this.#engine.configure(request, done), `${queue} is configured`);
  }

  /** What waits for a time that a stepped wall clock put far away gets one that will come. */
  async #callInDistant(): Promise<void> {
    const page = await this.#until<DuePage>((done) => this.#engine.due.list(done), 'messages that wait are listed');
    for (const { messageId, dueUs } of page.rows) {
      if (dueUs < (this.#process?.clock.nowUs() ?? 0) + distantUs) continue;
      const request = { partition: null, name: messageId, due: -1 };
      await this.#until((done) => this.#engine.due.change(request, done), `${messageId} is due`);
    }
  }

  async #probe(queue: string): Promise<void> {
    const items = Array.from({ length: 3 }, (_, i) => ({ queue, partition: `probe-${i}`, id: null, payload: `${i}` }));
    await this.#until((done) => this.#engine.push(items, done), `${queue} takes messages again`);
  }

  #drain(queue: ExpectedQueue, group: string): void {
    if (this.#failure !== null || this.#isEnding || this.#isDrained(queue, group)) return;
    const request: PopRequest = {
      target: { kind: 'queue', queue: queue.name },
      group,
      batch: 500,
      partitions: 64,
      wait: true,
      timeoutMs: 20_000,
      leaseSeconds: 20,
      subscriptionMode: 'all',
      subscriptionFrom: null,
      commitOnDelivery: false,
      conflation: false,
      autopilot: false,
    };
    this.#engine.pop(request, (result) => {
      if (result.kind !== 'answered' || result.answer.deliveries.length === 0) {
        this.#scheduler.after(100, () => this.#drain(queue, group));
      } else this.#finish(result.answer, group, () => this.#drain(queue, group));
    });
  }

  #finish(answer: PopAnswer, group: string, then: () => void): void {
    const identity = this.#process?.store?.state.identity;
    if (identity === undefined) {
      then();
      return;
    }
    const leaseId = idText(identity, answer.leaseStamp, 0, 0);
    const acks = answer.deliveries.flatMap(({ pid, records }) =>
      records.map(({ id }) => ({ id, pid: String(pid), leaseId, status: 'completed' as const, error: null })),
    );
    this.#engine.ack(group, acks, then);
  }

  #isDrained(queue: ExpectedQueue, group: string): boolean {
    if (this.#auditor.queues.get(queue.name) !== queue) return true;
    return this.#auditor.isDrained(queue, group, this.#process?.clock.nowUs() ?? 0);
  }

  async #readDeadLetters(): Promise<void> {
    for (const queue of [null, ...this.#auditor.queues.keys()]) {
      const filter = { queue, group: null, limit: 1000, offset: 0 };
      await this.#until((done) => this.#engine.deadLetters(filter, true, done), 'dead letters are shown');
    }
    for (const queue of this.#auditor.queues.keys()) {
      await this.#until<null>((done) => this.#engine.queueDetail(queue, done), `${queue} is shown`);
    }
  }

  /** What was enqueued and not committed is delivered, all of it and nothing else. */
  async #readEdges(): Promise<void> {
    const { edges } = this.#auditor;
    if (edges.messages.size === 0) return;
    for (let partition = 0; partition < edgePartitions; partition++) {
      const limit = edges.messages.size;
      const { messages } = await this.#until<Page>(
        (done) => this.#engine.edges.poll(partition, limit, 0, done),
        `partition ${partition} is polled`,
      );
      edges.polledAll(partition, messages);
    }
  }

  /** The last state, live, replayed, and after one more restart. */
  async #end(): Promise<string> {
    const process = this.#process;
    const store = process?.store;
    if (process === null || store === undefined) throw new Violation('the broker serves to the end');
    await this.#pass(
      () => store.log.durableSequence === store.log.nextSequence - 1,
      10_000,
      'everything becomes durable',
    );
    this.#compare(process);
    await this.#checkReplay(store.state);
    this.#takeStats();
    let isStopped = false;
    process.stop().then(
      () => {
        isStopped = true;
      },
      (error: unknown) => this.#fail(error as Error),
    );
    await this.#pass(() => isStopped, 60_000, 'a broker stops');
    const hash = await hashState(store.state);
    await this.#boot();
    await this.#pass(() => this.#process?.shard !== undefined, 60_000, 'a broker starts again');
    // As it was opened: what expired meanwhile may have been removed since.
    const again = this.#openedHash;
    if (again !== hash) throw new Violation(`after a restart the state is ${again}, before it was ${hash}`);
    return hash;
  }
}
