/**
 * Traces: what consumers note down about messages. They are kept in the order in which they came, within limits: for
 * seven days, and at most so many and so many bytes; what is over goes from the old end.
 *
 * Time does not act by itself here: a trace that has expired is removed when later ones are recorded, by their stamps, so
 * that every replay of the log removes the same. Until then readers leave it out (`expiredBefore`).
 */
import { limits } from '@lanemq/protocol';
import type { DecisionContext } from './decision.ts';
import { usPerSecond } from './queue.ts';
import type { TraceRecord } from './records.ts';

const keptUs = limits.traceKeptSeconds * usPerSecond;
/** Expired traces that one new trace removes: bounds the work, and more than one so that they become fewer. */
const expiredPerTrace = 64;
/** What a trace weighs beside its texts. */
const traceFixedBytes = 400;
const traceNameBytes = 64;
/** Removed rows in front of the list at which it is moved together. */
const removedRowsMax = 4096;

export class Traces {
  #rows: TraceRecord[] = [];
  #first = 0;
  bytes = 0;

  get count(): number {
    return this.#rows.length - this.#first;
  }

  /** Traces with a stamp before this are not shown any more. */
  static expiredBefore(nowUs: number): number {
    return nowUs - keptUs;
  }

  /** `place` 0 is the oldest, `count` − 1 the newest. */
  at(place: number): TraceRecord {
    return this.#rows[this.#first + place];
  }

  /** Takes a new one in and lets go of what is too old or too much. */
  add(record: TraceRecord): void {
    this.restore(record);
    const expired = Traces.expiredBefore(record.stampUs);
    for (let i = 0; i < expiredPerTrace && this.at(0).stampUs < expired; i++) this.#removeOldest();
    while (this.count > limits.tracesMax || this.bytes > limits.traceBytesMax) this.#removeOldest();
  }

  /** Takes one in that a snapshot holds. */
  restore(record: TraceRecord): void {
    this.#rows.push(record);
    this.bytes += weightOf(record);
  }

  #removeOldest(): void {
    this.bytes -= weightOf(this.at(0));
    this.#first++;
    if (this.#first < removedRowsMax && this.count > 0) return;
    this.#rows = this.#rows.slice(this.#first);
    this.#first = 0;
  }

  *all(): Generator<TraceRecord> {
    for (let place = 0; place < this.count; place++) yield this.at(place);
  }
}

function weightOf(record: TraceRecord): number {
  let characters = record.transactionId.length + record.data.length + record.eventType.length;
  for (const text of [record.group, record.worker, record.traceId, record.messageId]) characters += text?.length ?? 0;
  for (const name of record.names) characters += name.length;
  return traceFixedBytes + traceNameBytes * record.names.length + 2 * characters;
}

export interface TraceCommand {
  /** 0 = the trace names no partition. */
  readonly pid: number;
  /** Creation of the partition when it was named by its UUID; 0 = it was named by its number. */
  readonly partitionCreatedAtUs: number;
  readonly transactionId: string;
  readonly group: string | null;
  readonly eventType: string;
  readonly names: readonly string[];
  /** JSON text. */
  readonly data: string;
  readonly worker: string | null;
  readonly traceId: string | null;
  readonly messageId: string | null;
}

export interface TraceOutcome {
  readonly ok: true;
  /** Of the trace: makes its id. 0 = nothing was recorded, the partition does not exist. */
  readonly stampUs: number;
}

/** Records a trace. Whether the message exists is not asked: traces outlive what they tell about. */
export function decideTrace(context: DecisionContext, command: TraceCommand): TraceOutcome {
  const { state, journal, nowUs } = context;
  const { partitionCreatedAtUs, ...facts } = command;
  if (command.pid !== 0) {
    const lane = state.laneOf(command.pid);
    const isOther = partitionCreatedAtUs !== 0 && state.partitions.createdAtUs[lane] !== partitionCreatedAtUs;
    if (lane < 0 || isOther) return { ok: true, stampUs: 0 };
  }
  journal.trace({ stampUs: nowUs, ...facts });
  return { ok: true, stampUs: nowUs };
}
