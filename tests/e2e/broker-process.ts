/**
 * A real broker as a child process on a data folder of its own: started, awaited, stopped, killed, frozen, restarted
 * on the same folder, and removed with its folder at the end. The tests' only way to a broker: over its command line
 * and over HTTP.
 *
 * A broker that ends although nobody stopped it, or that does not end cleanly on SIGTERM, fails the test that owns it,
 * with what the broker printed.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BrokerClient } from './broker-client.ts';
import { eventually } from './clock.ts';

/** The compiled tests lie in dist/tests/e2e. */
export const repositoryRoot = fileURLToPath(new URL('../../../', import.meta.url));
export const brokerMain = join(repositoryRoot, 'packages/broker/dist/src/cli/main.js');

const readyTimeoutMs = 60_000;
const stopTimeoutMs = 15_000;
const outputKeptChars = 20_000;
/** Kernel clock ticks per second of /proc/PID/stat; 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

const { LANEMQ_TEST_SLOW } = process.env;
/** Set LANEMQ_TEST_SLOW=1 to run the scenarios at their full size instead of a hundredth of it. */
export const slow = LANEMQ_TEST_SLOW === '1';

/** The full number in the slow suite, the small one otherwise. */
export function sized(small: number, full: number): number {
  return slow ? full : small;
}

export interface BrokerSettings {
  /** Default: a fresh temporary folder, removed by `dispose`. */
  readonly dataFolder?: string;
  /** Further arguments of `serve`. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Arguments of node itself. */
  readonly nodeArgs?: readonly string[];
  /** `ulimit -n` of the process. */
  readonly openFilesMax?: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface Launched {
  readonly child: ChildProcess;
  readonly exit: Promise<Exit>;
  /** What this process printed so far. */
  readonly printed: () => string;
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
// A test that ran out of time is ended by the runner; its brokers must not outlive it.
process.once('SIGTERM', () => process.exit(1));

/** Whether this process goes on for as long as the child runs. */
function setHeld(child: ChildProcess, isHeld: boolean): void {
  const handles = [child, child.stdout as Socket | null, child.stderr as Socket | null];
  for (const handle of handles) {
    if (isHeld) handle?.ref();
    else handle?.unref();
  }
}

export class BrokerProcess {
  readonly client = new BrokerClient();
  readonly dataFolder: string;
  readonly #settings: BrokerSettings;
  readonly #ownsFolder: boolean;
  #child: ChildProcess | null = null;
  #exit: Promise<Exit> | null = null;
  #output = '';
  #endExpected = false;
  #startMs = 0;

  private constructor(settings: BrokerSettings, dataFolder: string, ownsFolder: boolean) {
    this.#settings = settings;
    this.dataFolder = dataFolder;
    this.#ownsFolder = ownsFolder;
  }

  /** Starts a broker and answers when it serves. */
  static async start(settings: BrokerSettings = {}): Promise<BrokerProcess> {
    const broker = await BrokerProcess.prepare(settings);
    try {
      await broker.launch();
    } catch (error) {
      await broker.removeFolder();
      throw error;
    }
    return broker;
  }

  /** A broker that is not running yet. */
  static async prepare(settings: BrokerSettings = {}): Promise<BrokerProcess> {
    const folder = settings.dataFolder ?? (await mkdtemp(join(tmpdir(), 'lanemq-e2e-')));
    return new BrokerProcess(settings, folder, settings.dataFolder === undefined);
  }

  /** What the broker printed so far, over all its starts; the last part when it is long. */
  get output(): string {
    return this.#output;
  }

  get pid(): number {
    assert.ok(this.#child?.pid !== undefined, 'the broker is not running');
    return this.#child.pid;
  }

  get url(): string {
    return `http://127.0.0.1:${this.client.port}`;
  }

  /** Milliseconds from the last spawn to the line that says it serves. */
  get startMs(): number {
    return this.#startMs;
  }

  /** Starts the process on the folder and waits until it serves. Rejects, with the output, when it ends instead. */
  async launch(): Promise<void> {
    assert.equal(this.#child, null, 'the broker is running already');
    const startedAt = performance.now();
    const launched = this.#spawn();
    this.#child = launched.child;
    this.#exit = launched.exit;
    this.#endExpected = false;
    const port = await this.#awaitPort(launched);
    this.#startMs = performance.now() - startedAt;
    // A broker that a failed test left behind must not keep the tests' process from ending, which ends the broker too.
    setHeld(launched.child, false);
    this.client.connectTo(port);
  }

  /** Starts a process that is expected to refuse, and answers its exit and what it printed. */
  async launchToExit(timeoutMs: number): Promise<Exit & { readonly output: string; readonly tookMs: number }> {
    const startedAt = performance.now();
    const { child, exit, printed } = this.#spawn();
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    const ended = await exit;
    clearTimeout(timer);
    return { ...ended, output: printed(), tookMs: performance.now() - startedAt };
  }

  /** SIGTERM, then the exit. Kills after a generous time and then fails. */
  async stop(): Promise<Exit> {
    const exit = this.signal('SIGTERM');
    const child = this.#child;
    const timer = setTimeout(() => child?.kill('SIGKILL'), stopTimeoutMs);
    const ended = await exit;
    clearTimeout(timer);
    this.#forget();
    assert.deepEqual(ended, { code: 0, signal: null }, `the broker did not stop cleanly:\n${this.#output}`);
    return ended;
  }

  /** SIGKILL, then the end of the process. */
  async kill(): Promise<void> {
    const ended = await this.signal('SIGKILL');
    this.#forget();
    assert.equal(ended.signal, 'SIGKILL', `the broker had ended by itself before it was killed:\n${this.#output}`);
  }

  /** Kills the process and starts it again on the same folder. The client is pointed at the new one. */
  async killAndRestart(): Promise<void> {
    await this.kill();
    await this.launch();
  }

  /** Stops the process cleanly and starts it again on the same folder. */
  async restart(): Promise<void> {
    await this.stop();
    await this.launch();
  }

  /** Sends a signal that ends the process; the promise is its end. */
  signal(signal: NodeJS.Signals): Promise<Exit> {
    assert.ok(this.#child !== null && this.#exit !== null, `the broker is not running:\n${this.#output}`);
    this.#endExpected = true;
    setHeld(this.#child, true);
    this.#child.kill(signal);
    return this.#exit;
  }

  /** Stops the process where it is, until `thaw`. Resolves when none of its threads does anything any more. */
  async freeze(): Promise<void> {
    const { pid } = this;
    this.notify('SIGSTOP');
    const isStopped = async (thread: string): Promise<boolean> => {
      const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8');
      return stat[stat.lastIndexOf(')') + 2] === 'T';
    };
    const areStopped = async (): Promise<boolean> => {
      const threads = await readdir(`/proc/${pid}/task`);
      return (await Promise.all(threads.map(isStopped))).every((stopped) => stopped);
    };
    await eventually(areStopped, stopTimeoutMs, 'the broker is frozen');
  }

  thaw(): void {
    this.notify('SIGCONT');
  }

  /** Sends a signal that the process is expected to survive. */
  notify(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Stops the process if it runs, fails when it ended badly, and removes its folder if it was made here. */
  async dispose(): Promise<void> {
    try {
      if (this.#child !== null) await this.stop();
      this.client.close();
    } finally {
      await this.removeFolder();
    }
  }

  async removeFolder(): Promise<void> {
    if (this.#ownsFolder) await rm(this.dataFolder, { recursive: true, force: true });
  }

  /** Resident memory in bytes. */
  async residentBytes(): Promise<number> {
    const status = await readFile(`/proc/${this.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
  }

  /** CPU time used so far, user and system, in milliseconds. */
  async cpuMs(): Promise<number> {
    const stat = await readFile(`/proc/${this.pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerSecond;
  }

  /** Bytes the process caused to be written to disks. */
  async diskBytesWritten(): Promise<number> {
    const io = await readFile(`/proc/${this.pid}/io`, 'utf8');
    return Number(/^write_bytes: (\d+)/m.exec(io)?.[1]);
  }

  async openFiles(): Promise<number> {
    return (await readdir(`/proc/${this.pid}/fd`)).length;
  }

  #spawn(): Launched {
    const settings = this.#settings;
    const nodeArgs = [
      ...(settings.nodeArgs ?? []),
      brokerMain,
      'serve',
      '--port',
      '0',
      '--data',
      this.dataFolder,
      ...(settings.args ?? []),
    ];
    const options = {
      stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NODE_OPTIONS: '', ...settings.env },
    };
    const child =
      settings.openFilesMax === undefined
        ? spawn(process.execPath, nodeArgs, options)
        : spawn(
            '/bin/sh',
            ['-c', `ulimit -n ${settings.openFilesMax}; exec "$0" "$@"`, process.execPath, ...nodeArgs],
            options,
          );
    running.add(child);
    let printed = '';
    const keep = (chunk: Buffer): void => {
      printed = (printed + chunk.toString('utf8')).slice(-outputKeptChars);
      this.#output = (this.#output + chunk.toString('utf8')).slice(-outputKeptChars);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const exit = once(child, 'close').then(([code, signal]): Exit => {
      running.delete(child);
      if (this.#child === child && !this.#endExpected) {
        process.stderr.write(`the broker ended by itself (${code ?? signal}):\n${this.#output}\n`);
      }
      return { code: code as number | null, signal: signal as NodeJS.Signals | null };
    });
    return { child, exit, printed: () => printed };
  }

  async #awaitPort({ child, exit, printed }: Launched): Promise<number> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<number>((resolve, reject) => {
        const look = (): void => {
          const port = /http:\/\/127\.0\.0\.1:(\d+)/.exec(printed())?.[1];
          if (port !== undefined) resolve(Number(port));
        };
        child.stdout?.on('data', look);
        timer = setTimeout(() => {
          child.kill('SIGKILL');
          reject(new Error(`the broker was not ready after ${readyTimeoutMs} ms:\n${this.#output}`));
        }, readyTimeoutMs);
        exit.then(
          ({ code, signal }) =>
            reject(new Error(`the broker ended at its start (${code ?? signal}):\n${this.#output}`)),
          reject,
        );
      });
    } catch (error) {
      this.#forget();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #forget(): void {
    this.#child = null;
    this.#exit = null;
    this.client.close();
  }
}
