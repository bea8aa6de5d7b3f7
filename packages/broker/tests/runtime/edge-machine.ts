import { seqText } from '../../src/codec/mod.ts';
import {
  type EdgeTableRecord,
  type EnqueueOutcome,
  edgeRow,
  type PollCommand,
  readJsonNode,
  type Seq,
} from '../../src/core/mod.ts';
import type { PolledPage, Reply, ScannedPage } from '../../src/runtime/mod.ts';
import { VirtualMachine } from './virtual-machine.ts';

const textDecoder = new TextDecoder();
const signBit = 0x8000_0000;

/** A seq that is not negative and below 2^32. */
export function seqOf(value: number): Seq {
  return [signBit, value];
}

export interface Polled {
  readonly seqs: string[];
  readonly values: string[];
  readonly hasNext: boolean;
  readonly watermark: number;
}

const schema = {
  type: 'IMMUTABLE_EDGE',
  source: { type: 'STRING' },
  target: { type: 'LONG' },
  properties: [
    { name: 'rank', type: 'INT', nullable: false },
    { name: 'text', type: 'STRING', nullable: true },
  ],
  direction: 'OUT',
  indexes: [{ index: 'by_rank', fields: [{ field: 'rank', order: 'DESC' }] }],
};

function polled({ page, values, ends, watermark }: PolledPage): Polled {
  return {
    seqs: Array.from({ length: page.count }, (_, i) =>
      seqText(page.words[i * edgeRow.words], page.words[i * edgeRow.words + 1]),
    ),
    values: Array.from({ length: page.count }, (_, i) =>
      textDecoder.decode(values.subarray(i === 0 ? 0 : ends[i - 1], ends[i])),
    ),
    hasNext: page.hasNext,
    watermark,
  };
}

export class EdgeMachine extends VirtualMachine {
  constructor(snapshotLogBytes = 65_536) {
    super(8192, { snapshotLogBytes, housekeeping: { intervalMs: 1000 } });
  }

  async begin(): Promise<void> {
    await this.start();
    const { edgeTables, edgeQueues } = this.shard;
    await this.call<object, null>(
      (reply) => edgeTables.createDatabase('ns', '', reply),
      () => null,
    );
    const queue = { database: 'ns', queue: 'q', storage: 'datastore://ns/q', partitions: 2, dedupMs: 60_000 };
    await this.call<EdgeTableRecord, null>(
      (reply) => edgeQueues.create(queue, reply),
      () => null,
    );
    const table = {
      database: 'ns',
      name: 't',
      storage: 'datastore://ns/t',
      schema,
      mode: 'SYNC' as const,
      comment: '',
    };
    await this.call<EdgeTableRecord, null>(
      (reply) => edgeTables.createTable(table, reply),
      () => null,
    );
  }

  enqueue(
    messages: readonly { key?: string; seq: number; value?: unknown; dedupId?: string }[],
  ): Promise<{ partitions: number[]; created: number }> {
    const body = { messages: messages.map((message) => ({ key: 'k', ...message })) };
    const scanned = this.shard.edgeQueues.scan(Buffer.from(JSON.stringify(body)), false);
    if (!scanned.ok) throw new Error(scanned.message);
    return this.call(
      (reply: Reply<EnqueueOutcome>) => this.shard.edgeQueues.enqueue('ns', 'q', scanned.items, reply),
      ({ sources, created }) => ({ partitions: [...sources], created }),
    );
  }

  poll(partition: number, parts: Partial<PollCommand> = {}, waitMs = 0): Promise<Polled> {
    return this.scheduler.runUntil(this.beginPoll(partition, parts, waitMs));
  }

  /** The poll goes on while others are called, or time passes. */
  beginPoll(partition: number, parts: Partial<PollCommand>, waitMs: number): Promise<Polled> {
    const command = { partition, limit: 1000, after: null, afterTarget: null, until: null, ...parts };
    let answer: Polled | undefined;
    return new Promise((resolve, reject) => {
      this.shard.edgeQueues.poll({ database: 'ns', queue: 'q', ...command }, waitMs, {
        encode: (page) => {
          answer = polled(page);
        },
        send: (failure) => (failure === null ? resolve(answer as Polled) : reject(new Error(failure.message))),
      });
    });
  }

  commit(partition: number, through: number): Promise<number> {
    const command = { database: 'ns', queue: 'q', partition, offset: seqOf(through), target: null };
    return this.call(
      (reply: Reply<{ readonly committed: number }>) =>
        this.shard.edgeQueues.commit({ ...command, watermark: Number.POSITIVE_INFINITY }, reply),
      ({ committed }) => committed,
    );
  }

  async insert(edges: readonly { source: string; target: number; rank: number; text?: string }[]): Promise<void> {
    const mutations = edges.map(({ source, target, rank, text = null }) =>
      readJsonNode(
        JSON.stringify({ type: 'INSERT', edge: { version: 1, source, target, properties: { rank, text } } }),
      ),
    );
    await this.call<object, null>(
      (reply) => this.shard.edgeTables.insert('ns', 't', mutations, reply),
      () => null,
    );
  }

  scan(start: string): Promise<string[]> {
    const command = { database: 'ns', table: 't', index: 'by_rank', start, direction: 'OUT' as const, limit: 1000 };
    return this.call(
      (reply: Reply<ScannedPage>) =>
        this.shard.edgeTables.scan({ ...command, ranges: null, after: null, filters: null }, reply),
      ({ page, values, ends }) =>
        page.rows.map(({ length }, i) => textDecoder.decode(values.subarray(ends[i] - length, ends[i]))),
    );
  }

  scanDelete(start: string, limit: number): Promise<number> {
    const command = { database: 'ns', table: 't', index: 'by_rank', start, direction: 'OUT' as const, limit };
    return this.call(
      (reply: Reply<{ readonly deleted: number }>) =>
        this.shard.edgeTables.scanDelete({ ...command, ranges: null }, reply),
      ({ deleted }) => deleted,
    );
  }

  pass(seconds: number): Promise<void> {
    return this.scheduler.advance(seconds * 1000);
  }

  segmentFiles(): string[] {
    return this.disk.paths().filter((path) => path.endsWith('.seg'));
  }
}
