/**
 * The shard: one state machine with its log, and the loop around it.
 *
 *   requests ─▶ queue ─▶ turn: decide, apply, encode the answer ─▶ one log entry ─▶ durable ─▶ answers leave
 *
 * A turn takes everything that has arrived (within limits), puts all its records into one entry and seals it; while that
 * is made durable the next turn is already running. Every answer, also of a read, waits until the entries it saw are
 * durable. When the log fails, memory is ahead of the truth: everything in flight is answered `outcome_unknown` and the
 * folder is opened again. A broken invariant ends the process: it must not guess.
 */
import { limits } from '@lanemq/protocol';
import { Fifo } from '../base/fifo.ts';
import { hashAckItems, hashPushItems } from '../codec/mod.ts';
import {
  type AckItems,
  type AckOutcome,
  type BrokerIdentity,
  type BrokerState,
  type DecisionContext,
  decideAck,
  decideConfigure,
  decideDeleteQueue,
  decideExtend,
  type ExtendOutcome,
  itemStatus,
  type MissingRow,
  type PopOutcome,
  PushDecider,
  type PushItems,
  type PushOutcome,
  type Refusal,
  Schedule,
} from '../core/mod.ts';
import type { Clock, PayloadCipher, Scheduler } from '../ports/mod.ts';
import { DeadLetterChanges } from './dead-letter-changes.ts';
import { DraftJournal } from './draft-journal.ts';
import { DueOperations } from './due-operations.ts';
import type { EdgeHost } from './edge-host.ts';
import { EdgeQueues } from './edge-queues.ts';
import { EdgeTables } from './edge-tables.ts';
import { encryptItems } from './encrypt-items.ts';
import type { ConfigureRequest, DeleteQueueOutcome, Engine, HealthReport, PopRequest, Reply } from './engine.ts';
import { asError, failedRead } from './failed-read.ts';
import type { GroupHost } from './group-host.ts';
import { GroupOperations } from './group-operations.ts';
import { Housekeeping, type HousekeepingOptions, housekeepingDefaults } from './housekeeping.ts';
import { MinuteSamples } from './minute-samples.ts';
import { OffsetReads, type OffsetReadsHost } from './offset-reads.ts';
import { isRefusal, type Operation, refusals, SimpleOperation } from './operations.ts';
import type { PopHost } from './pop-host.ts';
import { HandBackOperation, PopOperation } from './pop-operation.ts';
import { queueId } from './queue-views.ts';
import type { DeadLetterHost } from './replay.ts';
import { ShardViews } from './shard-views.ts';
import { SnapshotKeeper } from './snapshot-keeper.ts';
import type { Store } from './store.ts';
import { FetchedFacts, type Need, StoreAccess, StoreDamage } from './store-access.ts';
import { utf8Length } from './text.ts';
import { TurnBudget } from './turn-budget.ts';
import type { ConfiguredQueue, DeadLetterPage, PartitionPage, QueueDetail } from './views.ts';
import { Waiters } from './waiters.ts';

export interface ShardOptions {
  /** Log bytes after which a snapshot is taken; more when the last snapshot was larger. */
  readonly snapshotLogBytes: number;
  readonly parkedPopsMax: number;
  readonly housekeeping?: Partial<HousekeepingOptions>;
}

export interface ShardHost {
  readonly clock: Clock;
  readonly scheduler: Scheduler;
  readonly cipher: PayloadCipher | null;
  /** Opens the data folder again after a failure. */
  reopen(): Promise<Store>;
  /** True while the disk is over its watermark: pushes are refused. */
  isDiskFull(): boolean;
  log(level: 'info' | 'warn' | 'error', text: string): void;
  /** The process cannot explain its own state and must end. */
  fatal(error: Error): void;
}

const turnLimits = {
  operations: 4096,
  /** An entry that has grown past this is sealed; the rest of the queue waits for the next turn. */
  entryBytes: 4 * 1024 * 1024,
  deadlines: 50_000,
  /** Partitions of deleted queues whose memory is given back. */
  garbagePartitions: 5000,
  /** Sealed but not durable: above this no more work is taken until the disk has caught up. */
  unsyncedEntries: 256,
} as const;

const diskFullDetail = 'the disk is full: pushes are refused until there is room again';

const reopenDelayMs = 1000;

type Phase = 'serving' | 'reloading' | 'stopping' | 'stopped';

interface Held {
  readonly sequence: number;
  readonly operation: Operation;
}

/** Counters since the start of the process. */
interface Counters {
  turns: number;
  entries: number;
  pushedRecords: number;
  duplicates: number;
  deliveredRecords: number;
  ackedItems: number;
  reloads: number;
  /** Reads that found stored data changed. Above 0 somebody has to look at the disk. */
  damagedReads: number;
}

export class Shard implements Engine, PopHost, GroupHost, OffsetReadsHost, DeadLetterHost {
  readonly scheduler: Scheduler;
  readonly groups = new GroupOperations(this);
  readonly due = new DueOperations(this);
  readonly #host: ShardHost;
  readonly #options: ShardOptions;
  readonly #pushDecider = new PushDecider();
  #store: Store;
  #access!: StoreAccess;
  #journal!: DraftJournal;
  #schedule!: Schedule;
  waiters!: Waiters;
  readonly turnBudget = new TurnBudget();
  readonly reads: OffsetReads;
  #context!: MutableContext;
  #phase: Phase = 'serving';
  #detail = '';
  readonly #queue = new Fifo<Operation>();
  #turnRequested = false;
  /** A turn was asked for and waits until the disk has caught up. */
  #turnPutOff = false;
  #turnNowUs = 0;
  /** Decided, in order: their replies wait until what they saw is durable. */
  readonly #held = new Fifo<Held>();
  /** Set while the shard stops: called when nothing is in flight any more. */
  #whenDrained: (() => void) | null = null;
  /** Operations that wait for a fetch. */
  readonly #fetching = new Set<Operation>();
  /** Reads of rows that are on their way, and operations that found nothing but what those will give. */
  #loadsRunning = 0;
  readonly #awaitingLoads: Operation[] = [];
  #encryptedQueues = new Set<string>();
  #cancelDeadline: (() => void) | null = null;
  #deadlineArmedUs = Number.POSITIVE_INFINITY;
  #snapshots!: SnapshotKeeper;
  #housekeeping!: Housekeeping;
  readonly #counters: Counters = {
    turns: 0,
    entries: 0,
    pushedRecords: 0,
    duplicates: 0,
    deliveredRecords: 0,
    ackedItems: 0,
    reloads: 0,
    damagedReads: 0,
  };
  #damage = '';
  readonly edgeQueues: EdgeQueues;
  readonly edgeTables: EdgeTables;
  readonly #samples = new MinuteSamples();
  readonly views: ShardViews;
  readonly deadLetterChanges: DeadLetterChanges;

  constructor(store: Store, host: ShardHost, options: ShardOptions) {
    this.#host = host;
    this.#options = options;
    this.scheduler = host.scheduler;
    this.reads = new OffsetReads(this);
    this.#store = store;
    const edges = this.#edgeHost();
    this.edgeQueues = new EdgeQueues(edges);
    this.edgeTables = new EdgeTables(edges, (number) => this.edgeQueues.tableChanged(number));
    this.views = new ShardViews({
      cipher: host.cipher,
      store: () => this.#store,
      access: () => this.#access,
      context: () => this.#context,
      turns: this,
      counted: () => this.#counters,
      samples: this.#samples,
      scheduler: host.scheduler,
      isDiskFull: () => host.isDiskFull(),
      submit: (operation) => this.submit(operation),
      readFailed: (what, error, access) => this.readFailed(what, error, access),
    });
    this.#attach(store);
    this.deadLetterChanges = new DeadLetterChanges(this);
  }

  /** Builds everything that is derived from a freshly opened store. */
  #attach(store: Store): void {
    this.#store = store;
    const { state, log } = store;
    this.waiters = new Waiters(state);
    this.waiters.appends = this.reads;
    this.reads.attach(store);
    this.#access = new StoreAccess(log, store.index, store.hasher);
    this.#journal = new DraftJournal(log.draft, state, store.hasher);
    const housekeeping = { ...housekeepingDefaults, ...this.#options.housekeeping };
    this.#schedule = new Schedule(state, this.#access, this.waiters, housekeeping.cleanupUs);
    state.observer = this.#schedule;
    this.#context = {
      state,
      schedule: this.#schedule,
      journal: this.#journal,
      blocks: this.#access,
      ids: this.#access,
      nowUs: 0,
    };
    this.#snapshots = new SnapshotKeeper(store, this.#host, this.#options.snapshotLogBytes);
    this.#loadsRunning = 0;
    this.#awaitingLoads.length = 0;
    log.onDurable = () => this.#releaseDurable();
    log.onFailure = (error) => this.#fail(error);
    this.#noteEncrypted();
    this.#schedule.rebuild(this.#host.clock.nowUs());
    this.#housekeeping = this.#keepHouse(store, housekeeping);
    this.#requestTurn();
  }

  #edgeHost(): EdgeHost {
    return {
      scheduler: this.scheduler,
      parkedPollsMax: this.#options.parkedPopsMax,
      store: () => this.#store,
      access: () => this.#access,
      context: () => ({
        edges: this.#store.state.edges,
        journal: this.#journal.edges,
        nowUs: this.#context.nowUs,
      }),
      nowUs: () => this.#host.clock.nowUs(),
      submit: (operation) => this.submit(operation),
      readingBegan: (operation) => this.readingBegan(operation),
      readingEnded: (operation) => this.readingEnded(operation),
      isDiskFull: () => this.#host.isDiskFull(),
      noteDamage: (error) => this.noteDamage(error),
      log: (level, text) => this.#host.log(level, text),
    };
  }

  #keepHouse(store: Store, options: HousekeepingOptions): Housekeeping {
    return new Housekeeping(
      {
        context: this.#context,
        schedule: this.#schedule,
        scheduler: this.scheduler,
        access: this.#access,
        store,
        submit: (operation) => this.submit(operation),
        requestSnapshot: () => {
          this.#snapshots.request();
          this.#requestTurn();
        },
        isBusy: () => this.#queue.size > 0 || store.log.nextSequence - 1 - store.log.durableSequence > 1,
        noteDamage: (error) => this.noteDamage(error),
        log: (level, text) => this.#host.log(level, text),
      },
      options,
    );
  }

  get identity(): BrokerIdentity {
    return this.#store.state.identity;
  }

  get context(): DecisionContext {
    return this.#context;
  }

  get access(): StoreAccess {
    return this.#access;
  }

  get hasher(): Store['hasher'] {
    return this.#store.hasher;
  }

  // What reads by offset, and changes of dead letters, need

  get cipher(): PayloadCipher | null {
    return this.#host.cipher;
  }

  get encryptedQueues(): ReadonlySet<string> {
    return this.#encryptedQueues;
  }

  nowUs(): number {
    return this.#host.clock.nowUs();
  }

  isDiskFull(): boolean {
    return this.#host.isDiskFull();
  }

  // Engine

  push(items: PushItems, reply: Reply<PushOutcome>): void {
    this.submit(
      new SimpleOperation(() => {
        if (this.#host.isDiskFull()) return storageFull;
        const ready = this.#encryptedQueues.size === 0 ? items : this.#encrypted(items);
        if ('ok' in ready) return ready;
        hashPushItems(ready, this.#store.hasher);
        const outcome = this.#pushDecider.decide(this.#context, ready, this.#encryptedQueues);
        if (outcome.ok === true) this.countPushed(outcome);
        return outcome;
      }, reply),
    );
  }

  countPushed(outcome: PushOutcome): void {
    for (let item = 0; item < outcome.count; item++) {
      if (outcome.statuses[item] === itemStatus.queued) this.#counters.pushedRecords++;
      else if (outcome.statuses[item] === itemStatus.duplicate) this.#counters.duplicates++;
    }
  }

  #encrypted(items: PushItems): PushItems | Refusal {
    const sealed = encryptItems(items, this.#encryptedQueues, this.#host.cipher);
    return sealed === 'no-key' ? keyMissing : sealed;
  }

  pop(request: PopRequest, reply: Reply<PopOutcome>): () => void {
    const operation = new PopOperation(this, request, reply);
    if (request.wait && this.waiters.count >= this.#options.parkedPopsMax) {
      reply.send({
        ok: false,
        code: 'retry',
        message: `${this.waiters.count} pops are waiting, which is the limit`,
        retryAfterSeconds: 1,
      });
    } else this.submit(operation);
    return () => operation.cancel();
  }

  ack(group: string, items: AckItems, reply: Reply<AckOutcome>): void {
    const groupBytes = utf8Length(group);
    this.submit(
      new SimpleOperation(() => {
        hashAckItems(items, this.#store.hasher);
        const outcome = decideAck(this.#context, group, groupBytes, items);
        if (outcome.ok === true) this.#counters.ackedItems += outcome.count;
        return outcome;
      }, reply),
    );
  }

  extendLease(leaseStamp: number, seconds: number, reply: Reply<ExtendOutcome>): void {
    this.submit(new SimpleOperation(() => decideExtend(this.#context, leaseStamp, seconds), reply));
  }

  configureQueue(request: ConfigureRequest, reply: Reply<ConfiguredQueue>): void {
    this.submit(
      new SimpleOperation(() => {
        const queue = decideConfigure(this.#context, { ...request, queueBytes: utf8Length(request.queue) });
        if (isRefusal(queue)) return queue;
        this.#noteEncrypted();
        const { name, namespace, task, options } = queue;
        return { id: queueId(this.#store.state, queue), name, namespace, task, options };
      }, reply),
    );
  }

  deleteQueue(queue: string, reply: Reply<DeleteQueueOutcome>): void {
    this.submit(
      new SimpleOperation(() => {
        const existed = decideDeleteQueue(this.#context, queue);
        this.#encryptedQueues.delete(queue);
        return { existed };
      }, reply),
    );
  }

  queueDetail(queue: string, reply: Reply<QueueDetail | null>, page: PartitionPage = firstPartitions): void {
    this.views.queueDetail(queue, page, reply);
  }

  deadLetters(
    filter: { queue: string | null; group: string | null; limit: number; offset: number },
    reply: Reply<DeadLetterPage>,
  ): void {
    this.views.deadLetters(filter, reply);
  }

  /**
   * A read beside the turns failed: what to answer. That its store was closed or replaced meanwhile says nothing of the
   * disk; anything else is noted.
   */
  readFailed(what: string, error: unknown, access: StoreAccess): Refusal {
    if (this.#phase === 'stopping' || this.#phase === 'stopped') return refusals.stopping;
    if (access !== this.#access || this.#phase === 'reloading') return refusals.retry;
    return failedRead(this, `${what} could not be read`, error);
  }

  // What reads by offset need

  get turn(): number {
    return this.#counters.turns;
  }

  readingBegan(operation: Operation): void {
    this.#fetching.add(operation);
  }

  readingEnded(operation: Operation): boolean {
    const wasThere = this.#fetching.delete(operation);
    // Its answer leaves in this call's turn of the loop, before a stop goes on.
    if (this.#whenDrained !== null) this.scheduler.soon(() => this.#lookDrained());
    return wasThere;
  }

  log(level: 'error', text: string): void {
    this.#host.log(level, text);
  }

  health(): HealthReport {
    const { log } = this.#store;
    const state =
      this.#phase === 'serving' ? 'healthy' : this.#phase === 'reloading' ? 'settling' : ('stopping' as const);
    return {
      state,
      detail: this.#detail || (this.#host.isDiskFull() ? diskFullDetail : this.#damage),
      epoch: this.#store.epoch,
      sequence: log.nextSequence - 1,
      durableSequence: log.durableSequence,
      storageReady: this.#phase === 'serving',
    };
  }

  metrics(): Readonly<Record<string, number>> {
    const { state } = this.#store;
    return {
      ...this.#counters,
      snapshots: this.#snapshots.taken,
      queues: state.queues.size,
      partitions: state.partitions.count,
      cursors: state.cursors.count,
      subscriptions: state.subscriptions.size,
      leases: this.#schedule.leasedCount,
      deadLetters: state.deadLetters.count,
      dueMessages: state.due.waiting,
      cancelledMessages: state.due.cancelled,
      diskFull: this.#host.isDiskFull() ? 1 : 0,
      parkedPops: this.waiters.count,
      parkedFetches: this.reads.waiters.count,
      queuedOperations: this.#queue.size,
      bytesSinceSnapshot: this.#store.bytesSinceSnapshot(),
      missedRecords: missedRecords(state),
      ...this.#housekeeping.counts,
      ...this.#housekeeping.reclaimer.counts,
      ...this.#store.stats(),
    };
  }

  // The loop

  submit(operation: Operation): void {
    if (this.#phase === 'reloading') {
      operation.release(refusals.retry);
      return;
    }
    if (this.#phase !== 'serving') {
      operation.release(refusals.stopping);
      this.#lookDrained();
      return;
    }
    this.#queue.push(operation);
    this.#requestTurn();
  }

  #requestTurn(): void {
    if (this.#turnRequested) return;
    this.#turnRequested = true;
    this.scheduler.soon(() => {
      this.#turnRequested = false;
      try {
        this.#turn();
      } catch (error) {
        this.#host.fatal(asError(error));
      }
    });
  }

  #turn(): void {
    if (this.#phase !== 'serving' && this.#phase !== 'stopping') return;
    const { log } = this.#store;
    // The disk is behind: go on when it has caught up.
    this.#turnPutOff = log.nextSequence - 1 - log.durableSequence >= turnLimits.unsyncedEntries;
    if (this.#turnPutOff) return;
    this.#counters.turns++;
    this.#turnNowUs = this.#host.clock.nowUs();
    this.#samples.turnBegins(this.#turnNowUs, this.#counters, this.#store.state.deadLetters.count);
    const moreDeadlines = this.#schedule.advance(this.#turnNowUs, turnLimits.deadlines);
    const entryStart = log.draft.base + log.draft.position;
    let decided = 0;
    const later: Operation[] = [];
    while (decided < turnLimits.operations) {
      if (log.draft.base + log.draft.position - entryStart > turnLimits.entryBytes) break;
      const operation = this.#queue.shift();
      if (operation === null) break;
      decided++;
      this.#decide(operation, later);
    }
    for (const operation of later) this.#queue.push(operation);
    this.#seal();
    this.#releaseDurable();
    this.#armDeadline();
    if (this.#store.state.hasGarbage) this.#store.state.collectGarbage(turnLimits.garbagePartitions);
    const hasMore = this.#queue.size > 0 || moreDeadlines || this.#store.state.hasGarbage;
    if (hasMore) this.#requestTurn();
    this.#snapshots.consider();
  }

  #decide(operation: Operation, later: Operation[]): void {
    const { state, log } = this.#store;
    const nowUs = Math.max(this.#turnNowUs, state.lastStampUs + 1);
    this.#context.nowUs = nowUs;
    // What has ended by this operation's time has ended for all of it, whoever looks.
    if (this.#schedule.deadlines.nextUs <= nowUs) this.#schedule.advance(nowUs, turnLimits.deadlines);
    else this.#schedule.nowUs = nowUs;
    this.#access.begin(operation.facts);
    const result = operation.decide();
    // What was read for it has served, unless it needs more: then every reading brings it nearer to its decision.
    if (result === 'done') operation.facts.blocks.clear();
    switch (result) {
      case 'done':
        this.#held.push({ sequence: log.draftHasRecords ? log.nextSequence : log.nextSequence - 1, operation });
        return;
      case 'needs-load':
        this.#fetch(operation);
        return;
      case 'later':
        later.push(operation);
        return;
      case 'parked':
        return;
    }
  }

  #seal(): void {
    const { log, state } = this.#store;
    if (!log.draftHasRecords) return;
    log.seal({
      stampUs: state.lastStampUs,
      digest: this.#journal.digestBefore,
      recordCount: this.#journal.recordCount,
    });
    this.#journal.reset();
    this.#counters.entries++;
  }

  /** Lets answers go whose entries are durable, in order. */
  #releaseDurable(): void {
    this.#snapshots.durableMoved();
    const durable = this.#store.log.durableSequence;
    for (let held = this.#held.oldest; held !== null && held.sequence <= durable; held = this.#held.oldest) {
      this.#held.shift();
      held.operation.release(null);
    }
    if (this.#turnPutOff || this.#queue.size > 0) this.#requestTurn();
    this.#lookDrained();
  }

  #armDeadline(): void {
    const { nextUs } = this.#schedule;
    if (nextUs === this.#deadlineArmedUs) return;
    this.#cancelDeadline?.();
    this.#cancelDeadline = null;
    this.#deadlineArmedUs = nextUs;
    if (nextUs === Number.POSITIVE_INFINITY) return;
    const delayMs = Math.min(Math.max(0, Math.ceil((nextUs - this.#turnNowUs) / 1000)), deadlineDelayMsMax);
    this.#cancelDeadline = this.scheduler.after(delayMs, () => {
      this.#deadlineArmedUs = Number.POSITIVE_INFINITY;
      this.#requestTurn();
    });
  }

  /** Fetches what an operation needs from disk, then decides it again. */
  #fetch(operation: Operation): void {
    const { needs } = this.#access;
    this.#access.needs = [];
    this.#fetching.add(operation);
    const access = this.#access;
    access.fetch(needs, operation.facts).then(
      () => {
        if (!this.#fetching.delete(operation)) return;
        this.submit(operation);
      },
      (error: unknown) => {
        if (error instanceof StoreDamage && this.#hasLost(needs)) {
          // What it asked for was removed meanwhile: it is decided on what is there now.
          if (this.#fetching.delete(operation)) this.submit(operation);
        } else if (error instanceof StoreDamage && this.#fetching.delete(operation)) {
          this.noteDamage(error);
          operation.release({ ok: false, code: 'internal', message: error.message });
        } else this.#fetchFailed(access, asError(error));
      },
    );
  }

  /** True when a record that was asked for has been removed since. */
  #hasLost(needs: readonly Need[]): boolean {
    return needs.some((need) => need.kind === 'block' && !this.#store.state.isKept(need.lane, need.pid, need.offset));
  }

  #fetchFailed(access: StoreAccess, error: Error): void {
    // A reload has replaced the store meanwhile: what the old one could not read does not matter any more.
    if (access !== this.#access) return;
    if (this.#phase === 'serving') this.#fail(error);
    else if (this.#phase === 'stopping') {
      // It can be asked again after the next start; the stop must not wait for it.
      this.#host.log('error', `a read failed while the broker was stopping: ${error.message}`);
      this.#dropQueued(refusals.stopping);
      this.#lookDrained();
    }
  }

  loadRows(rows: readonly MissingRow[], then: Operation | null): void {
    const access = this.#access;
    const schedule = this.#schedule;
    const facts = then?.facts ?? new FetchedFacts();
    if (then !== null) this.#fetching.add(then);
    this.#loadsRunning++;
    const loads = rows.map((row) => this.#loadRow(access, row, facts));
    Promise.all(loads).then(
      (whole) => {
        if (access !== this.#access) return;
        this.#loadsRunning--;
        rows.forEach((row, i) => {
          const { cursors } = this.#store.state;
          const stillThere = cursors.subscription[row.row] >= 0 && cursors.lane[row.row] === row.lane;
          if (whole[i] === true && stillThere) schedule.giveBack(row.row);
        });
        if (then !== null && this.#fetching.delete(then)) this.submit(then);
        for (const waiting of this.#awaitingLoads.splice(0)) {
          if (this.#fetching.delete(waiting)) this.submit(waiting);
        }
        this.#requestTurn();
      },
      (error: unknown) => this.#fetchFailed(access, asError(error)),
    );
  }

  awaitLoads(operation: Operation): boolean {
    if (this.#loadsRunning === 0) return false;
    this.#fetching.add(operation);
    this.#awaitingLoads.push(operation);
    return true;
  }

  /** Reads the next blocks of one row; false when they are damaged. Other errors of the disk reject. */
  async #loadRow(access: StoreAccess, row: MissingRow, facts: FetchedFacts): Promise<boolean> {
    try {
      if (row.seekUs > 0) {
        await access.fetch([{ kind: 'time', lane: row.lane, pid: row.pid, stampUs: row.seekUs }], facts);
      } else await access.stage(row.lane, row.pid, row.offset, row.count, rowReadBytes, facts);
      return true;
    } catch (error) {
      if (!(error instanceof StoreDamage)) throw error;
      // They were removed while they were looked for: the row goes on with what is kept.
      if (access !== this.#access || !this.#store.state.isKept(row.lane, row.pid, row.offset)) return true;
      // Its records cannot be served, and passing over them would break the order: the partition stands still for this
      // group, all others go on.
      this.noteDamage(error);
      return false;
    }
  }

  noteDamage(error: StoreDamage): void {
    this.#counters.damagedReads++;
    this.#damage = error.message;
    this.#host.log('error', `${error.message}: what lies there is not served`);
  }

  countDelivered(outcome: PopOutcome): void {
    for (const run of outcome.runs) {
      for (const piece of run.pieces) this.#counters.deliveredRecords += piece.toIndex - piece.fromIndex;
    }
  }

  handBack(leaseStamp: number): void {
    if (this.#phase === 'serving') this.submit(new HandBackOperation(this, leaseStamp));
  }

  collectMs(request: PopRequest): number {
    if (request.target.kind === 'discover') return 0;
    const queue = this.#store.state.queues.get(request.target.queue);
    if (queue === undefined || queue.options.minPopWaitTime === 0) return 0;
    const pending = queue.subscription(request.group)?.pending() ?? 0;
    return pending >= (request.batch ?? limits.popBatchDefault) ? 0 : queue.options.minPopWaitTime;
  }

  isConflated(queue: string, group: string): boolean {
    return this.#store.state.queues.get(queue)?.subscription(group)?.conflation ?? false;
  }

  #noteEncrypted(): void {
    this.#encryptedQueues = new Set();
    for (const queue of this.#store.state.queues.values()) {
      if (queue.options.encryptionEnabled) this.#encryptedQueues.add(queue.name);
    }
  }

  // Failure and end

  /** The log failed: memory is ahead of it. Everything in flight is of unknown outcome; the folder is opened again. */
  #fail(error: Error): void {
    if (this.#phase === 'stopping') this.#failStopping(error);
    if (this.#phase !== 'serving') return;
    this.#host.log('error', `the log failed, reloading it: ${error.message}`);
    this.#phase = 'reloading';
    this.#detail = error.message;
    this.#counters.reloads++;
    this.#cancelDeadline?.();
    this.#cancelDeadline = null;
    this.#deadlineArmedUs = Number.POSITIVE_INFINITY;
    this.#snapshots.stop();
    for (let held = this.#held.shift(); held !== null; held = this.#held.shift()) {
      held.operation.release(refusals.outcomeUnknown);
    }
    this.#dropQueued(refusals.retry);
    const old = this.#store;
    this.#reload(old).catch((fault: unknown) => this.#host.fatal(asError(fault)));
  }

  /** Nothing that is in flight will become durable any more: the stop must not wait for it. */
  #failStopping(error: Error): void {
    this.#host.log('error', `the log failed while the broker was stopping: ${error.message}`);
    for (let held = this.#held.shift(); held !== null; held = this.#held.shift()) {
      held.operation.release(refusals.outcomeUnknown);
    }
    this.#dropQueued(refusals.stopping);
    this.#lookDrained();
  }

  #dropQueued(refusal: Refusal): void {
    for (let queued = this.#queue.shift(); queued !== null; queued = this.#queue.shift()) queued.release(refusal);
    for (const operation of [...this.#fetching]) {
      this.#fetching.delete(operation);
      operation.release(refusal);
    }
    for (const waiter of this.waiters.all()) {
      this.waiters.remove(waiter);
      (waiter as PopOperation).release(refusal);
    }
    this.reads.dropWaiting(refusal);
    this.edgeQueues.dropWaiting(refusal);
  }

  async #reload(old: Store): Promise<void> {
    await this.#housekeeping.stop();
    await old.abandon();
    for (;;) {
      try {
        const store = await this.#host.reopen();
        this.#phase = 'serving';
        this.#detail = '';
        this.#attach(store);
        this.#host.log('info', 'the log is open again');
        return;
      } catch (error) {
        this.#detail = asError(error).message;
        this.#host.log('error', `the data folder cannot be opened yet: ${this.#detail}`);
        await new Promise<void>((resolve) => {
          this.scheduler.after(reopenDelayMs, resolve);
        });
      }
    }
  }

  /** Answers parked pops empty, finishes what is in flight, closes the log. No new work is taken. */
  async stop(): Promise<void> {
    if (this.#phase === 'stopped') return;
    this.deadLetterChanges.stop();
    const wasServing = this.#phase === 'serving';
    if (wasServing) {
      for (const waiter of this.waiters.all()) waiter.end();
      this.reads.endWaiting();
      this.edgeQueues.endWaiting();
      await this.#drained();
    }
    this.#phase = 'stopped';
    this.#cancelDeadline?.();
    this.#dropQueued(refusals.stopping);
    this.#snapshots.stop();
    await this.#housekeeping.stop();
    if (wasServing) await this.#store.close();
    else await this.#store.abandon();
  }

  /** Resolves when everything submitted so far was answered; what is submitted from now on is refused. */
  #drained(): Promise<void> {
    this.#phase = 'stopping';
    return new Promise((resolve) => {
      this.#whenDrained = resolve;
      this.#requestTurn();
    });
  }

  #lookDrained(): void {
    if (this.#whenDrained === null) return;
    if (this.#queue.size > 0 || this.#held.size > 0 || this.#fetching.size > 0) return;
    this.#whenDrained();
    this.#whenDrained = null;
  }
}

/** Records that were removed before a group had settled them. */
function missedRecords(state: BrokerState): number {
  let missed = 0;
  for (const subscription of state.subscriptions.values()) missed += subscription.missed;
  return missed;
}

interface MutableContext extends DecisionContext {
  nowUs: number;
}

const firstPartitions: PartitionPage = { limit: limits.partitionsPageDefault, after: 0 };

/** One read of a row's next blocks; a pop of many partitions reads each of them. */
const rowReadBytes = 1024 * 1024;

/** A timer is never armed for longer: a very distant deadline is looked at again. */
const deadlineDelayMsMax = 3_600_000;

const storageFull: Refusal = {
  ok: false,
  code: 'storage_full',
  message: 'storage is full on at least one node: pushes are refused until space is free again',
  retryAfterSeconds: 1,
};

const keyMissing: Refusal = {
  ok: false,
  code: 'encryption_key_missing',
  message: 'the queue has encryptionEnabled, but the broker has no key: start it with LANEMQ_ENCRYPTION_KEY',
};
