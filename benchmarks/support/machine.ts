/** Where and of what the figures are: without it they mean nothing. */
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';

export interface MachineFacts {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly node: string;
  /** The commit measured; with `+changes` when the tree differs from it. */
  readonly commit: string;
  readonly date: string;
}

export function machineFacts(): MachineFacts {
  const processors = cpus();
  return {
    cpu: processors[0]?.model ?? 'unknown',
    cores: processors.length,
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    node: process.version,
    commit: commitText(),
    date: new Date().toISOString(),
  };
}

function commitText(): string {
  try {
    const commit = git('rev-parse', '--short=12', 'HEAD');
    return git('status', '--porcelain') === '' ? commit : `${commit}+changes`;
  } catch {
    return 'unknown (no git here)';
  }
}

function git(...args: string[]): string {
  return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}
