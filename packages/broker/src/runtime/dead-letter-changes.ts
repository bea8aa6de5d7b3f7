/** What removes dead letters: replay, delete, purge, and redrive, which replays many. */
import {
  type DeadLetterRecord,
  type IdParts,
  idLookup,
  type LetterPlace,
  type LetterSelection,
  type NeedsLoad,
  needsLoad,
  parseId,
} from '../core/mod.ts';
import type { Reply } from './engine.ts';
import { SimpleOperation } from './operations.ts';
import { laneOfRef, type PartitionRef } from './partition-ref.ts';
import { matchesRequest, RedriveJobs, type RedriveRequest, type RedriveView } from './redrive.ts';
import {
  type DeadLetterHost,
  decideReplay,
  gone,
  type ReplayOutcome,
  type ReplayTarget,
  transactionIdOf,
} from './replay.ts';
import { SlicedOperation, type Unfinished, unfinished } from './sliced-operation.ts';
import { utf8 } from './text.ts';

/** A message's place of origin: all dead letters of it, one per group, have the same. */
export interface DeadLetterAddress {
  /** Null when the text was no id: nothing is there. */
  readonly partition: PartitionRef | null;
  readonly transactionId: string;
}

/** Rows removed, or looked at, before others have their turn. */
const removedInATurn = 2000;
const countedInATurn = 10_000;

interface LetterWalk<Outcome> {
  /** Asked once, at the first turn; null = there is nothing to walk. */
  selection(): LetterSelection | null;
  /** Rows looked at in one turn. */
  readonly slice: number;
  /** False = enough. */
  visit(row: DeadLetterRecord): boolean;
  readonly changes: boolean;
  outcome(): Outcome;
}

/** Walks the rows of a selection that were filed before it began, a slice per turn. */
class LetterWalkOperation<Outcome extends object> extends SlicedOperation<Outcome> {
  readonly #host: DeadLetterHost;
  readonly #walk: LetterWalk<Outcome>;
  readonly #place: LetterPlace = { stampUs: -1, index: 0 };
  #found: LetterSelection | null | undefined;
  #untilUs = 0;

  constructor(host: DeadLetterHost, walk: LetterWalk<Outcome>, reply: Reply<Outcome>) {
    super(host, reply);
    this.#host = host;
    this.#walk = walk;
  }

  protected slice(): Outcome | Unfinished {
    const { state, nowUs } = this.#host.context;
    const walk = this.#walk;
    if (this.#found === undefined) {
      this.#found = walk.selection();
      this.#untilUs = nowUs;
    }
    let isEnough = false;
    const atEnd =
      this.#found === null ||
      state.deadLetters.walk(this.#found, this.#place, walk.slice, (row) => {
        isEnough = row.stampUs >= this.#untilUs || !walk.visit(row);
        this.changed = walk.changes;
        return !isEnough;
      });
    return atEnd || isEnough ? walk.outcome() : unfinished;
  }
}

const idParts: IdParts = { stampUs: 0, number: 0, index: 0 };

export class DeadLetterChanges {
  readonly #host: DeadLetterHost;
  readonly #jobs: RedriveJobs;

  constructor(host: DeadLetterHost) {
    this.#host = host;
    this.#jobs = new RedriveJobs(host);
  }

  /** Replays the dead letter with this row id. */
  replay(id: string, target: ReplayTarget, reply: Reply<ReplayOutcome>): void {
    this.#host.submit(
      new SimpleOperation(() => {
        const row = this.#rowWithId(id);
        return row === undefined ? gone : decideReplay(this.#host, row, target);
      }, reply),
    );
  }

  /** Replays one dead letter of an address, the newest. */
  replayAt(address: DeadLetterAddress, target: ReplayTarget, reply: Reply<ReplayOutcome>): void {
    this.#host.submit(
      new SimpleOperation(() => {
        const rows = this.#rowsAt(address);
        if ('ok' in rows) return rows;
        const newest = rows.reduce<DeadLetterRecord | undefined>(
          (best, row) => (best === undefined || row.stampUs > best.stampUs ? row : best),
          undefined,
        );
        return newest === undefined ? gone : decideReplay(this.#host, newest, target);
      }, reply),
    );
  }

  /** Deletes all dead letters of an address, of every group. */
  deleteAt(address: DeadLetterAddress, reply: Reply<{ deleted: number }>): void {
    this.#host.submit(
      new SimpleOperation(() => {
        const rows = this.#rowsAt(address);
        if ('ok' in rows) return rows;
        for (const row of rows) this.#remove(row);
        return { deleted: rows.length };
      }, reply),
    );
  }

  /**
   * Deletes the dead letters of a queue, or of one group of it, that were filed before. In slices: when the broker dies
   * meanwhile, some are left.
   */
  purge(queue: string, group: string | null, reply: Reply<{ deleted: number }>): void {
    let deleted = 0;
    this.#host.submit(
      new LetterWalkOperation(
        this.#host,
        {
          selection: () => this.#selectionOf(queue, group),
          slice: removedInATurn,
          visit: (row) => {
            this.#remove(row);
            deleted++;
            return true;
          },
          changes: true,
          outcome: () => ({ deleted }),
        },
        reply,
      ),
    );
  }

  /** How many dead letters a redrive would take. */
  countRedrive(request: RedriveRequest, reply: Reply<{ matched: number }>): void {
    let matched = 0;
    const max = request.max ?? Number.POSITIVE_INFINITY;
    this.#host.submit(
      new LetterWalkOperation(
        this.#host,
        {
          selection: () => this.#selectionOf(request.queue, request.group),
          slice: countedInATurn,
          visit: (row) => {
            if (matchesRequest(row, request)) matched++;
            return matched < max;
          },
          changes: false,
          outcome: () => ({ matched }),
        },
        reply,
      ),
    );
  }

  startRedrive(request: RedriveRequest, reply: Reply<RedriveView>): void {
    this.#host.submit(new SimpleOperation(() => this.#jobs.start(request), reply));
  }

  redrives(): RedriveView[] {
    return this.#jobs.list();
  }

  redrive(id: string): RedriveView | null {
    return this.#jobs.get(id);
  }

  cancelRedrive(id: string): RedriveView | null {
    return this.#jobs.cancel(id);
  }

  stop(): void {
    this.#jobs.stop();
  }

  #selectionOf(queue: string, group: string | null): LetterSelection | null {
    const found = this.#host.context.state.queues.get(queue);
    return found === undefined ? null : { queueNumber: found.number, group };
  }

  #remove({ stampUs, index, pid }: DeadLetterRecord): void {
    this.#host.context.journal.deadLetterRemoved({ stampUs, index, pid });
  }

  #rowWithId(id: string): DeadLetterRecord | undefined {
    const { state } = this.#host.context;
    const bytes = utf8(id);
    if (!parseId(state.identity, bytes, 0, bytes.length, idParts)) return undefined;
    const row = state.deadLetters.get(idParts.stampUs, idParts.number, idParts.index);
    return row !== undefined && state.queueByNumber.has(row.queueNumber) ? row : undefined;
  }

  /** The rows of an address. Hashes choose the candidates, the records themselves decide. */
  #rowsAt({ partition, transactionId }: DeadLetterAddress): DeadLetterRecord[] | NeedsLoad {
    const { state, blocks, ids } = this.#host.context;
    const lane = partition === null ? -1 : laneOfRef(state, partition);
    if (lane < 0) return [];
    const pid = state.partitions.pid[lane];
    if (state.deadLetters.countOfPid(pid) === 0) return [];
    const bytes = utf8(transactionId);
    const { hasher } = this.#host;
    hasher.hash(bytes, 0, bytes.length);
    const { high, low } = hasher;
    const candidates = new Set<DeadLetterRecord>();
    for (const row of state.deadLetters.rowsOf(pid)) {
      if (row.idHigh === undefined || (row.idHigh === high && row.idLow === low)) candidates.add(row);
    }
    // The id of a message that was pushed without one says where it is.
    if (parseId(state.identity, bytes, 0, bytes.length, idParts) && idParts.number === pid) {
      const { index } = idParts;
      const first = ids.firstFrom(lane, pid, idParts.stampUs);
      if (first === idLookup.missing) return needsLoad;
      if (first >= 0) for (const row of state.deadLetters.rowsAt(pid, first + index)) candidates.add(row);
    }
    const rows: DeadLetterRecord[] = [];
    let isComplete = true;
    for (const row of candidates) {
      const view = blocks.open(lane, pid, row.offset);
      if (view === undefined) isComplete = false;
      else if (transactionIdOf(this.#host, view, row) === transactionId) rows.push(row);
    }
    return isComplete ? rows : needsLoad;
  }
}
