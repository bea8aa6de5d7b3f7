/**
 * A broker as a child process, for the demo and the benchmarks: started from the built command line, ready when it
 * says its address, and gone when this process is gone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The file that `lanemq` runs. */
export const brokerEntry = fileURLToPath(new URL('../../../packages/broker/dist/src/cli/main.js', import.meta.url));

export interface BrokerChildOptions {
  readonly dataFolder: string;
  /** 0 = any free port. */
  readonly port: number;
  /** More arguments of `lanemq serve`. */
  readonly args?: readonly string[];
  /** Arguments of node itself, before the entry file. */
  readonly nodeArgs?: readonly string[];
  readonly readyTimeoutMs?: number;
}

export interface BrokerChild {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** From the spawn to the line that names the address. */
  readonly readyAfterMs: number;
  /** SIGTERM, then waits for the end. Rejects when the exit code is not 0. */
  stop(): Promise<void>;
  /** SIGKILL, then waits for the end. */
  kill(): Promise<void>;
}

const outputKeptChars = 4000;
const addressPattern = /http:\/\/[^\s/:]+:(\d+)/;

/** Rejects, with what the broker printed, when it ends or stays silent before it is ready. */
export function startBrokerChild(options: BrokerChildOptions): Promise<BrokerChild> {
  const startedAtMs = performance.now();
  const args = [...(options.nodeArgs ?? []), brokerEntry, 'serve', '--port', String(options.port)];
  const child = spawn(process.execPath, [...args, '--data', options.dataFolder, ...(options.args ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killWithParent = () => child.kill('SIGKILL');
  process.on('exit', killWithParent);
  const ended = new Promise<string>((resolve) => {
    child.on('exit', (code, signal) => {
      process.off('exit', killWithParent);
      resolve(code === 0 ? '' : `the broker ended with ${signal ?? `code ${code}`}`);
    });
  });
  return new Promise((resolve, reject) => {
    let output = '';
    let ready = false;
    const fail = (reason: string) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      if (!ready) reject(new Error(`${reason}\n${output}`));
    };
    const timeoutMs = options.readyTimeoutMs ?? 120_000;
    const timer = setTimeout(() => fail(`the broker was not ready within ${timeoutMs} ms`), timeoutMs);
    const onOutput = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-outputKeptChars);
      const address = ready ? null : addressPattern.exec(output);
      if (address === null) return;
      ready = true;
      clearTimeout(timer);
      const readyAfterMs = performance.now() - startedAtMs;
      resolve(
        handleOf(child, { url: address[0], port: Number(address[1]), readyAfterMs, ended, output: () => output }),
      );
    };
    child.stdout.on('data', onOutput);
    child.stderr.on('data', onOutput);
    child.on('error', (error) => fail(`the broker could not be started: ${error.message}`));
    child.on('exit', (code, signal) => fail(`the broker ended with ${signal ?? `code ${code}`} before it was ready`));
  });
}

interface ReadyFacts {
  readonly url: string;
  readonly port: number;
  readonly readyAfterMs: number;
  readonly ended: Promise<string>;
  output(): string;
}

function handleOf(child: ChildProcess, facts: ReadyFacts): BrokerChild {
  return {
    url: facts.url,
    port: facts.port,
    pid: child.pid ?? 0,
    readyAfterMs: facts.readyAfterMs,
    async stop() {
      child.kill('SIGTERM');
      const fault = await facts.ended;
      if (fault !== '') throw new Error(`${fault}\n${facts.output()}`);
    },
    async kill() {
      child.kill('SIGKILL');
      await facts.ended;
    },
  };
}
