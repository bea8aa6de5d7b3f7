/**
 * Lets others have their turn between the blocks of a long read. A block that is in memory is read without waiting for
 * anything, so a read of thousands of them would be one long piece of work.
 */
import type { Scheduler } from '../ports/mod.ts';

/** Bytes read in one go: about a millisecond, most of it for checksums. */
const piecesBytesMax = 512 * 1024;
/** What a block weighs beside its bytes. */
const blockBytes = 4096;

export class ReadPace {
  readonly #scheduler: Scheduler;
  #bytes = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  /** Call it after each block. */
  async read(bytes: number): Promise<void> {
    this.#bytes += blockBytes + bytes;
    if (this.#bytes < piecesBytesMax) return;
    this.#bytes = 0;
    await new Promise<void>((resolve) => this.#scheduler.soon(resolve));
  }
}
