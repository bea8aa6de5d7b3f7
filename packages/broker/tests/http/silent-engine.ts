/**
 * An engine that takes requests and keeps them: the worst that HTTP has to live with. Tests look at what arrived, and
 * answer when they want.
 */

import type { AckItems, AckOutcome, ExtendOutcome, PopOutcome, PushItems, PushOutcome } from '../../src/core/mod.ts';
import { buildHttpServer, type HttpOptions } from '../../src/http/mod.ts';
import type {
  ConfigureRequest,
  DeadLetterChanges,
  DeadLetterPage,
  DueEngine,
  Engine,
  FetchReply,
  FetchRequest,
  GroupEngine,
  HealthReport,
  OffsetReader,
  PopRequest,
  QueueDetail,
  QueueList,
  QueueSummary,
  Reply,
  RowsReply,
  Views,
} from '../../src/runtime/mod.ts';
import { EdgeQueues, EdgeTables } from '../../src/runtime/mod.ts';

export type Arrived =
  | { readonly route: 'push'; readonly items: PushItems; readonly reply: Reply<PushOutcome> }
  | { readonly route: 'pop'; readonly request: PopRequest; readonly reply: Reply<PopOutcome> }
  | { readonly route: 'ack'; readonly group: string; readonly items: AckItems; readonly reply: Reply<AckOutcome> }
  | { readonly route: 'extend'; readonly stamp: number; readonly seconds: number; readonly reply: Reply<ExtendOutcome> }
  | { readonly route: 'configure'; readonly request: ConfigureRequest; readonly reply: Reply<QueueDetail> }
  | { readonly route: 'delete'; readonly queue: string; readonly reply: Reply<{ existed: boolean }> }
  | { readonly route: 'list'; readonly reply: RowsReply<QueueSummary, QueueList> }
  | { readonly route: 'detail'; readonly queue: string; readonly reply: Reply<QueueDetail | null> }
  | { readonly route: 'dead letters'; readonly filter: object; readonly reply: Reply<DeadLetterPage> }
  | { readonly route: 'fetch'; readonly request: FetchRequest; readonly reply: FetchReply }
  | { readonly route: 'fetch cancelled'; readonly request: FetchRequest }
  | { readonly route: 'fetch offsets'; readonly entries: readonly object[]; readonly reply: object }
  | { readonly route: 'changed'; readonly entries: readonly object[]; readonly reply: object }
  | { readonly route: 'cancel'; readonly request: PopRequest };

type Route = Arrived['route'];

function unexpected(): never {
  throw new Error('a silent engine has no state and decides nothing');
}

const silentHost: ConstructorParameters<typeof EdgeQueues>[0] = {
  scheduler: { soon: unexpected, after: unexpected },
  parkedPollsMax: 0,
  store: unexpected,
  access: unexpected,
  context: unexpected,
  nowUs: () => 0,
  submit: () => undefined,
  readingBegan: unexpected,
  readingEnded: unexpected,
  isDiskFull: () => false,
  noteDamage: unexpected,
  log: unexpected,
};

export class SilentEngine implements Engine {
  readonly identity = { saltHigh: 1, saltLow: 2, seedHigh: 3, seedLow: 4 };
  readonly arrived: Arrived[] = [];
  /** These take everything and answer nothing. */
  readonly edgeQueues = new EdgeQueues(silentHost);
  readonly edgeTables = new EdgeTables(silentHost, () => undefined);
  report: HealthReport = {
    state: 'healthy',
    detail: '',
    epoch: 3,
    sequence: 9,
    durableSequence: 7,
    storageReady: true,
  };
  #wake: () => void = () => undefined;

  /** The next request of this kind, taken out; waits for it. */
  async next<Name extends Route>(route: Name): Promise<Extract<Arrived, { route: Name }>> {
    for (;;) {
      const index = this.arrived.findIndex((each) => each.route === route);
      if (index >= 0) return this.arrived.splice(index, 1)[0] as Extract<Arrived, { route: Name }>;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #arrive(arrived: Arrived): void {
    this.arrived.push(arrived);
    this.#wake();
  }

  push(items: PushItems, reply: Reply<PushOutcome>): void {
    this.#arrive({ route: 'push', items, reply });
  }

  pop(request: PopRequest, reply: Reply<PopOutcome>): () => void {
    this.#arrive({ route: 'pop', request, reply });
    return () => this.#arrive({ route: 'cancel', request });
  }

  ack(group: string, items: AckItems, reply: Reply<AckOutcome>): void {
    this.#arrive({ route: 'ack', group, items, reply });
  }

  extendLease(stamp: number, seconds: number, reply: Reply<ExtendOutcome>): void {
    this.#arrive({ route: 'extend', stamp, seconds, reply });
  }

  configureQueue(request: ConfigureRequest, reply: Reply<QueueDetail>): void {
    this.#arrive({ route: 'configure', request, reply });
  }

  deleteQueue(queue: string, reply: Reply<{ existed: boolean }>): void {
    this.#arrive({ route: 'delete', queue, reply });
  }

  queueDetail(queue: string, reply: Reply<QueueDetail | null>): void {
    this.#arrive({ route: 'detail', queue, reply });
  }

  deadLetters(filter: object, reply: Reply<DeadLetterPage>): void {
    this.#arrive({ route: 'dead letters', filter, reply });
  }

  /** No test of HTTP alone asks for groups. */
  get groups(): GroupEngine {
    throw new Error('the silent engine knows no groups');
  }

  /** Nor for messages that wait. */
  get due(): DueEngine {
    throw new Error('the silent engine knows no messages that wait');
  }

  readonly reads: OffsetReader = {
    fetch: (request, reply) => {
      this.#arrive({ route: 'fetch', request, reply });
      return () => this.#arrive({ route: 'fetch cancelled', request });
    },
    fetchOffsets: (entries, reply) => this.#arrive({ route: 'fetch offsets', entries, reply }),
    changed: (entries, reply) => {
      this.#arrive({ route: 'changed', entries, reply });
      return () => undefined;
    },
  };

  get deadLetterChanges(): DeadLetterChanges {
    throw new Error('this engine changes no dead letters');
  }

  health(): HealthReport {
    return this.report;
  }

  /** Of what consoles look at, only the list of queues arrives here. */
  get views(): Views {
    const listQueues: Views['listQueues'] = (_page, reply) => this.#arrive({ route: 'list', reply });
    return { listQueues } as Views;
  }

  metrics(): Readonly<Record<string, number>> {
    return { turns: 5, somethingNew: 6 };
  }
}

/** What a push of `count` items is answered when all of them were stored. */
export function queued(count: number): PushOutcome {
  const zeros = () => new Float64Array(count);
  return {
    ok: true,
    count,
    statuses: new Uint8Array(count),
    offsets: zeros(),
    pids: zeros().fill(17),
    stamps: zeros().fill(1_790_000_000_000_000),
    indexes: new Uint32Array(count),
    dues: null,
  };
}

export const nothing: PopOutcome = {
  ok: true,
  queue: 'q',
  group: 'g',
  leaseStamp: 0,
  runs: [],
  conflation: false,
  conflationConflict: false,
  autopilot: null,
};

export interface TestServer {
  readonly engine: SilentEngine;
  readonly port: number;
  readonly log: string[];
  close(): Promise<void>;
}

const kiB = 1024;

/** A server on a free port before a silent engine. */
export async function startServer(options: Partial<HttpOptions> = {}): Promise<TestServer> {
  const engine = new SilentEngine();
  const log: string[] = [];
  const server = buildHttpServer(engine, {
    port: 0,
    host: '127.0.0.1',
    maxBodyBytes: 100 * kiB,
    defaultSubscriptionMode: 'new',
    admissionBytes: 1024 * kiB,
    admissionWaitMs: 10_000,
    answerBytes: 1024 * kiB,
    slowReaderSeconds: 30,
    requestTimeoutMs: 30_000,
    receiveTimeoutMs: 60_000,
    keepAliveMs: 60_000,
    maxConnections: 1000,
    maxHeaderBytes: 8 * kiB,
    stopGraceMs: 50,
    version: '1.2.3',
    decrypt: null,
    log: ({ level, text }) => log.push(`${level} ${text}`),
    ...options,
  });
  const { port } = await server.listen();
  return { engine, port, log, close: () => server.close() };
}
