/** The reads that consoles and operators make, and traces, of one shard. See browse-views.ts. */
import { limits } from '@lanemq/protocol';
import {
  type DecisionContext,
  decideTrace,
  type Queue,
  type Refusal,
  type TraceCommand,
  type TraceOutcome,
} from '../core/mod.ts';
import type { PayloadCipher, Scheduler } from '../ports/mod.ts';
import type {
  MessageDetail,
  MessageFilter,
  MessagePage,
  MessageView,
  PageOf,
  PeekRequest,
  PeekView,
  StatusView,
  TraceNamePage,
  TracePage,
  Views,
} from './browse-views.ts';
import { type DeadLetterFilter, findDeadLetters, readDeadLetters } from './dead-letter-reader.ts';
import type { Reply } from './engine.ts';
import type { RowsReply } from './group-engine.ts';
import { type Candidates, findCandidates, RecordSearch } from './message-search.ts';
import { type Address, findRecord, readFrom, viewDetail, viewMessages, viewPeek } from './message-views.ts';
import type { Counted, MinuteSamples } from './minute-samples.ts';
import { type Operation, SimpleOperation } from './operations.ts';
import { laneOfRef, type PartitionRef } from './partition-ref.ts';
import {
  describeQueue,
  leasedRecords,
  listQueues,
  measureDepth,
  measureSizes,
  overview,
  type Sight,
  summarize,
} from './queue-views.ts';
import { ReadPace } from './read-pace.ts';
import type { Store } from './store.ts';
import type { StoreAccess } from './store-access.ts';
import { utf8 } from './text.ts';
import { pageOfNames, pageOfTraces } from './trace-views.ts';
import type { TurnHost } from './turn-budget.ts';
import type {
  DeadLetterPage,
  OverviewView,
  PartitionPage,
  QueueDepth,
  QueueDetail,
  QueueList,
  QueuePage,
  QueueSizes,
  QueueSummary,
} from './views.ts';
import { type Walk, WalkOperation, walkStepRows } from './walk.ts';

/** What views need from the shard. After a reload the answers are other objects. */
export interface ViewHost {
  readonly cipher: PayloadCipher | null;
  store(): Store;
  access(): StoreAccess;
  context(): DecisionContext;
  readonly turns: TurnHost;
  counted(): Counted;
  readonly samples: MinuteSamples;
  readonly scheduler: Scheduler;
  isDiskFull(): boolean;
  submit(operation: Operation): void;
  /** Notes that something could not be read with this access, and says what to answer. */
  readFailed(what: string, error: unknown, access: StoreAccess): Refusal;
}

export class ShardViews implements Views {
  readonly #host: ViewHost;

  constructor(host: ViewHost) {
    this.#host = host;
  }

  #sight(): Sight {
    const { state, schedule } = this.#host.context();
    return { state, schedule, segmentCount: this.#host.store().segmentCount() };
  }

  #walk<Outcome extends object | null>(begin: (sight: Sight) => Walk<Outcome>, reply: Reply<Outcome>): void {
    this.#host.submit(new WalkOperation(this.#host.turns, () => begin(this.#sight()), reply));
  }

  #walkQueue<Outcome extends object>(
    name: string,
    reply: Reply<Outcome | null>,
    begin: (sight: Sight, queue: Queue) => Walk<Outcome>,
  ): void {
    this.#walk<Outcome | null>((sight) => {
      const queue = sight.state.queues.get(name);
      return queue === undefined ? nothing() : begin(sight, queue);
    }, reply);
  }

  /** The outcome of a walk once it may be known, that is, when what it saw is durable. */
  #walked<Outcome extends object | null>(begin: (sight: Sight) => Walk<Outcome>): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      let outcome: Outcome | null = null;
      this.#walk(begin, {
        encode: (encoded) => {
          outcome = encoded;
        },
        send: (failure) => {
          if (failure === null) resolve(outcome as Outcome);
          else reject(new Refused(failure));
        },
      });
    });
  }

  /** Answers with what a read gives that takes several steps, some of them on the disk. */
  #answer<Outcome>(what: string, reply: Reply<Outcome>, read: () => Promise<Outcome>): void {
    const access = this.#host.access();
    read().then(
      (outcome) => {
        reply.encode(outcome);
        reply.send(null);
      },
      (error: unknown) => {
        if (error instanceof Refused) {
          reply.send(error.refusal);
          return;
        }
        reply.send(this.#host.readFailed(what, error, access));
      },
    );
  }

  listQueues(page: QueuePage, reply: RowsReply<QueueSummary, QueueList>): void {
    this.#walk((sight) => listQueues(sight, page, (row) => reply.rows([row])), reply);
  }

  queueDetail(queue: string, page: PartitionPage, reply: Reply<QueueDetail | null>): void {
    this.#walkQueue(queue, reply, (sight, found) => describeQueue(sight, found, page));
  }

  queueDepth(queue: string, group: string, page: PartitionPage, reply: Reply<QueueDepth | null>): void {
    this.#walkQueue(queue, reply, (sight, found) => measureDepth(sight, this.#stampOf(sight), found, group, page));
  }

  #stampOf({ state }: Sight): (lane: number, offset: number) => number {
    const access = this.#host.access();
    return (lane, offset) => access.stampOf(lane, state.partitions.pid[lane], offset);
  }

  queueSizes(queue: string, page: PartitionPage, reply: Reply<QueueSizes | null>): void {
    this.#walkQueue(queue, reply, ({ state }, found) => measureSizes(state, found, page));
  }

  overview(reply: Reply<OverviewView>): void {
    this.#walk(overview, reply);
  }

  status(fromUs: number, toUs: number, reply: Reply<StatusView>): void {
    this.#walk((sight) => this.#status(sight, fromUs, toUs), reply);
  }

  *#status(sight: Sight, fromUs: number, toUs: number): Walk<StatusView> {
    const { state, schedule } = sight;
    const sums = yield* overview(sight);
    if ('ok' in sums) return sums;
    const leased = yield* leasedRecords(sight);
    const errors = new Map<string, number>();
    const pids = new Set<number>();
    let looked = 0;
    for (const { error, pid } of state.deadLetters.all()) {
      pids.add(pid);
      if (errors.size < distinctErrorsMax || errors.has(error)) errors.set(error, (errors.get(error) ?? 0) + 1);
      if (++looked % walkStepRows === 0) yield walkStepRows;
    }
    const queues: QueueSummary[] = [];
    for (const queue of state.queues.values()) {
      if (++looked % walkStepRows === 0) yield walkStepRows;
      if (queue.retainedRecords > 0 && queues.length < statusQueuesMax) queues.push(summarize(sight, queue, leased));
    }
    queues.sort((a, b) => (a.name < b.name ? -1 : 1));
    const { samples } = this.#host;
    return {
      samples: samples.between(fromUs, toUs, this.#host.counted(), state.deadLetters.count),
      overview: sums,
      leasedPartitions: schedule.leasedCount,
      leasedRecords: [...leased.values()].reduce((sum, count) => sum + count, 0),
      deadLetterPartitions: pids.size,
      topErrors: [...errors]
        .sort((a, b) => b[1] - a[1])
        .slice(0, topErrorsShown)
        .map(([error, count]) => ({ error: error || 'unknown', count })),
      queues,
      sinceUs: samples.sinceUs,
    };
  }

  messages(filter: MessageFilter, reply: Reply<MessagePage>): void {
    const access = this.#host.access();
    this.#answer('messages', reply, async () => {
      const candidates = await this.#walked<Candidates>((sight) =>
        findCandidates(sight, filter, (name) => this.#hash(name).low),
      );
      const { state } = this.#host.context();
      const search = new RecordSearch(state, access, this.#host.cipher, this.#pace(), candidates);
      return this.#searchPage(filter, candidates, search);
    });
  }

  /** Reads on until the page is full, and one message more, or the search is over. */
  async #searchPage(filter: MessageFilter, candidates: Candidates, search: RecordSearch): Promise<MessagePage> {
    const rows: MessageView[] = [];
    let matched = 0;
    let bytes = 0;
    const wanted = filter.offset + filter.limit + 1;
    while (matched < wanted && !search.isOver && !search.isExhausted && bytes < limits.messagesPageBytes) {
      const records = await search.next(
        Math.min(wanted - matched, searchStepRecords),
        limits.messagesPageBytes - bytes,
      );
      const viewed = await this.#walked((sight) => viewMessages(sight, records));
      for (const row of viewed.rows) {
        if (filter.status !== null && row.status !== filter.status) continue;
        const isShown = matched >= filter.offset && rows.length < filter.limit && bytes < limits.messagesPageBytes;
        if (isShown) {
          rows.push(row);
          bytes += row.payload?.length ?? 0;
        }
        matched++;
      }
    }
    return { rows, total: matched, totalIsExact: search.isOver && !candidates.isCut, mode: candidates.mode };
  }

  #pace(): ReadPace {
    return new ReadPace(this.#host.scheduler);
  }

  #hash(text: Uint8Array): { high: number; low: number } {
    const { hasher } = this.#host.store();
    hasher.hash(text, 0, text.length);
    return { high: hasher.high, low: hasher.low };
  }

  message(partition: PartitionRef, transactionId: string, reply: Reply<MessageDetail | null>): void {
    const access = this.#host.access();
    this.#answer('a message', reply, async () => {
      const address = await this.#walked((sight) => found(addressOf(sight, laneOfRef(sight.state, partition))));
      if (address === null) return null;
      const { state } = this.#host.context();
      const record = await findRecord(
        state,
        access,
        this.#host.cipher,
        this.#pace(),
        (text) => this.#hash(text),
        address,
        transactionId,
      );
      return record === null ? null : this.#walked((sight) => viewDetail(sight, record));
    });
  }

  peek(request: PeekRequest, reply: Reply<PeekView | null>): void {
    const access = this.#host.access();
    this.#answer('a partition', reply, async () => {
      const address = await this.#walked((sight) => found(addressOf(sight, this.#laneOf(sight, request))));
      if (address === null) return null;
      const { state } = this.#host.context();
      const from = Math.max(address.logStart, request.offset ?? 0);
      const records = await readFrom(state, access, this.#host.cipher, this.#pace(), address, from, request.limit);
      return this.#walked((sight) => viewPeek(sight, this.#stampOf(sight), request, address.pid, from, records));
    });
  }

  #laneOf({ state }: Sight, { queue, partition }: PeekRequest): number {
    const name = utf8(partition);
    const number = state.queues.get(queue)?.number;
    return number === undefined ? -1 : state.partitions.find(number, this.#hash(name).low, name, 0, name.length);
  }

  /** Newest failure first. */
  deadLetters(filter: DeadLetterFilter, reply: Reply<DeadLetterPage>): void {
    const access = this.#host.access();
    this.#answer('dead letters', reply, async () => {
      const { rows, total } = await this.#walked(({ state }) => findDeadLetters(state, filter));
      const { state } = this.#host.context();
      return { rows: await readDeadLetters(state, access, this.#host.cipher, this.#pace(), rows), total };
    });
  }

  recordTrace(trace: TraceCommand, reply: Reply<TraceOutcome>): void {
    this.#host.submit(
      new SimpleOperation<TraceOutcome>(
        () => (this.#host.isDiskFull() ? traceStorageFull : decideTrace(this.#host.context(), trace)),
        reply,
      ),
    );
  }

  tracesOf(partition: PartitionRef | null, transactionId: string, page: PageOf, reply: Reply<TracePage>): void {
    this.#walk(
      ({ state, schedule }) =>
        pageOfTraces(
          state,
          schedule.nowUs,
          (record) => record.transactionId === transactionId && record.pid === (partition?.pid ?? -1),
          page,
        ),
      reply,
    );
  }

  tracesNamed(name: string, page: PageOf, reply: Reply<TracePage>): void {
    this.#walk(
      ({ state, schedule }) => pageOfTraces(state, schedule.nowUs, ({ names }) => names.includes(name), page),
      reply,
    );
  }

  traceNames(page: PageOf, reply: Reply<TraceNamePage>): void {
    this.#walk(({ state, schedule }) => pageOfNames(state, schedule.nowUs, page), reply);
  }
}

/** Records read between two looks at the state. */
const searchStepRecords = 500;
const topErrorsShown = 5;
/** Error texts that are told apart when the most frequent ones are looked for. */
const distinctErrorsMax = 10_000;
const statusQueuesMax = 1000;

class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

const traceStorageFull: Refusal = {
  ok: false,
  code: 'storage_full',
  message: 'storage is full on at least one node: traces are refused until space is free again',
  retryAfterSeconds: 1,
};

// biome-ignore lint/correctness/useYield: there is nothing to walk over
function* nothing(): Walk<null> {
  return null;
}

// biome-ignore lint/correctness/useYield: there is nothing to walk over
function* found<Outcome>(outcome: Outcome): Walk<Outcome> {
  return outcome;
}

function addressOf({ state }: Sight, lane: number): Address | null {
  if (lane < 0) return null;
  const { pid, logStart, nextOffset } = state.partitions;
  return { lane, pid: pid[lane], logStart: logStart[lane], end: nextOffset[lane] };
}
