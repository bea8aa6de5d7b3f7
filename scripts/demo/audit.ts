/**
 * The auditor of the demo: given what was stored and everything that every handler did, it decides whether each group
 * handled each partition strictly in order, and whether anything is missing.
 *
 * It knows nothing of leases or acks. The rule per (group, partition) is: a handler may start message n only when no
 * other handler of the group is busy in that partition, and every message before n was handled to a good end or
 * became a dead letter. A message may be handled again after that (a worker died before its ack); that is counted.
 */
import type { HandlingEvent } from './events.ts';

/** An event and who it came from; `died` ends whatever the worker was handling. */
export type AuditedEvent =
  | (HandlingEvent & { readonly group: string; readonly worker: string })
  | { readonly kind: 'died'; readonly atNs: number; readonly group: string; readonly worker: string };

export interface AuditInput {
  /** Per partition the transactionIds in offset order, as the broker answered the pushes. */
  readonly stored: ReadonlyMap<string, readonly string[]>;
  readonly groups: readonly string[];
  readonly events: readonly AuditedEvent[];
  /** Dead letters by group; each `partition` and `offset`. */
  readonly deadLetters: readonly { readonly group: string; readonly partition: string; readonly offset: number }[];
  /** Failed deliveries after which a message may be dead. */
  readonly failuresUntilDead: number;
}

export interface GroupVerdict {
  readonly group: string;
  /** Messages handled to a good end, each counted once. */
  readonly completed: number;
  readonly deadLetters: number;
  /** Starts of a handler beyond the first of each message. */
  readonly redeliveries: number;
  /** Stored, but neither completed nor dead. */
  readonly lost: number;
  readonly violations: readonly string[];
  /** From the first start to the last end. */
  readonly durationMs: number;
}

interface Lane {
  readonly ids: readonly string[];
  readonly starts: Uint32Array;
  readonly failures: Uint32Array;
  readonly completed: Uint8Array;
  /** Every message below this offset is completed or dead. */
  settledBelow: number;
  /** The worker whose handler is busy here; null = none. */
  busy: string | null;
}

export function audit(input: AuditInput): GroupVerdict[] {
  const events = [...input.events].sort((a, b) => a.atNs - b.atNs);
  return input.groups.map((group) => {
    const dead = new Set(
      input.deadLetters
        .filter((letter) => letter.group === group)
        .map((letter) => laneKey(letter.partition, letter.offset)),
    );
    const own = events.filter((event) => event.group === group);
    return new GroupAudit(group, input, dead).run(own);
  });
}

class GroupAudit {
  readonly #group: string;
  readonly #dead: ReadonlySet<string>;
  readonly #failuresUntilDead: number;
  readonly #lanes = new Map<string, Lane>();
  readonly #violations: string[] = [];

  constructor(group: string, input: AuditInput, dead: ReadonlySet<string>) {
    this.#group = group;
    this.#dead = dead;
    this.#failuresUntilDead = input.failuresUntilDead;
    for (const [partition, ids] of input.stored) {
      this.#lanes.set(partition, {
        ids,
        starts: new Uint32Array(ids.length),
        failures: new Uint32Array(ids.length),
        completed: new Uint8Array(ids.length),
        settledBelow: 0,
        busy: null,
      });
    }
  }

  run(events: readonly AuditedEvent[]): GroupVerdict {
    for (const event of events) {
      if (event.kind === 'died') this.#release(event.worker);
      else this.#handle(event);
    }
    let completed = 0;
    let redeliveries = 0;
    let stored = 0;
    for (const lane of this.#lanes.values()) {
      stored += lane.ids.length;
      for (const flag of lane.completed) completed += flag;
      for (const starts of lane.starts) redeliveries += Math.max(0, starts - 1);
    }
    return {
      group: this.#group,
      completed,
      deadLetters: this.#dead.size,
      redeliveries,
      lost: Math.max(0, stored - completed - this.#dead.size),
      violations: this.#violations,
      durationMs: events.length === 0 ? 0 : (events[events.length - 1].atNs - events[0].atNs) / 1e6,
    };
  }

  #handle(event: HandlingEvent & { readonly worker: string }): void {
    const lane = this.#lanes.get(event.partition);
    if (lane === undefined || lane.ids[event.offset] !== event.transactionId) {
      this.#report(event, `handled ${event.transactionId}, which was not stored there`);
      return;
    }
    switch (event.kind) {
      case 'started':
        this.#start(event, lane);
        break;
      case 'completed':
        lane.completed[event.offset] = 1;
        this.#end(event, lane);
        break;
      case 'failed':
        lane.failures[event.offset] += 1;
        this.#end(event, lane);
        break;
    }
  }

  #start(event: HandlingEvent & { readonly worker: string }, lane: Lane): void {
    if (lane.busy !== null) this.#report(event, `started by ${event.worker} while ${lane.busy} was busy there`);
    if (event.offset > lane.settledBelow) {
      this.#report(event, `started by ${event.worker} before ${lane.settledBelow} was settled`);
    }
    lane.busy = event.worker;
    lane.starts[event.offset] += 1;
  }

  #end(event: HandlingEvent & { readonly worker: string }, lane: Lane): void {
    if (lane.busy === event.worker) lane.busy = null;
    while (lane.settledBelow < lane.ids.length && this.#isSettled(event.partition, lane, lane.settledBelow)) {
      lane.settledBelow += 1;
    }
  }

  #isSettled(partition: string, lane: Lane, offset: number): boolean {
    if (lane.completed[offset] === 1) return true;
    return lane.failures[offset] >= this.#failuresUntilDead && this.#dead.has(laneKey(partition, offset));
  }

  #release(worker: string): void {
    for (const lane of this.#lanes.values()) {
      if (lane.busy === worker) lane.busy = null;
    }
  }

  #report(event: HandlingEvent, what: string): void {
    this.#violations.push(`${this.#group}: ${event.partition} at ${event.offset}: ${what}`);
  }
}

function laneKey(partition: string, offset: number): string {
  return `${offset}:${partition}`;
}
