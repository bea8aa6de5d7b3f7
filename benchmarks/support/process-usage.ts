/** What a process has used so far, from the kernel's own accounting of it and all its threads. */
import { readFileSync } from 'node:fs';

export interface ProcessUsage {
  /** User and system time, microseconds, in steps of 10 ms. */
  readonly cpuUs: number;
  readonly rssBytes: number;
  /** The largest resident size so far. */
  readonly rssPeakBytes: number;
}

/** The kernel reports times in ticks of 1/100 s on every platform that Node runs on. */
const usPerTick = 10_000;
/** Behind the command name, which ends at the last parenthesis: utime and stime are fields 14 and 15 of the line. */
const userTimeField = 11;

export function processUsage(pid: number): ProcessUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    cpuUs: (Number(fields[userTimeField]) + Number(fields[userTimeField + 1])) * usPerTick,
    rssBytes: kilobytesOf(status, 'VmRSS') * 1024,
    rssPeakBytes: kilobytesOf(status, 'VmHWM') * 1024,
  };
}

function kilobytesOf(status: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status);
  if (match === null) throw new Error(`/proc has no ${name}`);
  return Number(match[1]);
}
