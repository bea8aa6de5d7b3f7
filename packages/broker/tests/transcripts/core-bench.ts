/**
 * The core alone, driven by lines of text: commands in, decisions and records out. Around it is only what the records
 * need to exist as bytes: a draft in memory, and look-ups that search everything.
 */
import { type QueueOptionName, queueOptionTable } from '@lanemq/protocol';
import {
  BlockReader,
  createHasher,
  hashAckItems,
  hashPushItems,
  readRecords,
  scanAckBody,
  scanPushBody,
} from '../../src/codec/mod.ts';
import {
  ackError,
  BrokerState,
  type DecisionContext,
  decideAck,
  decideConfigure,
  decideDeleteQueue,
  decideExtend,
  decidePop,
  defaultGroup,
  idLookup,
  idText,
  itemStatus,
  type MissingRow,
  PushDecider,
  type RecordHandlers,
  Schedule,
} from '../../src/core/mod.ts';
import { DraftJournal } from '../../src/runtime/draft-journal.ts';
import { noPlaces, quietListener } from '../core/quiet-schedule.ts';

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder();
const hasher = await createHasher(5, 6);
const startUs = 1_700_000_000_000_000;

/** An entry that is never sealed. */
class MemoryDraft {
  bytes = new Uint8Array(1024);
  view = new DataView(this.bytes.buffer);
  position = 0;
  readonly base = 0;

  require(length: number): void {
    if (this.position + length <= this.bytes.length) return;
    const larger = new Uint8Array((this.position + length) * 2);
    larger.set(this.bytes);
    this.bytes = larger;
    this.view = new DataView(larger.buffer);
  }
}

interface StoredBlock {
  readonly pid: number;
  readonly firstOffset: number;
  readonly count: number;
  readonly stampUs: number;
  readonly at: number;
}

export class CoreBench {
  readonly #draft = new MemoryDraft();
  readonly #state = new BrokerState();
  readonly #journal = new DraftJournal(this.#draft, this.#state, hasher);
  readonly #blocks: StoredBlock[] = [];
  readonly #pusher = new PushDecider();
  readonly #schedule: Schedule;
  readonly #reader = new BlockReader();
  /** Blocks that lie on disk only, as addresses in the draft, and those of them that were read last. */
  readonly #cold = new Set<number>();
  #read = new Set<number>();
  #missing: readonly MissingRow[] = [];
  /** Stamps of leases in the order in which they were given: L1, L2 … */
  readonly #leases: number[] = [];
  #nowUs = startUs;
  #shownTo = 0;

  constructor() {
    this.#schedule = new Schedule(
      this.#state,
      {
        ...noPlaces,
        stampOf: (_lane, pid, offset) => {
          const block = this.#blockOf(pid, offset);
          return block === undefined || this.#cold.has(block.at) ? 0 : block.stampUs;
        },
      },
      quietListener,
    );
    this.#state.observer = this.#schedule;
    this.#journal.genesis({ saltHigh: 1, saltLow: 2, seedHigh: 5, seedLow: 6, createdAtUs: startUs });
    this.#records();
  }

  /** Runs one line. The result: what was decided, then the records, each on its own line. */
  run(line: string): string {
    const [command, ...words] = line.split(' ');
    const decided = this.#decide(command, words);
    return [...decided, ...this.#records()].join('\n');
  }

  #decide(command: string, words: string[]): string[] {
    switch (command) {
      case 'configure':
        return this.#configure(words);
      case 'push':
        return this.#push(words);
      case 'pop':
        return this.#pop(words);
      case 'ack':
        return this.#ack(words);
      case 'extend':
        return this.#extend(words);
      case 'delete':
        return [decideDeleteQueue(this.#context(), words[0]) ? 'deleted' : 'no such queue'];
      case 'time':
        return this.#pass(words[0]);
      case 'cold':
        for (const { at } of this.#blocks) this.#cold.add(at);
        return ['everything lies on disk'];
      case 'loaded':
        return this.#loaded();
      default:
        throw new Error(`no such command: ${command}`);
    }
  }

  #context(): DecisionContext {
    const nowUs = Math.max(this.#nowUs, this.#state.lastStampUs + 1);
    this.#schedule.advance(nowUs, 1000);
    return {
      state: this.#state,
      schedule: this.#schedule,
      journal: this.#journal,
      nowUs,
      blocks: { open: (_lane, pid, offset) => this.#open(pid, offset) },
      ids: {
        found: { stampUs: 0, index: 0 },
        find: (_lane, pid, high, low, sinceUs) => this.#find(pid, high, low, sinceUs),
        firstFrom: (_lane, pid, stampUs) =>
          this.#blocks.find((block) => block.pid === pid && block.stampUs >= stampUs)?.firstOffset ?? idLookup.absent,
      },
    };
  }

  #blockOf(pid: number, offset: number): StoredBlock | undefined {
    return this.#blocks.find(
      (block) => block.pid === pid && block.firstOffset <= offset && offset < block.firstOffset + block.count,
    );
  }

  #open(pid: number, offset: number): BlockReader | undefined {
    const block = this.#blockOf(pid, offset);
    if (block === undefined || (this.#cold.has(block.at) && !this.#read.has(block.at))) return undefined;
    return this.#reader.open(this.#draft.bytes, this.#draft.view, block.at);
  }

  #find(pid: number, high: number, low: number, sinceUs: number): number {
    const reader = new BlockReader();
    for (const block of [...this.#blocks].reverse()) {
      if (block.pid !== pid || block.stampUs < sinceUs) continue;
      reader.open(this.#draft.bytes, this.#draft.view, block.at);
      for (let index = block.count - 1; index >= 0; index--) {
        if (reader.hashHigh(index) === high && reader.hashLow(index) === low) return block.firstOffset + index;
      }
    }
    return idLookup.absent;
  }

  #configure([queue, ...pairs]: string[]): string[] {
    const options: Record<string, number | boolean> = {};
    for (const pair of pairs) {
      const [name, value] = pair.split('=');
      options[name] = queueOptionTable[name as QueueOptionName].type === 'boolean' ? value === 'true' : Number(value);
    }
    const configured = decideConfigure(this.#context(), {
      queue,
      queueBytes: queue.length,
      namespace: null,
      task: null,
      mode: 'merge',
      options,
    });
    return ['ok' in configured ? `refused: ${configured.code}` : 'configured'];
  }

  /** push QUEUE/PARTITION ID… */
  #push([place, ...ids]: string[]): string[] {
    const [queue, partition] = place.split('/');
    const items = ids.map((transactionId) => ({ queue, partition, transactionId, payload: transactionId }));
    const scanned = scanPushBody(textEncoder.encode(JSON.stringify({ items })));
    if (!scanned.ok) throw new Error(scanned.message);
    hashPushItems(scanned.items, hasher);
    const outcome = this.#pusher.decide(this.#context(), scanned.items, new Set());
    if (outcome.ok !== true) return [outcome.ok === false ? `refused: ${outcome.code}` : 'has to load'];
    const words = Object.keys(itemStatus);
    return ids.map((id, i) => `${id}: ${words[outcome.statuses[i]]} at ${outcome.offsets[i]}`);
  }

  /** What the last pop missed is read, and nothing else stays in memory. */
  #loaded(): string[] {
    this.#read = new Set();
    const lines = this.#missing.map(({ row, pid, offset, count }) => {
      for (const block of this.#blocks) {
        const isWanted = block.firstOffset < offset + count && block.firstOffset + block.count > offset;
        if (block.pid === pid && isWanted) this.#read.add(block.at);
      }
      this.#schedule.giveBack(row);
      return `read ${pid} from ${offset}`;
    });
    this.#missing = [];
    return lines;
  }

  /**
   * pop QUEUE[/PARTITION] [group=G] [batch=N] [partitions=N] [seconds=N] [commit] [conflation] [new] [from=SECONDS]
   * [arrived=SECONDS] where the last two are relative to now.
   */
  #pop([place, ...words]: string[]): string[] {
    const [queue, partition] = place.split('/');
    const group = option(words, 'group') ?? defaultGroup;
    const target =
      partition === undefined
        ? { kind: 'queue' as const, queue }
        : { kind: 'partition' as const, queue, ...named(partition) };
    const context = this.#context();
    const from = option(words, 'from');
    const decision = decidePop(context, {
      target,
      group,
      groupBytes: group.length,
      queueBytes: queue.length,
      batch: Number(option(words, 'batch') ?? 10),
      partitions: Number(option(words, 'partitions') ?? 1),
      leaseSeconds: Number(option(words, 'seconds') ?? 60),
      subscriptionMode: words.includes('new') ? 'new' : 'all',
      subscriptionFrom: from === undefined ? null : context.nowUs + Number(from) * 1_000_000,
      commitOnDelivery: words.includes('commit'),
      conflation: words.includes('conflation'),
      autopilot: false,
      arrivedUs: context.nowUs + Number(option(words, 'arrived') ?? 0) * 1_000_000,
    });
    if ('ok' in decision) return [`refused: ${decision.code}`];
    const { runs, leaseStamp } = decision.outcome;
    this.#missing = decision.missing;
    if (decision.missing.length > 0) {
      return decision.missing.map(({ pid, offset, count }) => `has to read ${pid} from ${offset}, ${count} records`);
    }
    if (runs.length === 0) return ['nothing'];
    if (leaseStamp > 0) this.#leases.push(leaseStamp);
    return runs.map((run) => {
      const records = run.pieces.flatMap((piece) => {
        const block = new BlockReader().open(piece.bytes, piece.view, piece.at);
        return Array.from({ length: piece.toIndex - piece.fromIndex }, (_, i) => {
          block.select(piece.fromIndex + i);
          const id = textDecoder.decode(block.bytes.subarray(block.idStart, block.idEnd));
          return `${block.firstOffset + piece.fromIndex + i} ${id}`;
        });
      });
      const name = textDecoder.decode(run.names.subarray(run.nameStart, run.nameEnd));
      const lease = leaseStamp > 0 ? `L${this.#leases.length}` : 'no lease';
      return `${name} (pid ${run.pid}): ${records.join(', ')}; ${lease}, attempt ${run.attempt}`;
    });
  }

  /** ack PID[,PID…] [group=G] LEASE:ID=STATUS[:ERROR]… LEASE is L1, L2 …, `-` for none, `?` for a wrong one. */
  #ack(words: string[]): string[] {
    const group = option(words, 'group') ?? defaultGroup;
    const { identity } = this.#state;
    const sent = words
      .filter((word) => !word.startsWith('group='))
      .map((word) => {
        const [, pid, lease, id, status, error] = /^(\d+)\/([^:]+):([^=]+)=([a-z]+)(?::(.*))?$/.exec(word) ?? [];
        if (id === undefined) throw new Error(`not an ack: ${word}`);
        const stamp = this.#leases[Number(lease.slice(1)) - 1];
        const leaseId = lease === '-' ? null : lease === '?' ? 'no such lease' : idText(identity, stamp, 0, 0);
        return { transactionId: id, partitionId: pid, leaseId, status, error: error ?? null };
      });
    const body = textEncoder.encode(JSON.stringify({ acknowledgments: sent, consumerGroup: group }));
    const scanned = scanAckBody(body, identity);
    if (!scanned.ok) throw new Error(scanned.message);
    hashAckItems(scanned.items, hasher);
    const outcome = decideAck(this.#context(), group, group.length, scanned.items);
    if (outcome.ok !== true) return [outcome.ok === false ? `refused: ${outcome.code}` : 'has to load'];
    const errors = ['ok', 'not a partition id', 'no partition', 'invalid lease', 'stale'];
    return sent.map(({ transactionId }, i) => {
      const marks = [
        errors[outcome.errors[i]],
        ...(outcome.noop[i] ? ['noop'] : []),
        ...(outcome.deadLettered[i] ? ['dead letter'] : []),
        ...(outcome.leaseReleased[i] && outcome.errors[i] !== ackError.noPartition ? ['released'] : []),
      ];
      return `${transactionId}: ${marks.join(', ')}`;
    });
  }

  /** extend LEASE SECONDS */
  #extend([lease, seconds]: string[]): string[] {
    const stamp = this.#leases[Number(lease.slice(1)) - 1];
    const { renewed } = decideExtend(this.#context(), stamp, Number(seconds));
    return [`${renewed} renewed`];
  }

  /** time 61s | 500ms | 1us */
  #pass(text: string): string[] {
    const [, number, unit] = /^(\d+)(s|ms|us)$/.exec(text) ?? [];
    this.#nowUs = Math.max(this.#nowUs, this.#state.lastStampUs);
    this.#nowUs += Number(number) * ({ s: 1_000_000, ms: 1000, us: 1 }[unit] ?? 0);
    return ['ok'];
  }

  /** The records since the last call, as text. */
  #records(): string[] {
    const lines: string[] = [];
    const { bytes, view, position } = this.#draft;
    readRecords(bytes, view, this.#shownTo, position, this.#recorder(lines));
    this.#shownTo = position;
    return lines.map((line) => `  ${line}`);
  }

  #recorder(lines: string[]): RecordHandlers {
    return {
      edges: null,
      genesis: () => undefined,
      logStart: ({ pid, logStart }) => void lines.push(`partition ${pid} begins at ${logStart}`),
      partitionsDeleted: (_queue, pids) => void lines.push(`partitions ${pids.join(', ')} deleted`),
      relocatedBlock: () => undefined,
      segmentReclaimed: () => undefined,
      dueRecord: (pid, offset) => void lines.push(`record ${pid}: ${offset} waits`),
      dueChanged: (pid, offset, dueUs) =>
        void lines.push(`record ${pid}: ${offset} ${dueUs > 0 ? 'moved' : 'cancelled'}`),
      queue: ({ name }) => void lines.push(`queue ${name}`),
      queueDeleted: ({ number }) => void lines.push(`queue ${number} deleted`),
      partition: (pid, _queue, _created, _hash, bytes, start, end) =>
        void lines.push(`partition ${pid} ${textDecoder.decode(bytes.subarray(start, end))}`),
      block: (pid, firstOffset, stampUs, count, _length, _bytes, _view, at) => {
        this.#blocks.push({ pid, firstOffset, count, stampUs, at });
        lines.push(`block ${pid}: ${firstOffset} to ${firstOffset + count - 1}`);
      },
      subscription: ({ group, mode, conflation, registered }) =>
        void lines.push(
          `group ${group} ${registered ? 'registered' : 'known'} ${mode}${conflation ? ' conflating' : ''}`,
        ),
      subscriptionDeleted: ({ number }) => void lines.push(`group ${number} deleted`),
      partitionPaused: ({ pid, pausedAtUs }) =>
        void lines.push(`partition ${pid} ${pausedAtUs > 0 ? 'paused' : 'resumed'}`),
      cursor: (cursor) => {
        const lease = this.#leases.indexOf(cursor.leaseStamp) + 1;
        const parts = [
          `committed ${cursor.committed}`,
          ...(cursor.leaseStamp > 0 ? [`L${lease} to ${cursor.leaseEnd}${cursor.conflated ? ' conflated' : ''}`] : []),
          ...(cursor.retryCount > 0 ? [`retries ${cursor.retryCount}`] : []),
          ...(cursor.attemptCount > 0 ? [`attempt ${cursor.attemptCount} at ${cursor.attemptOffset}`] : []),
          ...(cursor.heldUntilUs > 0 ? ['held'] : []),
          ...(cursor.consumed > 0 ? [`consumed ${cursor.consumed}`] : []),
          ...(cursor.batchDone ? ['batch done'] : []),
        ];
        lines.push(`cursor ${cursor.pid}: ${parts.join(', ')}`);
      },
      deadLetter: ({ pid, offset, error, retryCount, index }) =>
        void lines.push(`dead letter ${pid}: ${offset} "${error}", retries ${retryCount}, number ${index}`),
      trace: ({ pid, transactionId }) => void lines.push(`trace ${pid}: ${transactionId}`),
      deadLetterRemoved: ({ pid, index }) => void lines.push(`dead letter ${pid}: number ${index} removed`),
    };
  }
}

function option(words: readonly string[], name: string): string | undefined {
  return words.find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1);
}

function named(partition: string): { partition: string; partitionBytes: Uint8Array; partitionHash: number } {
  const partitionBytes = textEncoder.encode(partition);
  hasher.hash(partitionBytes, 0, partitionBytes.length);
  return { partition, partitionBytes, partitionHash: hasher.low };
}
