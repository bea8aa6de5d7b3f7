/** xxh64 with seed 0, as the codec's hasher offers it: no allocation, the result is left in two numbers. */
export interface Checksum {
  /** Upper 32 bits of the last result, unsigned. */
  readonly high: number;
  /** Lower 32 bits of the last result, unsigned. */
  readonly low: number;
  /** Hashes bytes[start, end). */
  checksum(bytes: Uint8Array, start: number, end: number): void;
}
