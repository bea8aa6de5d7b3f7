/** Chance that can be had again: the same seed gives the same draws. */
import { randomInt } from 'node:crypto';

export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** An integer in [0, below). */
  integer(below: number): number {
    // One step of a Weyl sequence, then two rounds of xor-shift and multiply to spread the bits.
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return Math.floor((((mixed ^ (mixed >>> 15)) >>> 0) / 0x1_0000_0000) * below);
  }

  /** An integer in [low, high]. */
  between(low: number, high: number): number {
    return low + this.integer(high - low + 1);
  }

  /** True in `percent` of 100 draws. */
  chance(percent: number): boolean {
    return this.integer(100) < percent;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.integer(items.length)];
  }

  /** Draws of its own, for a part whose number of draws must not disturb the others. */
  fork(): SeededRandom {
    return new SeededRandom(this.integer(0x1_0000_0000));
  }
}

/** The seed named by an environment variable, else a fresh one. */
export function chooseSeed(variable: string): number {
  const given = process.env[variable];
  return given === undefined ? randomInt(0x7fff_ffff) : Number(given);
}

/** The number named by an environment variable, else the default. */
export function chooseCount(variable: string, otherwise: number): number {
  const given = process.env[variable];
  return given === undefined ? otherwise : Number(given);
}
