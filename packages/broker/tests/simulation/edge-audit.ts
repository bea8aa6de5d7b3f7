/** What the auditor knows of queue/v1: every message that must be there, and what was ever said of one. */
import { type BrokerState, edgePartitionOf, edgeRow } from '../../src/core/mod.ts';
import type { Moment } from './auditor.ts';
import type { ChangeLog } from './versioned.ts';

export interface SentMessage {
  readonly key: string;
  readonly keyHash: number;
  readonly seq: number;
  /** JSON text. */
  readonly value: string;
  readonly dedupId: string | null;
}

export interface EnqueuedMessage {
  readonly id: string;
  readonly partition: number;
  readonly isDuplicate: boolean;
}

export interface PolledMessage {
  readonly id: string;
  readonly seq: number;
  readonly value: string;
}

export interface SentCommit {
  readonly partition: number;
  readonly through: number;
  readonly watermark: number;
}

interface ExpectedMessage extends PolledMessage {
  readonly partition: number;
  /** How many messages the queue had taken in with it. */
  readonly appended: number;
}

export interface EdgeAuditHost {
  readonly changes: ChangeLog;
  ensure(condition: boolean, promise: string): void;
}

export class EdgeAudit {
  readonly #host: EdgeAuditHost;
  /** By id: messages that are stored. */
  readonly messages = new Map<string, ExpectedMessage>();
  /** Every message that a decision stored, also if its entry was lost. */
  readonly #ever = new Map<string, PolledMessage>();
  readonly #known = new Map<string, EnqueuedMessage>();
  #appended = 0;
  #lastId = '';
  readonly counts = { enqueued: 0, committed: 0, polled: 0, duplicates: 0 };

  constructor(host: EdgeAuditHost) {
    this.#host = host;
  }

  enqueued(
    { sequence }: Moment,
    partitions: number,
    sent: readonly SentMessage[],
    answers: readonly EnqueuedMessage[],
  ): void {
    const { changes, ensure } = this.#host;
    changes.sequence = sequence;
    ensure(answers.length === sent.length, 'an enqueue answers each message');
    const fresh: (PolledMessage & { readonly partition: number })[] = [];
    sent.forEach(({ keyHash, seq, value, dedupId }, i) => {
      const { id, partition, isDuplicate } = answers[i];
      const known = dedupId === null ? undefined : this.#known.get(dedupId);
      ensure(isDuplicate === (known !== undefined), `${dedupId} is a duplicate exactly when it is known`);
      if (isDuplicate) {
        ensure(known?.id === id && known.partition === partition, `${dedupId} stands for its first message`);
        this.counts.duplicates++;
        return;
      }
      ensure(partition === edgePartitionOf(keyHash, partitions), 'a message goes where its key belongs');
      ensure(id > this.#lastId, `ids rise: ${id} comes after ${this.#lastId}`);
      const lastId = this.#lastId;
      this.#lastId = id;
      changes.did(() => {
        this.#lastId = lastId;
      });
      fresh.push({ id, partition, seq, value });
      if (dedupId !== null) changes.set(this.#known, dedupId, answers[i]);
      this.counts.enqueued++;
    });
    // They are taken in by partition.
    for (const message of fresh.sort((a, b) => a.partition - b.partition)) {
      const appended = ++this.#appended;
      changes.did(() => {
        this.#appended = appended - 1;
      });
      this.#ever.set(message.id, message);
      changes.set(this.messages, message.id, { ...message, appended });
    }
  }

  /** A page may be older than the present: what it shows was stored some time, and is in order. */
  polled(page: readonly PolledMessage[]): void {
    const { ensure } = this.#host;
    page.forEach(({ id, seq, value }, i) => {
      const stored = this.#ever.get(id);
      ensure(stored?.seq === seq && stored.value === value, `${id} is delivered as it was enqueued: ${seq} ${value}`);
      const before = page[i - 1];
      const isBehind = before === undefined || before.seq < seq || (before.seq === seq && before.id < id);
      ensure(isBehind, `${id} is delivered in order`);
    });
    this.counts.polled += page.length;
  }

  /** With nobody else at work a page is exactly what is stored. */
  polledAll(partition: number, page: readonly PolledMessage[]): void {
    this.polled(page);
    const expected = this.#ordered(partition).map(({ id }) => id);
    this.#host.ensure(
      JSON.stringify(page.map(({ id }) => id)) === JSON.stringify(expected),
      `partition ${partition} shows its ${expected.length} messages, not ${page.length}`,
    );
  }

  committed({ sequence }: Moment, { partition, through, watermark }: SentCommit, committed: number): void {
    this.#host.changes.sequence = sequence;
    const covered = [...this.messages.values()].filter(
      (each) => each.partition === partition && each.seq <= through && each.appended <= watermark,
    );
    this.#host.ensure(
      covered.length === committed,
      `a commit of ${partition} through ${through} at ${watermark} covers ${covered.length} messages, not ${committed}`,
    );
    this.#remove(covered);
  }

  purged({ sequence }: Moment, purged: number): void {
    this.#host.changes.sequence = sequence;
    this.#host.ensure(purged === this.messages.size, `a purge removes ${this.messages.size} messages, not ${purged}`);
    this.#remove([...this.messages.values()]);
  }

  #remove(gone: readonly ExpectedMessage[]): void {
    for (const message of gone) {
      this.messages.delete(message.id);
      this.#host.changes.did(() => this.messages.set(message.id, message));
    }
    this.counts.committed += gone.length;
  }

  #ordered(partition: number): ExpectedMessage[] {
    const found = [...this.messages.values()].filter((each) => each.partition === partition);
    return found.sort((a, b) => a.seq - b.seq || (a.id < b.id ? -1 : 1));
  }

  /** Holds the state against the model, row by row. */
  compare(state: BrokerState): void {
    const { ensure } = this.#host;
    let rowCount = 0;
    for (const table of state.edges.tables.values()) {
      for (const [partition, rows] of table.sources) {
        const expected = this.#ordered(partition);
        rowCount += rows.count;
        let i = 0;
        rows.visit(null, Number.POSITIVE_INFINITY, (words, w, numbers, n) => {
          const stored = expected[i++];
          const isSame =
            stored?.id === idOf(words, w + edgeRow.targetAt) &&
            stored.seq === words[w + edgeRow.seqLowAt] &&
            stored.appended === numbers[n + edgeRow.appendedAt];
          ensure(isSame, `row ${i} of partition ${partition} is ${stored?.id}`);
        });
      }
    }
    ensure(rowCount === this.messages.size, `${this.messages.size} messages are stored, not ${rowCount}`);
  }
}

/** 4 words of a target as text in the order of targets. */
export function idOf(words: Uint32Array, at: number): string {
  return Array.from(words.subarray(at, at + 4), (word) => word.toString(16).padStart(8, '0')).join('');
}
