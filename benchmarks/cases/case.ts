/** What the runner knows of a case. */
import type { BenchOptions } from '../options.ts';
import type { CaseFigures } from '../support/report.ts';

export interface BenchCase {
  readonly id: string;
  /** Starts its own brokers and ends them. Throws when the broker answers anything unexpected. */
  run(options: BenchOptions): Promise<CaseFigures>;
}
