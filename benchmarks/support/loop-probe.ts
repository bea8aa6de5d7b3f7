/**
 * Loaded into the broker's process: measures for how long its loop was held up. Told by SIGUSR2 to write the longest time
 * since it was last told, in milliseconds, to the file that its own address names.
 *
 * Time in which its thread did not have a processor does not count: the load and others use the machine too.
 */
import { closeSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const everyMs = 1;

/** Milliseconds for which the main thread has had a processor: the first number of its schedstat, in nanoseconds. */
function usedMs(): number {
  const descriptor = openSync('/proc/self/schedstat', 'r');
  const length = readSync(descriptor, buffer, 0, buffer.length, 0);
  closeSync(descriptor);
  return Number.parseInt(buffer.toString('latin1', 0, length), 10) / 1e6;
}

const buffer = Buffer.alloc(128);

function watch(file: string): void {
  let longestMs = 0;
  let sinceMs = performance.now();
  let sinceUsedMs = usedMs();
  setInterval(() => {
    const nowMs = performance.now();
    const nowUsedMs = usedMs();
    longestMs = Math.max(longestMs, Math.min(nowMs - sinceMs, nowUsedMs - sinceUsedMs));
    sinceMs = nowMs;
    sinceUsedMs = nowUsedMs;
  }, everyMs).unref();
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.new`, String(longestMs));
    renameSync(`${file}.new`, file);
    longestMs = 0;
  });
}

const file = new URL(import.meta.url).searchParams.get('file');
if (isMainThread && file !== null) watch(file);
