import type { Hasher } from '../codec/mod.ts';
import type { BrokerState } from '../core/mod.ts';
import type { Background, Log, Random, RecordIndex } from '../ports/mod.ts';

/** An opened data folder, recovered and ready to serve: what a shard runs on. Replaced as a whole after a failure. */
export interface Store {
  readonly log: Log;
  readonly index: RecordIndex;
  readonly state: BrokerState;
  readonly hasher: Hasher;
  readonly random: Random;
  readonly background: Background;
  readonly epoch: number;
  /** Log bytes since the newest snapshot. */
  bytesSinceSnapshot(): number;
  segmentCount(): number;
  /** Gauges of log and index, by name. */
  stats(): Readonly<Record<string, number>>;
  /** A snapshot of everything before this log address is complete. */
  snapshotTaken(address: number): void;
  /** Makes all durable, marks the log as cleanly closed and gives the folder free. */
  close(): Promise<void>;
  /** Lets go of everything without writing: after a failure. */
  abandon(): Promise<void>;
}
