import type { LogAddress } from '../ports/mod.ts';

/** A range of log addresses that no file covers; `end` is the base of the segment behind it. */
export interface LogGap {
  readonly base: LogAddress;
  readonly end: LogAddress;
}

/**
 * The log on disk is not what was written: bytes that had been synced are missing or changed. Never thrown for a tail
 * that a crash could have left. The broker must not serve on such a folder, because answered writes may be gone.
 */
export class LogDamage extends Error {
  readonly code = 'ELOGDAMAGE';
  /** File in the data folder, such as `segments/0000000000000000.seg`. */
  readonly segment: string;
  /** Address of the first byte that could not be read as what it should be. */
  readonly address: LogAddress;
  readonly reason: string;

  constructor(segment: string, address: LogAddress, reason: string, options?: { cause: unknown }) {
    super(`the log is damaged in ${segment} at address ${address}: ${reason}`, options);
    this.name = 'LogDamage';
    this.segment = segment;
    this.address = address;
    this.reason = reason;
  }
}
