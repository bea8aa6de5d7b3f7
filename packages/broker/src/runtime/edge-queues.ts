/** queue/v1 on a shard: its operations, and the values of polled messages, which may have to be read from disk. */
import { limits } from '@lanemq/protocol';
import { type Hasher, type ScannedEnqueue, scanEnqueueBody } from '../codec/mod.ts';
import {
  decideCommit,
  decideCreateDatabase,
  decideCreateEdgeQueue,
  decideDeleteEdgeQueue,
  decideEnqueue,
  decidePoll,
  decideSetEdgeQueueActive,
  type EdgeContext,
  type EdgeDatabaseRecord,
  type EdgeItems,
  type EdgePage,
  type EdgeTableRecord,
  type EnqueueOutcome,
  edgeQueueLimits,
  edgeRow,
  findEdgeQueue,
  type PollCommand,
  type PollOutcome,
  type Refusal,
} from '../core/mod.ts';
import type { Reply } from './engine.ts';
import { isRefusal, type Operation, SimpleOperation } from './operations.ts';
import type { Store } from './store.ts';
import { StoreDamage } from './store-access.ts';

/** A page with its values: message `i` has values[ends[i − 1], ends[i]); none = null. */
export interface PolledPage extends PollOutcome {
  readonly values: Uint8Array;
  readonly ends: Uint32Array;
}

export interface EdgeQueueHost {
  store(): Store;
  /** Of the decision that is being made. */
  context(): EdgeContext;
  submit(operation: Operation): void;
  isDiskFull(): boolean;
  log(level: 'error', text: string): void;
}

const diskFull: Refusal = {
  ok: false,
  code: 'storage_full',
  message: 'the disk is over its watermark: nothing was stored',
  retryAfterSeconds: 1,
};

export class EdgeQueues {
  readonly #host: EdgeQueueHost;
  readonly #entropy = new Uint8Array(10);

  constructor(host: EdgeQueueHost) {
    this.#host = host;
  }

  #run<Outcome extends object>(decide: () => Outcome | Refusal, reply: Reply<Outcome>): void {
    this.#host.submit(new SimpleOperation<Outcome>(decide, reply));
  }

  scan(body: Uint8Array): ScannedEnqueue {
    const { enqueueMessagesMax, valueBytesMax } = edgeQueueLimits;
    const bounds = { jsonDepthMax: limits.jsonDepthMax, messagesMax: enqueueMessagesMax, valueBytesMax };
    return scanEnqueueBody(body, bounds, this.#host.store().hasher);
  }

  createDatabase(name: string, comment: string, reply: Reply<EdgeDatabaseRecord>): void {
    this.#run(() => decideCreateDatabase(this.#host.context(), name, comment), reply);
  }

  databases(reply: Reply<readonly EdgeDatabaseRecord[]>): void {
    this.#run(() => [...this.#host.context().edges.databases.values()], reply);
  }

  create(command: Parameters<typeof decideCreateEdgeQueue>[1], reply: Reply<EdgeTableRecord>): void {
    this.#run(() => decideCreateEdgeQueue(this.#host.context(), command), reply);
  }

  get(database: string, queue: string, reply: Reply<EdgeTableRecord>): void {
    this.#run(() => {
      const table = findEdgeQueue(this.#host.context().edges, database, queue);
      return isRefusal(table) ? table : table.record;
    }, reply);
  }

  setActive(database: string, queue: string, active: boolean, reply: Reply<EdgeTableRecord>): void {
    this.#run(() => decideSetEdgeQueueActive(this.#host.context(), database, queue, active), reply);
  }

  delete(database: string, queue: string, reply: Reply<object>): void {
    this.#run(() => decideDeleteEdgeQueue(this.#host.context(), database, queue), reply);
  }

  enqueue(database: string, queue: string, items: EdgeItems, reply: Reply<EnqueueOutcome>): void {
    this.#run(() => {
      if (this.#host.isDiskFull()) return diskFull;
      this.#host.store().random.fill(this.#entropy);
      return decideEnqueue(this.#host.context(), database, queue, items, this.#entropy);
    }, reply);
  }

  commit(command: Parameters<typeof decideCommit>[1], reply: Reply<{ readonly committed: number }>): void {
    this.#run(() => decideCommit(this.#host.context(), command), reply);
  }

  poll(command: PollCommand, reply: Reply<PolledPage>): void {
    const store = this.#host.store();
    let cold: PollOutcome | null = null;
    this.#run(() => decidePoll(this.#host.context().edges, command), {
      encode: (outcome) => {
        const page = withValues(store, outcome);
        if (page === null) cold = outcome;
        else reply.encode(page);
      },
      send: (failure) => {
        if (failure !== null || cold === null) {
          reply.send(failure);
          return;
        }
        readCold(store, cold).then(
          (page) => {
            reply.encode(page);
            reply.send(null);
          },
          (error: unknown) => {
            const message = error instanceof Error ? error.message : String(error);
            this.#host.log('error', `messages could not be read: ${message}`);
            reply.send({ ok: false, code: 'internal', message });
          },
        );
      },
    });
  }
}

/** The values, when all are in memory that this process wrote; null otherwise. */
function withValues(store: Store, outcome: PollOutcome): PolledPage | null {
  const { page } = outcome;
  const { values, ends } = roomFor(page);
  for (let i = 0; i < page.count; i++) {
    const length = page.words[i * edgeRow.words + edgeRow.lengthAt];
    if (length === 0) continue;
    const address = page.numbers[i * edgeRow.numbers + edgeRow.addressAt];
    const found = store.log.recent(address, length);
    if (found === undefined) return null;
    values.set(new Uint8Array(found.bytes.buffer, found.bytes.byteOffset + found.at, length), ends[i] - length);
  }
  return { ...outcome, values, ends };
}

function roomFor(page: EdgePage): { values: Uint8Array; ends: Uint32Array } {
  const ends = new Uint32Array(page.count);
  let end = 0;
  for (let i = 0; i < page.count; i++) {
    end += page.words[i * edgeRow.words + edgeRow.lengthAt];
    ends[i] = end;
  }
  return { values: new Uint8Array(end), ends };
}

/** Reads the values, and compares each with its checksum. */
async function readCold(store: Store, outcome: PollOutcome): Promise<PolledPage> {
  const { page } = outcome;
  const { words, numbers } = page;
  const { values, ends } = roomFor(page);
  const addressOf = (i: number): number => numbers[i * edgeRow.numbers + edgeRow.addressAt];
  const lengthOf = (i: number): number => words[i * edgeRow.words + edgeRow.lengthAt];
  const order = Array.from({ length: page.count }, (_, i) => i).filter((i) => lengthOf(i) > 0);
  order.sort((a, b) => addressOf(a) - addressOf(b));
  // In the order of the log, so that a read brings its neighbours along.
  for (const i of order) {
    const address = addressOf(i);
    const length = lengthOf(i);
    if (store.log.resident(address, length) === undefined) await store.log.load(address, length);
    const found = store.log.resident(address, length);
    if (found === undefined) throw new StoreDamage(`the log lost ${length} bytes at ${address}`);
    const at = ends[i] - length;
    values.set(new Uint8Array(found.bytes.buffer, found.bytes.byteOffset + found.at, length), at);
    check(store.hasher, values, at, ends[i], words[i * edgeRow.words + edgeRow.checksumAt], address);
  }
  return { ...outcome, values, ends };
}

function check(hasher: Hasher, bytes: Uint8Array, start: number, end: number, checksum: number, address: number): void {
  hasher.checksum(bytes, start, end);
  if (hasher.low !== checksum) throw new StoreDamage(`the value at log address ${address} is damaged`);
}
