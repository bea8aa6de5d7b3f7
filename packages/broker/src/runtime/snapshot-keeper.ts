/**
 * Decides when a snapshot is due, has it built beside the serving thread, and compares it with the live state: a snapshot
 * is a recovery that ends with a save, so every one of them is also a test of recovery.
 */
import type { Store } from './store.ts';

export interface SnapshotHost {
  log(level: 'info' | 'warn' | 'error', text: string): void;
  /** The snapshot and the live state disagree: one of them is wrong, and nobody can tell which. */
  fatal(error: Error): void;
}

/** The state between two entries that is to be saved. */
interface Due {
  readonly sequence: number;
  readonly digest: number;
  isRunning: boolean;
}

export class SnapshotKeeper {
  readonly #store: Store;
  readonly #host: SnapshotHost;
  readonly #logBytes: number;
  #due: Due | null = null;
  /** Log to be written before the next one: a state that is larger than that is saved more rarely. */
  #lastBytes = 0;
  #stopped = false;
  /** One is wanted, however little log was written. */
  #requested = false;
  taken = 0;

  /** @param logBytes log after which a snapshot is taken. */
  constructor(store: Store, host: SnapshotHost, logBytes: number) {
    this.#store = store;
    this.#host = host;
    this.#logBytes = logBytes;
  }

  /** Somebody needs a snapshot of what is durable now: the next turn takes one. */
  request(): void {
    this.#requested = true;
  }

  /** Called between two entries: notes that the state as it is now is to be saved, when enough log has been written. */
  consider(): void {
    if (this.#due !== null || this.#stopped) return;
    const grown = this.#store.bytesSinceSnapshot();
    if (grown === 0 || (!this.#requested && grown < Math.max(this.#logBytes, this.#lastBytes))) return;
    this.#requested = false;
    this.#due = { sequence: this.#store.log.nextSequence - 1, digest: this.#store.state.digest, isRunning: false };
    this.durableMoved();
  }

  /** Called when more of the log is durable: only what is can be read back. */
  durableMoved(): void {
    const due = this.#due;
    if (due === null || due.isRunning || this.#stopped || this.#store.log.durableSequence < due.sequence) return;
    due.isRunning = true;
    this.#store.background.buildSnapshot(due.sequence).then(
      (built) => {
        if (this.#stopped) return;
        if (built.digest !== due.digest) {
          const facts = `at entry ${due.sequence}: ${built.digest} is not ${due.digest}`;
          this.#host.fatal(new Error(`the snapshot does not agree with the live state ${facts}`));
          return;
        }
        this.#store.snapshotTaken(built);
        this.#lastBytes = built.bytes;
        this.taken++;
        this.#due = null;
      },
      (error: unknown) => {
        if (this.#stopped) return;
        // The log is complete without it; the next one is tried when as much has been written again.
        this.#lastBytes = this.#store.bytesSinceSnapshot() * 2;
        this.#due = null;
        this.#host.log('error', `a snapshot could not be taken: ${(error as Error).message}`);
      },
    );
  }

  /** What is being built is not heard of any more. */
  stop(): void {
    this.#stopped = true;
  }
}
