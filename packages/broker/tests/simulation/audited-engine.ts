/**
 * The way of simulated clients to the broker: a request travels, is decided, and its answer travels back, or is lost.
 * The auditor hears of every decision at the moment it is made and of every answer at the moment it leaves, whatever
 * becomes of it on the way.
 */
import { BlockReader, recordFlag, scanAckBody, scanPushBody } from '../../src/codec/mod.ts';
import {
  type AckOutcome,
  ackStatus,
  type ExtendOutcome,
  idText,
  type PopOutcome,
  type PushOutcome,
  parseId,
  type Refusal,
} from '../../src/core/mod.ts';
import type { PayloadCipher } from '../../src/ports/mod.ts';
import type {
  ConfiguredQueue,
  ConfigureRequest,
  DeadLetterPage,
  DeadLetterView,
  DeleteQueueOutcome,
  PopRequest,
  QueueDetail,
  ReplayOutcome,
  ReplayTarget,
  Reply,
  Shard,
} from '../../src/runtime/mod.ts';
import { AuditedDue } from './audited-due.ts';
import { AuditedEdges } from './audited-edges.ts';
import { AuditedGroups } from './audited-groups.ts';
import type { AckedItem, Auditor, Moment, OpenPop, PopAnswer, PushedItem, PushedResult } from './auditor.ts';
import type { Delivery } from './expected-pop.ts';
import type { ExpectedDeadLetter } from './expected-state.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import type { SimulatedRandom } from './simulated-random.ts';
import type { SimulatedScheduler } from './simulated-scheduler.ts';

/** What a client knows in the end. `unknown`: no answer came, or one that says that nobody knows. */
export type Result<Answer> =
  | { readonly kind: 'answered'; readonly answer: Answer }
  | { readonly kind: 'refused'; readonly code: string }
  | { readonly kind: 'unknown' };

export interface NetworkOptions {
  readonly delayMsMax: number;
  /** Share of answers that get lost. */
  lossShare: number;
}

/** An item of an ack as a client sends it. */
export interface SentAck {
  readonly id: string;
  readonly pid: string;
  /** null = none is sent. */
  readonly leaseId: string | null;
  readonly status: 'completed' | 'failed' | 'retry' | 'dlq';
  readonly error: string | null;
}

/** How calls are made, for those about groups. */
export interface AuditedCalls {
  readonly host: EngineHost;
  call<Outcome, Answer>(
    name: string,
    done: (result: Result<Answer>) => void,
    send: (shard: Shard, reply: Reply<Outcome>) => void,
    decided: (outcome: Outcome, moment: Moment) => Answer,
    more?: CallOptions,
  ): void;
  guarded(work: () => void): void;
  readonly momentOf: (process: SimulatedProcess, shard: Shard) => Moment | null;
}

export interface EngineHost {
  readonly auditor: Auditor;
  readonly scheduler: SimulatedScheduler;
  readonly random: SimulatedRandom;
  readonly cipher: PayloadCipher;
  readonly network: NetworkOptions;
  /** The process that serves now. */
  process(): SimulatedProcess | null;
  /** Something the auditor or the client side objects to. */
  fail(error: Error): void;
  trace(text: string): void;
}

export interface CallOptions {
  /** A refusal leaves the broker. */
  readonly refused?: (refusal: Refusal) => void;
  /** An answer leaves the broker. */
  readonly left?: () => void;
  readonly decidesWhenEncoded?: false;
}

const textEncoder = new TextEncoder();
const textDecoder = new TextDecoder();

export class AuditedEngine {
  readonly #host: EngineHost;
  /** Calls without an answer yet. */
  readonly #open = new Set<() => void>();
  readonly #reader = new BlockReader();
  readonly groups: AuditedGroups;
  readonly due: AuditedDue;
  readonly edges: AuditedEdges;

  constructor(host: EngineHost) {
    this.#host = host;
    const calls: AuditedCalls = {
      host,
      call: (name, done, send, decided, more) => this.#call(name, done, send, decided, more),
      guarded: (work) => this.#guarded(work),
      momentOf,
    };
    this.groups = new AuditedGroups(calls);
    this.due = new AuditedDue(calls);
    this.edges = new AuditedEdges(calls);
  }

  get openCalls(): number {
    return this.#open.size;
  }

  /** The process died: nobody answers any more. */
  loseAll(): void {
    const open = [...this.#open];
    this.#open.clear();
    this.#host.auditor.processEnded();
    for (const lose of open) lose();
  }

  push(items: readonly PushedItem[], done: (result: Result<readonly PushedResult[]>) => void): void {
    const scanned = scanPushBody(pushBody(items));
    if (!scanned.ok) throw new Error(scanned.message);
    this.#call<PushOutcome, readonly PushedResult[]>(
      `push ${items.length}`,
      done,
      (shard, reply) => shard.push(scanned.items, reply),
      (outcome, moment) => {
        const results = pushedResults(outcome);
        this.#host.auditor.pushDecided(moment, items, results);
        return results;
      },
      {
        refused: (refusal) => {
          if (refusal.code === 'queue_full') this.#host.auditor.pushRefused(items);
        },
      },
    );
  }

  /** The result cancels the pop. */
  pop(request: PopRequest, done: (result: Result<PopAnswer>) => void): () => void {
    const { auditor } = this.#host;
    let pop: OpenPop | null = null;
    let cancel: (() => void) | null = null;
    let isCancelled = false;
    this.#call<PopOutcome, PopAnswer>(
      `pop ${JSON.stringify(request)}`,
      done,
      (shard, reply) => {
        if (isCancelled) return;
        const submittedUs = this.#host.process()?.clock.nowUs() ?? 0;
        pop = { request, submittedUs, isCancelled: false, isOver: false, claims: [] };
        auditor.popSubmitted(pop);
        cancel = shard.pop(request, reply);
      },
      (outcome, moment) => {
        const answer = this.#popAnswer(outcome, moment);
        if (pop !== null) auditor.popDecided(moment, pop, answer);
        return answer;
      },
      {
        left: () => {
          if (pop !== null) auditor.popEnded(pop);
        },
        refused: () => {
          if (pop !== null) auditor.popFailed(pop);
        },
      },
    );
    const process = this.#host.process();
    return () => {
      isCancelled = true;
      if (cancel === null || pop === null || process !== this.#host.process() || process?.shard === undefined) return;
      this.#host.trace('cancel');
      this.#guarded(() => auditor.popCancelled(pop as OpenPop));
      cancel();
    };
  }

  #popAnswer(outcome: PopOutcome, { state }: Moment): PopAnswer {
    const { leaseStamp, conflation, conflationConflict, autopilot } = outcome;
    const deliveries = outcome.runs.map((run): Delivery => {
      const records = run.pieces.flatMap((piece) => {
        const block = this.#reader.open(piece.bytes, piece.view, piece.at);
        const found = [];
        for (let index = piece.fromIndex; index < piece.toIndex; index++) {
          block.select(index);
          const messageId = idText(state.identity, block.stampUs, run.pid, index);
          const clear =
            (block.flags & recordFlag.encrypted) !== 0
              ? this.#host.cipher.decrypt(block.bytes, block.payloadStart, block.payloadEnd)
              : block.bytes.subarray(block.payloadStart, block.payloadEnd);
          found.push({
            offset: block.firstOffset + index,
            id: block.idStart < 0 ? messageId : textDecoder.decode(block.bytes.subarray(block.idStart, block.idEnd)),
            messageId,
            payload: textDecoder.decode(clear),
            stampUs: block.stampUs,
          });
        }
        return found;
      });
      return {
        pid: run.pid,
        partition: textDecoder.decode(run.names.subarray(run.nameStart, run.nameEnd)),
        attempt: run.attempt,
        records,
      };
    });
    return { leaseStamp, deliveries, conflation, conflationConflict, autopilot };
  }

  ack(group: string, sent: readonly SentAck[], done: (result: Result<readonly boolean[]>) => void): void {
    this.#call<AckOutcome, readonly boolean[]>(
      `ack ${group} ${JSON.stringify(sent)}`,
      done,
      (shard, reply) => {
        const scanned = scanAckBody(ackBody(group, sent), shard.identity);
        if (!scanned.ok) throw new Error(scanned.message);
        shard.ack(scanned.group, scanned.items, reply);
      },
      (outcome, moment) => {
        const items = sent.map((item) => ackedItem(item, moment));
        this.#host.auditor.ackDecided(moment, group, items, outcome);
        return items.map((_, i) => outcome.errors[i] === 0);
      },
    );
  }

  extend(leaseStamp: number, seconds: number, done: (result: Result<number>) => void): void {
    this.#call<ExtendOutcome, number>(
      `extend ${leaseStamp} ${seconds}`,
      done,
      (shard, reply) => shard.extendLease(leaseStamp, seconds, reply),
      (outcome, moment) => {
        this.#host.auditor.extendDecided(moment, leaseStamp, seconds, outcome.renewed, outcome.expiresAtUs);
        return outcome.renewed;
      },
    );
  }

  configure(request: ConfigureRequest, done: (result: Result<null>) => void): void {
    this.#call<ConfiguredQueue, null>(
      `configure ${JSON.stringify(request)}`,
      done,
      (shard, reply) => shard.configureQueue(request, reply),
      (view, moment) => {
        this.#host.auditor.configureDecided(moment, request, view);
        return null;
      },
    );
  }

  deleteQueue(queue: string, done: (result: Result<boolean>) => void): void {
    this.#call<DeleteQueueOutcome, boolean>(
      `delete ${queue}`,
      done,
      (shard, reply) => shard.deleteQueue(queue, reply),
      ({ existed }, moment) => {
        this.#host.auditor.deleteDecided(moment, queue, existed);
        return existed;
      },
    );
  }

  queueDetail(queue: string, done: (result: Result<null>) => void): void {
    this.#call<QueueDetail | null, null>(
      `detail ${queue}`,
      done,
      (shard, reply) => shard.queueDetail(queue, reply),
      (view, moment) => {
        this.#host.auditor.detailDecided(moment, queue, view);
        return null;
      },
    );
  }

  deadLetters(
    filter: { queue: string | null; group: string | null; limit: number; offset: number },
    isWhole: boolean,
    done: (result: Result<DeadLetterPage>) => void,
  ): void {
    this.#call<DeadLetterPage, DeadLetterPage>(
      `dead letters ${JSON.stringify(filter)}`,
      done,
      (shard, reply) => shard.deadLetters(filter, reply),
      (page) => {
        this.#host.auditor.deadLettersRead(filter.queue, filter.group, page, isWhole);
        return page;
      },
      { decidesWhenEncoded: false },
    );
  }

  replay(row: DeadLetterView, target: ReplayTarget, done: (result: Result<string>) => void): void {
    this.#call<ReplayOutcome, string>(
      `replay ${row.id}`,
      done,
      (shard, reply) => shard.deadLetterChanges.replay(row.id, target, reply),
      (outcome, moment) => {
        this.#host.auditor.replayDecided(moment, row, target, outcome);
        return outcome.result;
      },
    );
  }

  deleteAddress(row: DeadLetterView, done: (result: Result<number>) => void): void {
    const { pid, transactionId } = row;
    this.#call<{ deleted: number }, number>(
      `delete ${pid} ${transactionId}`,
      done,
      (shard, reply) => shard.deadLetterChanges.deleteAt({ partition: { pid, createdAtUs: 0 }, transactionId }, reply),
      ({ deleted }, moment) => {
        const isIt = (each: ExpectedDeadLetter, id: string): boolean => each.pid === pid && id === transactionId;
        this.#host.auditor.deadLettersDeleted(moment, isIt, deleted);
        return deleted;
      },
    );
  }

  purge(queue: string, done: (result: Result<number>) => void): void {
    this.#call<{ deleted: number }, number>(
      `purge ${queue}`,
      done,
      (shard, reply) => shard.deadLetterChanges.purge(queue, null, reply),
      ({ deleted }, moment) => {
        this.#host.auditor.deadLettersDeleted(moment, (row) => row.queue === queue, deleted);
        return deleted;
      },
    );
  }

  /** One call. `decided` runs when the broker encodes its answer. */
  #call<Outcome, Answer>(
    name: string,
    done: (result: Result<Answer>) => void,
    send: (shard: Shard, reply: Reply<Outcome>) => void,
    decided: (outcome: Outcome, moment: Moment) => Answer,
    more: CallOptions = {},
  ): void {
    const { scheduler, random, network, auditor } = this.#host;
    let isOver = false;
    const finish = (result: Result<Answer>): void => {
      if (isOver) return;
      isOver = true;
      this.#open.delete(lose);
      scheduler.after(random.integer(network.delayMsMax * 1000 + 1) / 1000, () => done(result));
    };
    const lose = (): void => finish({ kind: 'unknown' });
    this.#open.add(lose);
    scheduler.after(random.integer(network.delayMsMax * 1000 + 1) / 1000, () => {
      if (isOver) return;
      const process = this.#host.process();
      const shard = process?.shard;
      if (process === null || shard === undefined) {
        finish({ kind: 'refused', code: 'unavailable' });
        return;
      }
      this.#host.trace(name);
      let answer: Answer | undefined;
      let sequence = -1;
      let isSent = false;
      const reply: Reply<Outcome> = {
        encode: (outcome) => {
          if (!process.isAlive) return;
          this.#guarded(() => {
            const moment = momentOf(process, shard);
            // What is encoded later than it was decided says nothing about the present end of the log.
            const isLater = more.decidesWhenEncoded === false;
            if (moment === null && !isLater) throw new Error('a decision was made without a store');
            sequence = isLater ? 0 : (moment as Moment).sequence;
            answer = decided(outcome, moment as Moment);
            this.#host.trace(`decided ${name.slice(0, 12)} in ${sequence}: ${JSON.stringify(answer).slice(0, 400)}`);
          });
        },
        send: (refusal) => {
          if (!process.isAlive) return;
          this.#guarded(() => {
            if (isSent) throw new Error(`a call is answered once: ${name}`);
            isSent = true;
            if (refusal === null) {
              if (sequence < 0) throw new Error(`an answer left that was never made: ${name}`);
              auditor.answered(sequence);
              more.left?.();
            } else {
              if (sequence >= 0 && refusal.code !== 'outcome_unknown') {
                throw new Error(`${name} was decided and is refused with ${refusal.code}`);
              }
              this.#host.trace(`refused ${name.slice(0, 12)}: ${refusal.code}`);
              more.refused?.(refusal);
            }
          });
          if (random.chance(network.lossShare)) finish({ kind: 'unknown' });
          else if (refusal === null) finish({ kind: 'answered', answer: answer as Answer });
          else if (refusal.code === 'outcome_unknown') finish({ kind: 'unknown' });
          else finish({ kind: 'refused', code: refusal.code });
        },
      };
      this.#guarded(() => send(shard, reply));
    });
  }

  /** Objections are kept, not thrown into the broker. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#host.fail(error as Error);
    }
  }
}

/** Time and log sequence of the decision that is being made. */
export function momentOf(process: SimulatedProcess, shard: Shard): Moment | null {
  const { store } = process;
  if (store === undefined) return null;
  const { log, state } = store;
  return { nowUs: shard.context.nowUs, sequence: log.draftHasRecords ? log.nextSequence : log.nextSequence - 1, state };
}

function pushBody(items: readonly PushedItem[]): Uint8Array {
  const rows = items.map(({ queue, partition, id, payload, delayMs }) => {
    const delayPart = delayMs === undefined ? '' : `,"delayMs":${delayMs}`;
    const idPart = id === null ? '' : `,"transactionId":${JSON.stringify(id)}`;
    return `{"queue":${JSON.stringify(queue)},"partition":${JSON.stringify(partition)}${idPart}${delayPart},"payload":${payload}}`;
  });
  return textEncoder.encode(`{"items":[${rows.join(',')}]}`);
}

function ackBody(group: string, sent: readonly SentAck[]): Uint8Array {
  const acknowledgments = sent.map(({ id, pid, leaseId, status, error }) => ({
    transactionId: id,
    partitionId: pid,
    leaseId,
    status,
    error,
  }));
  return textEncoder.encode(JSON.stringify({ acknowledgments, consumerGroup: group }));
}

function ackedItem({ id, pid, leaseId, status, error }: SentAck, { state }: Moment): AckedItem {
  let leaseStamp = 0;
  if (leaseId !== null && leaseId !== '') {
    const parts = { stampUs: 0, number: 0, index: 0 };
    const bytes = textEncoder.encode(leaseId);
    const isOurs = parseId(state.identity, bytes, 0, bytes.length, parts) && parts.number === 0 && parts.index === 0;
    leaseStamp = isOurs ? parts.stampUs : -1;
  }
  return { id, pid: /^[0-9]+$/.test(pid) ? Number(pid) : -1, leaseStamp, status: ackStatus[status], error };
}

function pushedResults(outcome: PushOutcome): PushedResult[] {
  return Array.from({ length: outcome.count }, (_, i) => ({
    status: outcome.statuses[i],
    offset: outcome.offsets[i],
    pid: outcome.pids[i],
    stampUs: outcome.stamps[i],
    index: outcome.indexes[i],
    dueUs: outcome.dues === null ? 0 : outcome.dues[i],
  }));
}
