/** A broker under test whose loop is watched. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from './bench-broker.ts';

export class ProbedBroker {
  readonly broker: BenchBroker;
  readonly #folder: string;
  readonly #file: string;

  static async start(options: BenchOptions): Promise<ProbedBroker> {
    const folder = mkdtempSync(join(options.folder, 'probe-'));
    const file = join(folder, 'longest');
    const probe = new URL('./loop-probe.js', import.meta.url);
    probe.searchParams.set('file', file);
    const nodeArgs = [...options.nodeArgs, '--import', probe.href];
    return new ProbedBroker(await BenchBroker.start({ ...options, nodeArgs }), folder, file);
  }

  private constructor(broker: BenchBroker, folder: string, file: string) {
    this.broker = broker;
    this.#folder = folder;
    this.#file = file;
  }

  /** For how long the loop was held up at most since the last time this was asked, in milliseconds. */
  async longestMs(): Promise<number> {
    rmSync(this.#file, { force: true });
    process.kill(this.broker.pid, 'SIGUSR2');
    while (!existsSync(this.#file)) await delay(1);
    return Number(readFileSync(this.#file, 'latin1'));
  }

  async end(): Promise<void> {
    await this.broker.end();
    rmSync(this.#folder, { recursive: true });
  }
}
