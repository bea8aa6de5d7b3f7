import { randomFillSync, randomInt } from 'node:crypto';
import type { Random } from '../ports/mod.ts';

/** Chance from the operating system. */
export class SystemRandom implements Random {
  fill(target: Uint8Array): void {
    randomFillSync(target);
  }

  /** `below`: 1 to 2^48 − 1. */
  integer(below: number): number {
    return randomInt(below);
  }
}
