/**
 * Limits and sizes of the log, each with a name, a default and bounds. All in bytes unless the name says otherwise.
 */
import { entryBytesLimit } from './log-entry.ts';

export interface LogOptions {
  /** A segment that holds this much takes no further entry. Also what a segment is filled with zeros to. */
  readonly segmentBytes: number;
  /** Size of one slab of tail memory. An entry that does not fit gets a slab of its own. */
  readonly slabBytes: number;
  /** Memory kept for the newest entries. Exceeded only while more than this waits for the disk, or by one large entry. */
  readonly tailBytes: number;
  /** Memory kept for older parts of the log that were read back. Exceeded only by what was asked for in this turn. */
  readonly coldBytes: number;
  /** Reads of older parts are widened to multiples of this. */
  readonly coldPageBytes: number;
  /** Longest entry that is written, header included. Longer ones that were written before are still read. */
  readonly entryBytesMax: number;
  /** Size of one read while the log is read from one end to the other. */
  readonly scanBytes: number;
  /** Sealed segments that are held open for reading. */
  readonly openSegmentsMax: number;
  /**
   * A new segment is filled with zeros in steps of this, each durable, so that traffic does not wait for one big write.
   * Steps of 4 MiB took four times as much of the processor as steps of 512 KiB: larger than its caches, and in folios of
   * pages that nobody had used before.
   */
  readonly zeroStepBytes: number;
  /**
   * Writes that are as large as this on average make their segment grow: filling it with zeros first would cost the disk and
   * the processor more than the change of the file's length does. A smaller write to such a segment brings so many zeros
   * for those that follow it.
   */
  readonly largeWriteBytes: number;
}

const kib = 1024;
const mib = 1024 * kib;

interface Bounds {
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** The table that defaults, checks and the page of options share. */
export const logOptionTable: { readonly [K in keyof LogOptions]: Bounds } = {
  segmentBytes: { default: 64 * mib, min: 256, max: 2048 * mib },
  slabBytes: { default: 4 * mib, min: 256, max: 256 * mib },
  tailBytes: { default: 32 * mib, min: 256, max: 65_536 * mib },
  coldBytes: { default: 32 * mib, min: 0, max: 65_536 * mib },
  coldPageBytes: { default: 16 * kib, min: 64, max: 16 * mib },
  entryBytesMax: { default: 128 * mib, min: 256, max: entryBytesLimit },
  scanBytes: { default: 2 * mib, min: 64, max: 256 * mib },
  openSegmentsMax: { default: 64, min: 1, max: 65_536 },
  zeroStepBytes: { default: 512 * kib, min: 64, max: 256 * mib },
  largeWriteBytes: { default: 64 * kib, min: 64, max: 256 * mib },
};

/** Fills in defaults. Throws a RangeError that names the option, its value and its bounds. */
export function logOptions(given: Partial<LogOptions> = {}): LogOptions {
  const result: Record<string, number> = {};
  for (const [name, bounds] of Object.entries(logOptionTable)) {
    const value = given[name as keyof LogOptions] ?? bounds.default;
    if (!Number.isSafeInteger(value) || value < bounds.min || value > bounds.max) {
      throw new RangeError(`${name} is ${value}; it must be an integer from ${bounds.min} to ${bounds.max}`);
    }
    result[name] = value;
  }
  const options = result as unknown as LogOptions;
  if (options.slabBytes > options.entryBytesMax) {
    throw new RangeError(`slabBytes (${options.slabBytes}) must not exceed entryBytesMax (${options.entryBytesMax})`);
  }
  return options;
}
