/**
 * Looks at the disk from time to time. It counts as full from one share on, and as free again below a lower one, so that
 * a broker at the edge does not flap. While it is full pushes are refused, and the room that is left serves acks.
 */
import type { Disk } from './ports/mod.ts';

const lookMs = 1000;

export class DiskWatermark {
  #full = false;
  #timer: NodeJS.Timeout | null = null;
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

  get isFull(): boolean {
    return this.#full;
  }

  /** Looks once, and from then on every second until `stop`. */
  async start(): Promise<void> {
    await this.#look();
    this.#timer = setInterval(() => void this.#look(), lookMs).unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    let usedShare: number;
    try {
      usedShare = (await this.#disk.space()).usedShare;
    } catch (error) {
      this.#log('warn', `the free space of the disk cannot be read: ${(error as Error).message}`);
      return;
    }
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
