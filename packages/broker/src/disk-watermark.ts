/**
 * Looks at the disk from time to time. It counts as full from one share on, and as free again below a lower one, so that
 * a broker at the edge does not flap. While it is full pushes are refused, and the room that is left serves acks.
 *
 * A small disk can be filled between two looks: so the log's own growth since the last one counts too.
 */
import type { Disk } from './ports/mod.ts';

const lookMs = 500;

export class DiskWatermark {
  #full = false;
  /** What the log may grow by until the disk is full, as far as the last look knows. */
  #roomBytes = Number.POSITIVE_INFINITY;
  /** Null until the log is known. */
  #tailAtLook: number | null = null;
  #logTail: number | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** What the last look failed with, so that a disk that stays unreadable is reported once; empty when it did not. */
  #failure = '';
  readonly #disk: Disk;
  readonly #limits: { readonly fullShare: number; readonly freeShare: number };
  readonly #log: (level: 'warn' | 'info', text: string) => void;

  constructor(
    disk: Disk,
    limits: { readonly fullShare: number; readonly freeShare: number },
    log: (level: 'warn' | 'info', text: string) => void,
  ) {
    this.#disk = disk;
    this.#limits = limits;
    this.#log = log;
  }

  /** @param logTail address behind the last entry of the log. */
  isFull(logTail: number): boolean {
    this.#logTail = logTail;
    this.#tailAtLook ??= logTail;
    return this.#full || logTail - this.#tailAtLook >= this.#roomBytes;
  }

  /** Looks once, and from then on twice a second until `stop`. */
  async start(): Promise<void> {
    await this.#look();
    this.#timer = setInterval(() => void this.#look(), lookMs).unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    // What is written while the disk is asked may or may not be in its answer: it counts again.
    const logTail = this.#logTail;
    let usedShare: number;
    try {
      const space = await this.#disk.space();
      usedShare = space.usedShare;
      const totalBytes = space.freeBytes / Math.max(1 - usedShare, Number.EPSILON);
      this.#roomBytes = (this.#limits.fullShare - usedShare) * totalBytes;
      this.#tailAtLook = logTail;
    } catch (error) {
      const { message } = error as Error;
      if (message !== this.#failure) this.#log('warn', `the free space of the disk cannot be read: ${message}`);
      this.#failure = message;
      return;
    }
    if (this.#failure !== '') this.#log('info', 'the free space of the disk can be read again');
    this.#failure = '';
    const percent = Math.round(usedShare * 1000) / 10;
    if (!this.#full && usedShare >= this.#limits.fullShare) {
      this.#full = true;
      this.#log(
        'warn',
        `the disk is ${percent} % full: pushes are refused until it is below ${this.#limits.freeShare * 100} %`,
      );
    } else if (this.#full && usedShare < this.#limits.freeShare) {
      this.#full = false;
      this.#log('info', `the disk is ${percent} % full: pushes are taken again`);
    }
  }
}
