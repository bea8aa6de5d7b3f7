/**
 * The worker thread for heavy work: sidecars and snapshots. It reads and writes files of the data folder that the serving
 * thread never writes, one job at a time, and ends when it is told to.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { createHasher } from './codec/mod.ts';
import { buildSnapshot } from './data-folder.ts';
import { readSegment } from './storage/log-reader.ts';
import { buildSidecar, buildSidecarOf, type VisitSegment } from './storage/sidecar-build.ts';
import { NodeDisk } from './system/node-disk.ts';
import type { Job, JobAnswer } from './worker-background.ts';

const port = parentPort;
if (port === null) throw new Error('background-worker runs as a worker thread only');
const disk = new NodeDisk((workerData as { location: string }).location);

async function work(job: Job): Promise<JobAnswer> {
  try {
    if (job.kind === 'index') {
      const hasher = await createHasher(0, 0);
      if (job.rows === null) {
        const visitSegment: VisitSegment = (base, visit) => readSegment(disk, hasher, base, visit, {}, job.end);
        await buildSidecar(disk, hasher, visitSegment, job.base);
      } else await buildSidecarOf(disk, hasher, job.rows);
      return { number: job.number, built: null };
    }
    const warnings: string[] = [];
    const built = await buildSnapshot(disk, job.throughSequence, (_level, text) => warnings.push(text));
    return { number: job.number, built, warnings };
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    return { number: job.number, error: { message, ...(code === undefined ? {} : { code }) } };
  }
}

let last: Promise<void> = Promise.resolve();
port.on('message', (job: Job) => {
  last = last.then(async () => port.postMessage(await work(job)));
});
