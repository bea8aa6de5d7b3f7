import type { Random } from '../../src/ports/mod.ts';

/** Chance from a seed: the same draws in the same order, on every machine. A 32-bit generator of the PCG family. */
export class SimulatedRandom implements Random {
  #state: bigint;
  readonly #increment: bigint;

  /** `stream` makes independent sequences from one seed. */
  constructor(seed: number, stream = 0) {
    this.#increment = (BigInt(stream) * 2n + 1n) & mask64;
    this.#state = (this.#increment + BigInt(Math.trunc(seed))) & mask64;
    this.#next();
  }

  /** An integer in [0, below); `below` up to 2^32. */
  integer(below: number): number {
    return Math.floor((this.#next() / 0x1_0000_0000) * below);
  }

  /** True with this probability. */
  chance(share: number): boolean {
    return this.#next() / 0x1_0000_0000 < share;
  }

  fill(target: Uint8Array): void {
    for (let i = 0; i < target.length; i++) target[i] = this.#next() & 255;
  }

  #next(): number {
    const old = this.#state;
    this.#state = (old * 6364136223846793005n + this.#increment) & mask64;
    const shifted = Number((((old >> 18n) ^ old) >> 27n) & 0xffff_ffffn);
    const turn = Number(old >> 59n);
    return ((shifted >>> turn) | (shifted << (-turn & 31))) >>> 0;
  }
}

const mask64 = 0xffff_ffff_ffff_ffffn;
