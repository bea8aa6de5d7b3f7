/** What the demo prints: progress while it runs, the verdict, and what to try next. */
import { relative } from 'node:path';
import { brokerEntry } from '../lib/broker-child.ts';
import type { GroupVerdict } from './audit.ts';

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Rewrites one line on a terminal; elsewhere prints at most one line per second. */
export class ProgressLine {
  readonly #isTerminal = process.stdout.isTTY === true;
  #lastAtMs = 0;
  #shown = false;

  show(text: string): void {
    const now = performance.now();
    if (now - this.#lastAtMs < (this.#isTerminal ? 100 : 1000)) return;
    this.#lastAtMs = now;
    if (this.#isTerminal) process.stdout.write(`\r\u001b[K${text}`);
    else print(text);
    this.#shown = true;
  }

  end(): void {
    if (this.#isTerminal && this.#shown) process.stdout.write('\r\u001b[K');
  }
}

export function printVerdicts(verdicts: readonly GroupVerdict[]): void {
  const head = ['group', 'messages', 'order violations', 'redeliveries', 'dead letters', 'lost', 'messages/s'];
  const rows = verdicts.map((verdict) => [
    verdict.group,
    String(verdict.completed),
    String(verdict.violations.length),
    String(verdict.redeliveries),
    String(verdict.deadLetters),
    String(verdict.lost),
    String(Math.round((verdict.completed / Math.max(1, verdict.durationMs)) * 1000)),
  ]);
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column].length)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join('   ');
  print(line(head));
  print(widths.map((width) => '-'.repeat(width)).join('   '));
  for (const row of rows) print(line(row));
  for (const violation of verdicts.flatMap((verdict) => verdict.violations).slice(0, 20)) print(`  ${violation}`);
}

export function printNextSteps(options: {
  readonly dataFolder: string;
  readonly port: number;
  readonly running: boolean;
  readonly queue: string;
  readonly partition: string;
  readonly group: string;
}): void {
  const base = `http://127.0.0.1:${options.port}`;
  if (options.running) {
    print(`The broker is running at ${base}; Ctrl-C ends it. Its data is in ${options.dataFolder}.`);
  } else {
    print(`The data is in ${options.dataFolder}. Start the broker on it again with`);
    print('');
    print(`  node ${relative(process.cwd(), brokerEntry)} serve --port ${options.port} --data ${options.dataFolder}`);
  }
  const partition = encodeURIComponent(options.partition);
  print('');
  print('Then try, in another terminal:');
  print('');
  print(`  curl ${base}/health`);
  print(`  curl ${base}/api/v1/resources/queues`);
  print(`  curl '${base}/api/v1/dlq?queue=${options.queue}&consumerGroup=${options.group}'`);
  print(
    `  curl '${base}/api/v1/pop/queue/${options.queue}/partition/${partition}?consumerGroup=reader&subscriptionMode=all&batch=1'`,
  );
  print(
    `  curl ${base}/api/v1/push -d '{"items":[{"queue":"${options.queue}","partition":"${options.partition}","payload":{"event":"ping","body":{"zen":"Keep it logically awesome."}}}]}'`,
  );
}
