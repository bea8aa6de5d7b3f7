/**
 * Loaded into the broker's process: measures for how long its loop was held up. Told by SIGUSR2 to write the longest time
 * since it was last told, in milliseconds, to the file that its own address names.
 *
 * Time in which the process did not have a processor does not count: the load and others use the machine too.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const everyMs = 1;

function watch(file: string): void {
  let longestMs = 0;
  let sinceMs = performance.now();
  let since = process.cpuUsage();
  setInterval(() => {
    const nowMs = performance.now();
    const used = process.cpuUsage(since);
    longestMs = Math.max(longestMs, Math.min(nowMs - sinceMs, (used.user + used.system) / 1000));
    sinceMs = nowMs;
    since = process.cpuUsage();
  }, everyMs).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, String(longestMs));
    renameSync(`${file}.new`, file);
    longestMs = 0;
  });
}

const file = new URL(import.meta.url).searchParams.get('file');
if (isMainThread && file !== null) watch(file);
