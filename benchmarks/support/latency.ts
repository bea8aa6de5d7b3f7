/** Latencies in microseconds, kept in an HDR histogram with three significant digits. */
import { build, type Histogram } from 'hdr-histogram-js';

const latencyUsMax = 600_000_000;

export interface LatencyFigures {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export class Latency {
  readonly #histogram: Histogram = build({
    bitBucketSize: 32,
    autoResize: false,
    lowestDiscernibleValue: 1,
    highestTrackableValue: latencyUsMax,
    numberOfSignificantValueDigits: 3,
  });

  record(us: number): void {
    this.#histogram.recordValue(Math.min(latencyUsMax, Math.max(1, Math.round(us))));
  }

  figures(): LatencyFigures | null {
    const count = this.#histogram.totalCount;
    if (count === 0) return null;
    return {
      count,
      p50Ms: this.#histogram.getValueAtPercentile(50) / 1000,
      p99Ms: this.#histogram.getValueAtPercentile(99) / 1000,
      maxMs: this.#histogram.maxValue / 1000,
    };
  }
}
