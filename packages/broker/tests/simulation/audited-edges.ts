/** Calls of queue/v1, as audited-engine.ts makes them: each decision is heard by the auditor. */
import { type EdgeTableRecord, type EnqueueOutcome, edgeRow, type Seq } from '../../src/core/mod.ts';
import type { PolledPage } from '../../src/runtime/mod.ts';
import type { AuditedCalls, Result } from './audited-engine.ts';
import { type EnqueuedMessage, idOf, type PolledMessage, type SentCommit, type SentMessage } from './edge-audit.ts';

export const edgePartitions = 3;
const database = 'ns';
const queue = 'edges';
const signBit = 0x8000_0000;
const textDecoder = new TextDecoder();

export interface Page {
  readonly messages: readonly PolledMessage[];
  readonly watermark: number;
}

/** Seqs in these worlds are below 2^32 and not negative. */
function seqOf(value: number): Seq {
  return [signBit, value];
}

export class AuditedEdges {
  readonly #calls: AuditedCalls;

  constructor(calls: AuditedCalls) {
    this.#calls = calls;
  }

  /** The database and the queue, as far as they are not there. */
  create(done: (result: Result<null>) => void): void {
    this.#calls.call<object, null>(
      'create database',
      () => this.#createQueue(done),
      (shard, reply) => shard.edgeTables.createDatabase(database, '', reply),
      () => null,
    );
  }

  #createQueue(done: (result: Result<null>) => void): void {
    const storage = 'datastore://ns/edges';
    const command = { database, queue, storage, partitions: edgePartitions, dedupMs: 86_400_000 };
    this.#calls.call<EdgeTableRecord, null>(
      'create queue',
      done,
      (shard, reply) => shard.edgeQueues.create(command, reply),
      () => null,
    );
  }

  enqueue(
    messages: readonly Omit<SentMessage, 'keyHash'>[],
    done: (result: Result<readonly EnqueuedMessage[]>) => void,
  ): void {
    const items = messages.map(({ key, seq, value, dedupId }) => {
      const id = dedupId === null ? '' : `,"dedupId":${JSON.stringify(dedupId)}`;
      return `{"key":${JSON.stringify(key)},"seq":${seq},"value":${value}${id}}`;
    });
    const body = Buffer.from(`{"messages":[${items.join()}]}`);
    let sent: readonly SentMessage[] = [];
    this.#calls.call<EnqueueOutcome, readonly EnqueuedMessage[]>(
      `enqueue ${messages.length}`,
      done,
      (shard, reply) => {
        const scanned = shard.edgeQueues.scan(body, false);
        if (!scanned.ok) throw new Error(scanned.message);
        sent = messages.map((message, i) => ({ ...message, keyHash: scanned.items.keyHashes[i] }));
        shard.edgeQueues.enqueue(database, queue, scanned.items, reply);
      },
      ({ sources, targets, duplicates }, moment) => {
        const answers = sent.map((_, i) => ({
          id: idOf(targets, i * 4),
          partition: sources[i],
          isDuplicate: duplicates?.[i] === 1,
        }));
        this.#calls.host.auditor.edges.enqueued(moment, edgePartitions, sent, answers);
        return answers;
      },
    );
  }

  poll(partition: number, limit: number, waitMs: number, done: (result: Result<Page>) => void): void {
    const command = { database, queue, partition, limit, after: null, afterTarget: null, until: null };
    this.#calls.call<PolledPage, Page>(
      `poll ${partition} ${limit}`,
      done,
      (shard, reply) => {
        shard.edgeQueues.poll(command, waitMs, reply);
      },
      (outcome) => {
        const page = pageOf(outcome);
        this.#calls.host.auditor.edges.polled(page.messages);
        return page;
      },
      { decidesWhenEncoded: false },
    );
  }

  commit(commit: SentCommit, done: (result: Result<number>) => void): void {
    const { partition, through, watermark } = commit;
    const command = { database, queue, partition, offset: seqOf(through), target: null, watermark };
    this.#calls.call<{ readonly committed: number }, number>(
      `commit ${JSON.stringify(commit)}`,
      done,
      (shard, reply) => shard.edgeQueues.commit(command, reply),
      ({ committed }, moment) => {
        this.#calls.host.auditor.edges.committed(moment, commit, committed);
        return committed;
      },
    );
  }

  purge(done: (result: Result<number>) => void): void {
    this.#calls.call<{ readonly purged: number }, number>(
      'purge',
      done,
      (shard, reply) => shard.edgeQueues.purge(database, queue, reply),
      ({ purged }, moment) => {
        this.#calls.host.auditor.edges.purged(moment, purged);
        return purged;
      },
    );
  }
}

function pageOf({ page, values, ends, watermark }: PolledPage): Page {
  const messages = Array.from({ length: page.count }, (_, i) => ({
    id: idOf(page.words, i * edgeRow.words + edgeRow.targetAt),
    seq: page.words[i * edgeRow.words + edgeRow.seqLowAt],
    value: textDecoder.decode(values.subarray(i === 0 ? 0 : ends[i - 1], ends[i])),
  }));
  return { messages, watermark };
}
