/** The broker under test: a fresh child process on a fresh folder, with its usage measured around each phase. */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BrokerChild, startBrokerChild } from '../../scripts/lib/broker-child.ts';
import type { BenchOptions } from '../options.ts';
import type { Latency } from './latency.ts';
import { processUsage } from './process-usage.ts';
import type { PhaseFigures } from './report.ts';

/** What a phase reports about itself when it is over. */
export interface PhaseWork {
  readonly messages: number;
  readonly requests: number;
  readonly latency?: Latency;
}

export class BenchBroker {
  readonly #options: BenchOptions;
  readonly dataFolder: string;
  #child: BrokerChild;

  static async start(options: BenchOptions): Promise<BenchBroker> {
    const dataFolder = mkdtempSync(join(options.folder, 'data-'));
    return new BenchBroker(options, dataFolder, await startChild(options, dataFolder));
  }

  private constructor(options: BenchOptions, dataFolder: string, child: BrokerChild) {
    this.#options = options;
    this.dataFolder = dataFolder;
    this.#child = child;
  }

  get pid(): number {
    return this.#child.pid;
  }

  get port(): number {
    return this.#child.port;
  }

  get url(): string {
    return this.#child.url;
  }

  rssBytes(): number {
    return processUsage(this.#child.pid).rssBytes;
  }

  /** Runs a phase and measures it: time, the broker's CPU and memory, syncs, and the load's own CPU. */
  async phase(name: string, work: () => Promise<PhaseWork>): Promise<PhaseFigures> {
    const metricsBefore = await this.metrics();
    const usageBefore = processUsage(this.#child.pid);
    const loadBefore = process.cpuUsage();
    const startedAtMs = performance.now();
    const done = await work();
    const seconds = (performance.now() - startedAtMs) / 1000;
    const load = process.cpuUsage(loadBefore);
    const usage = processUsage(this.#child.pid);
    const fsyncs = (await this.metrics()).get('syncs');
    const fsyncsBefore = metricsBefore.get('syncs');
    const brokerCpuUs = usage.cpuUs - usageBefore.cpuUs;
    return {
      phase: name,
      messages: done.messages,
      requests: done.requests,
      seconds,
      messagesPerSecond: done.messages / seconds,
      brokerCpuUsPerMessage: brokerCpuUs / done.messages,
      messagesPerBrokerCpuSecond: (done.messages / brokerCpuUs) * 1e6,
      brokerCores: brokerCpuUs / 1e6 / seconds,
      loadCores: (load.user + load.system) / 1e6 / seconds,
      latency: done.latency?.figures() ?? null,
      fsyncsPerSecond: fsyncs === undefined || fsyncsBefore === undefined ? null : (fsyncs - fsyncsBefore) / seconds,
      rssMb: usage.rssBytes / 1024 ** 2,
      rssPeakMb: usage.rssPeakBytes / 1024 ** 2,
    };
  }

  /** The numbers that the engine reports in GET /metrics. */
  async metrics(): Promise<Map<string, number>> {
    const response = await fetch(`${this.url}/metrics`);
    if (!response.ok) throw new Error(`GET /metrics answered ${response.status}`);
    const body = (await response.json()) as Record<string, unknown>;
    const isNumber = (entry: [string, unknown]): entry is [string, number] => typeof entry[1] === 'number';
    return new Map(Object.entries(body).filter(isNumber));
  }

  /** Ends the process as told, starts it again on the same data, and resolves with milliseconds until it is healthy. */
  async restart(how: 'stop' | 'kill'): Promise<number> {
    await (how === 'stop' ? this.#child.stop() : this.#child.kill());
    const startedAtMs = performance.now();
    this.#child = await startChild(this.#options, this.dataFolder);
    for (;;) {
      const response = await fetch(`${this.url}/health`);
      await response.arrayBuffer();
      if (response.status === 200) return performance.now() - startedAtMs;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Ends the broker and removes its data. */
  async end(): Promise<void> {
    await this.#child.stop();
    rmSync(this.dataFolder, { recursive: true });
  }
}

function startChild(options: BenchOptions, dataFolder: string): Promise<BrokerChild> {
  return startBrokerChild({ dataFolder, port: 0, args: options.brokerArgs, nodeArgs: options.nodeArgs });
}
