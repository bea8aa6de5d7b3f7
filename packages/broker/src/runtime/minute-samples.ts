/**
 * What happened in each of the last minutes, since the process began. It costs a comparison per turn: a turn that finds
 * that a minute is over takes down what was counted until then. Nothing is counted while no turn runs.
 */
import type { MinuteSample } from './browse-views.ts';

const usPerMinute = 60_000_000;

/** A day. */
const samplesKept = 1440;

export interface Counted {
  readonly pushedRecords: number;
  readonly deliveredRecords: number;
  readonly ackedItems: number;
}

export class MinuteSamples {
  #samples: MinuteSample[] = [];
  #atUs = 0;
  #pushed = 0;
  #delivered = 0;
  #acked = 0;
  #deadLetters = 0;
  #endUs = 0;
  sinceUs = 0;

  /** Called when a turn begins, with what was counted before it. */
  turnBegins(nowUs: number, counted: Counted, deadLetters: number): void {
    if (nowUs < this.#endUs) return;
    if (this.#endUs === 0) this.sinceUs = nowUs;
    else this.#samples.push(this.running(counted, deadLetters));
    // Twice as many before they are moved together: not at every minute.
    if (this.#samples.length >= samplesKept * 2) this.#samples = this.#samples.slice(-samplesKept);
    this.#atUs = Math.floor(nowUs / usPerMinute) * usPerMinute;
    this.#endUs = this.#atUs + usPerMinute;
    this.#pushed = counted.pushedRecords;
    this.#delivered = counted.deliveredRecords;
    this.#acked = counted.ackedItems;
    this.#deadLetters = deadLetters;
  }

  /** The minute that is not over. */
  running(counted: Counted, deadLetters: number): MinuteSample {
    return {
      atUs: this.#atUs,
      pushed: counted.pushedRecords - this.#pushed,
      delivered: counted.deliveredRecords - this.#delivered,
      acked: counted.ackedItems - this.#acked,
      // Dead letters also become fewer, when somebody deals with them.
      deadLettered: Math.max(0, deadLetters - this.#deadLetters),
    };
  }

  /** Newest first, of minutes that begin in [fromUs, toUs). */
  between(fromUs: number, toUs: number, counted: Counted, deadLetters: number): MinuteSample[] {
    const all = [...this.#samples, this.running(counted, deadLetters)].slice(-samplesKept);
    return all.filter(({ atUs }) => atUs > 0 && atUs + usPerMinute > fromUs && atUs < toUs).reverse();
  }
}
