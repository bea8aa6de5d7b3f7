/**
 * Redrive: many dead letters are replayed, oldest failure first, at a pace. A job lives in this process only: it ends with
 * it, or when the log fails. That loses nothing: each replay is one entry of the log and removes its row, so a job that
 * is started again goes on with what is left.
 *
 *   running ──no row left, or `max` moved──▶ done
 *      ├──cancelled by a client──▶ cancelled
 *      └──the broker stops or its log fails──▶ failed
 *
 * One row is decided at a time, so that messages keep their order; its answer is not waited for. A refusal that passes
 * (queue full, disk full) is tried again; one that does not is counted, and its row stays.
 */
import { errorTable, limits } from '@lanemq/protocol';
import { type DeadLetterRecord, idText, type LetterPlace, type Refusal, redriveIdIndex } from '../core/mod.ts';
import type { Operation } from './operations.ts';
import { type DeadLetterHost, decideReplay, gone, type ReplayOutcome, type ReplayTarget } from './replay.ts';
import { FetchedFacts } from './store-access.ts';

/** Which dead letters, where to, and how fast. */
export interface RedriveRequest {
  readonly queue: string;
  readonly group: string | null;
  /** Part of the error text; null = any. */
  readonly error: string | null;
  /** Bounds of the time of failure, inclusive, microseconds; null = none. */
  readonly fromUs: number | null;
  readonly toUs: number | null;
  /** Most messages to move; null = all. */
  readonly max: number | null;
  /** Most messages per second; null = as fast as it goes. */
  readonly perSecond: number | null;
  readonly target: ReplayTarget;
}

export type RedriveState = 'running' | 'done' | 'cancelled' | 'failed';

/** How far a job is. */
export interface RedriveView {
  readonly id: string;
  readonly state: RedriveState;
  readonly request: RedriveRequest;
  /** Replayed and durable. */
  readonly moved: number;
  /** Already at the destination: their rows stay. */
  readonly duplicates: number;
  /** Refused for good: their rows stay. */
  readonly failed: number;
  readonly startedAtUs: number;
  /** 0 = not ended. */
  readonly endedAtUs: number;
  /** The last refusal's text; '' = there was none. */
  readonly lastError: string;
}

export function matchesRequest(row: DeadLetterRecord, request: RedriveRequest): boolean {
  if (request.fromUs !== null && row.stampUs < request.fromUs) return false;
  if (request.toUs !== null && row.stampUs > request.toUs) return false;
  return request.error === null || row.error.includes(request.error);
}

/** Rows looked at before others have their turn. */
const walkedMax = 10_000;
/** Rows moved before others have their turn. */
const movedInARow = 64;
const retryDelayMs = 1000;
const usPerSecond = 1_000_000;

class RedriveStep implements Operation {
  readonly facts = new FetchedFacts();
  readonly #host: DeadLetterHost;
  readonly #job: RedriveJob;
  readonly #row: DeadLetterRecord;
  #outcome: ReplayOutcome | null = null;

  constructor(host: DeadLetterHost, job: RedriveJob, row: DeadLetterRecord) {
    this.#host = host;
    this.#job = job;
    this.#row = row;
  }

  decide(): 'done' | 'needs-load' {
    const { stampUs, pid, index } = this.#row;
    const row = this.#host.context.state.deadLetters.get(stampUs, pid, index);
    const outcome =
      row === undefined || !this.#job.isRunning ? gone : decideReplay(this.#host, row, this.#job.request.target);
    if ('ok' in outcome) return 'needs-load';
    this.#outcome = outcome;
    this.#job.decided(this.#row, outcome);
    return 'done';
  }

  release(failure: Refusal | null): void {
    this.#job.released(this.#outcome, failure);
  }
}

class RedriveJob {
  readonly id: string;
  readonly request: RedriveRequest;
  readonly #host: DeadLetterHost;
  readonly #startedAtUs: number;
  readonly #place: LetterPlace = { stampUs: -1, index: 0 };
  #state: RedriveState = 'running';
  #endedAtUs = 0;
  #moved = 0;
  #duplicates = 0;
  #failed = 0;
  #lastError = '';
  /** Decided to be moved, durable or not yet. */
  #taken = 0;
  #inFlight = 0;
  /** There is nothing more to take; the job is done when the last answer is in. */
  #exhausted = false;
  #inARow = 0;
  #nextAtUs = 0;
  #cancelTimer: (() => void) | null = null;

  constructor(host: DeadLetterHost, id: string, request: RedriveRequest) {
    this.id = id;
    this.request = request;
    this.#host = host;
    this.#startedAtUs = host.context.nowUs;
    this.#place.stampUs = Math.max(-1, (request.fromUs ?? 0) - 1);
    this.#place.index = Number.MAX_SAFE_INTEGER;
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  view(): RedriveView {
    return {
      id: this.id,
      state: this.#state,
      request: this.request,
      moved: this.#moved,
      duplicates: this.#duplicates,
      failed: this.#failed,
      startedAtUs: this.#startedAtUs,
      endedAtUs: this.#endedAtUs,
      lastError: this.#lastError,
    };
  }

  end(state: RedriveState, error = this.#lastError): void {
    if (!this.isRunning) return;
    this.#state = state;
    this.#endedAtUs = this.#host.nowUs();
    this.#lastError = error;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  /** Takes the next row, now or when the pace allows it. */
  next(): void {
    if (!this.isRunning) return;
    const { request } = this;
    if (this.#exhausted || (request.max !== null && this.#taken >= request.max)) {
      this.#exhausted = true;
      this.#lookDone();
      return;
    }
    const nowUs = this.#host.nowUs();
    if (request.perSecond !== null) {
      if (this.#nextAtUs > nowUs) {
        this.#later(Math.ceil((this.#nextAtUs - nowUs) / 1000));
        return;
      }
      // What was missed is made up for by no more than a tenth of a second's worth.
      this.#nextAtUs = Math.max(this.#nextAtUs, nowUs - usPerSecond / 10) + usPerSecond / request.perSecond;
    }
    const queue = this.#host.context.state.queues.get(request.queue);
    let found: DeadLetterRecord | null = null;
    const selection = { queueNumber: queue?.number ?? -1, group: request.group };
    const lastUs = Math.min(request.toUs ?? this.#startedAtUs, this.#startedAtUs);
    const atEnd = this.#host.context.state.deadLetters.walk(selection, this.#place, walkedMax, (row) => {
      if (row.stampUs > lastUs) this.#exhausted = true;
      else if (matchesRequest(row, request)) found = row;
      return found === null && !this.#exhausted;
    });
    if (found !== null) {
      this.#inFlight++;
      this.#host.submit(new RedriveStep(this.#host, this, found));
      return;
    }
    // Nothing was taken: the pace is not charged for it.
    this.#nextAtUs = Math.min(this.#nextAtUs, nowUs);
    if (atEnd) this.#exhausted = true;
    this.#host.scheduler.soon(() => this.next());
  }

  #later(delayMs: number): void {
    this.#cancelTimer = this.#host.scheduler.after(delayMs, () => {
      this.#cancelTimer = null;
      this.next();
    });
  }

  decided(row: DeadLetterRecord, outcome: ReplayOutcome): void {
    if (outcome.result === 'moved') this.#taken++;
    if (outcome.result === 'refused') {
      this.#lastError = outcome.refusal.message;
      if (errorTable[outcome.refusal.code].retriable) {
        // Back to before this row, whose turn comes again.
        this.#place.stampUs = row.stampUs;
        this.#place.index = row.index - 1;
        this.#later(retryDelayMs);
        return;
      }
    }
    if (++this.#inARow < movedInARow) this.next();
    else {
      this.#inARow = 0;
      this.#host.scheduler.soon(() => this.next());
    }
  }

  /** `outcome` null: it was never decided. */
  released(outcome: ReplayOutcome | null, failure: Refusal | null): void {
    this.#inFlight--;
    if (failure === null) {
      if (outcome?.result === 'moved') this.#moved++;
      else if (outcome?.result === 'duplicate') this.#duplicates++;
      else if (outcome?.result === 'refused' && !errorTable[outcome.refusal.code].retriable) this.#failed++;
    } else if (failure.code === 'internal' && outcome === null) {
      // Its block is damaged: the others are not.
      this.#failed++;
      this.#lastError = failure.message;
      this.next();
    } else this.end('failed', failure.message);
    this.#lookDone();
  }

  #lookDone(): void {
    if (this.#exhausted && this.#inFlight === 0) this.end('done');
  }
}

export class RedriveJobs {
  readonly #host: DeadLetterHost;
  /** In order of their start; ended ones are forgotten when there are many. */
  readonly #jobs = new Map<string, RedriveJob>();
  #started = 0;

  constructor(host: DeadLetterHost) {
    this.#host = host;
  }

  /** Begins a job, inside a decision. */
  start(request: RedriveRequest): RedriveView | Refusal {
    const running = [...this.#jobs.values()].filter((job) => job.isRunning).length;
    if (running >= limits.redrivesRunningMax) {
      return {
        ok: false,
        code: 'retry',
        message: `${running} redrives are running, which is the limit: wait for one to end, or cancel one`,
        retryAfterSeconds: 1,
      };
    }
    const { state, nowUs } = this.#host.context;
    const job = new RedriveJob(this.#host, idText(state.identity, nowUs, ++this.#started, redriveIdIndex), request);
    this.#jobs.set(job.id, job);
    for (const [id, old] of this.#jobs) {
      if (this.#jobs.size <= limits.redrivesKept) break;
      if (!old.isRunning) this.#jobs.delete(id);
    }
    this.#host.scheduler.soon(() => job.next());
    return job.view();
  }

  /** Newest first. */
  list(): RedriveView[] {
    return [...this.#jobs.values()].map((job) => job.view()).reverse();
  }

  get(id: string): RedriveView | null {
    return this.#jobs.get(id)?.view() ?? null;
  }

  /** The job as it is after it was cancelled; one that has ended stays as it is. */
  cancel(id: string): RedriveView | null {
    const job = this.#jobs.get(id);
    job?.end('cancelled');
    return job?.view() ?? null;
  }

  /** The broker stops. */
  stop(): void {
    for (const job of this.#jobs.values()) job.end('failed', 'the broker is shutting down');
  }
}
