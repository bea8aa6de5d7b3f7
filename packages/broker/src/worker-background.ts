/**
 * `Background` on a worker thread. The thread is started for the first job and ended when there has been none for a
 * while, because it holds some 80 MB, and the memory of a whole state after a snapshot. Starting it costs as much as half
 * of an index, and what it does at first it does slowly: while jobs come in quick succession it waits for the next one.
 */
import { Worker } from 'node:worker_threads';
import type { Background, BuiltSnapshot, LogAddress, SegmentRows } from './ports/mod.ts';

export type Job =
  | {
      readonly number: number;
      readonly kind: 'index';
      readonly base: LogAddress;
      readonly end: LogAddress;
      readonly rows: SegmentRows | null;
    }
  | { readonly number: number; readonly kind: 'snapshot'; readonly throughSequence: number };

export interface JobAnswer {
  readonly number: number;
  readonly built?: BuiltSnapshot | null;
  readonly warnings?: readonly string[];
  readonly error?: { readonly message: string; readonly code?: string };
}

interface Waiting {
  readonly kind: Job['kind'];
  resolve(answer: JobAnswer): void;
  reject(error: Error): void;
}

/** The thread waits this long for another job after one of the kind; */
const idleMs = { index: 4000, snapshot: 2000 } as const;
/** or, up to this, for twice as long as it had to wait before. */
const idleMsMax = 5000;

export class WorkerBackground implements Background {
  readonly #location: string;
  readonly #warn: (text: string) => void;
  #worker: Worker | null = null;
  #nextNumber = 1;
  readonly #waiting = new Map<number, Waiting>();
  #idleTimer: NodeJS.Timeout | null = null;
  /** How long the thread may be idle, by what it has done. */
  #idleMs: number = idleMs.index;
  /** How long it was idle before its last job, and since when it is idle now; 0 = it has not been. */
  #waitedMs = 0;
  #idleSinceMs = 0;
  #closed = false;

  /** @param location the data folder. */
  constructor(location: string, warn: (text: string) => void) {
    this.#location = location;
    this.#warn = warn;
  }

  async buildSegmentIndex(base: LogAddress, end: LogAddress, rows: SegmentRows | null): Promise<void> {
    await this.#run({ number: this.#nextNumber++, kind: 'index', base, end, rows });
  }

  async buildSnapshot(throughSequence: number): Promise<BuiltSnapshot> {
    const answer = await this.#run({ number: this.#nextNumber++, kind: 'snapshot', throughSequence });
    for (const text of answer.warnings ?? []) this.#warn(text);
    if (answer.built === undefined || answer.built === null) throw new Error('the worker built no snapshot');
    return answer.built;
  }

  async cancel(): Promise<void> {
    const worker = this.#end();
    this.#rejectAll(new Error('background work was stopped'));
    await worker?.terminate();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.cancel();
  }

  #run(job: Job): Promise<JobAnswer> {
    if (this.#closed) return Promise.reject(new Error('background work was stopped'));
    const worker = this.#worker ?? this.#start();
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    if (this.#waiting.size === 0 && this.#idleSinceMs > 0) this.#waitedMs = performance.now() - this.#idleSinceMs;
    return new Promise((resolve, reject) => {
      this.#waiting.set(job.number, { kind: job.kind, resolve, reject });
      worker.postMessage(job);
    });
  }

  #start(): Worker {
    const worker = new Worker(new URL('./background-worker.js', import.meta.url), {
      workerData: { location: this.#location },
    });
    worker.unref();
    worker.on('message', (answer: JobAnswer) => this.#answered(answer));
    const failed = (error: Error): void => {
      if (this.#worker !== worker) return;
      this.#end();
      this.#rejectAll(error);
    };
    worker.on('error', failed);
    worker.on('exit', (code) => failed(new Error(`the background worker ended with code ${code}`)));
    this.#worker = worker;
    this.#idleMs = idleMs.index;
    this.#waitedMs = 0;
    this.#idleSinceMs = 0;
    return worker;
  }

  #answered(answer: JobAnswer): void {
    const waiting = this.#waiting.get(answer.number);
    if (waiting?.kind === 'snapshot') this.#idleMs = idleMs.snapshot;
    this.#waiting.delete(answer.number);
    if (answer.error === undefined) waiting?.resolve(answer);
    else waiting?.reject(Object.assign(new Error(answer.error.message), answer.error));
    if (this.#waiting.size > 0) return;
    this.#idleSinceMs = performance.now();
    const waitMs = Math.max(this.#idleMs, Math.min(2 * this.#waitedMs, idleMsMax));
    this.#idleTimer = setTimeout(() => void this.#end()?.terminate(), waitMs).unref();
  }

  #rejectAll(error: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }

  #end(): Worker | null {
    const worker = this.#worker;
    this.#worker = null;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    return worker;
  }
}
