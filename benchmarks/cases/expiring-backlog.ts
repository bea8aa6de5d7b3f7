/**
 * Case h: how long until the disk of an expired backlog is free, and what others feel of it. About 2 GB are pushed and
 * kept; then retention is switched on, and all of it is too old. Meanwhile another queue is pushed to, one message
 * every 10 ms, and its answers are timed: before, as a yardstick, and during.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { BenchOptions } from '../options.ts';
import { BenchBroker } from '../support/bench-broker.ts';
import { pushLoop } from '../support/load.ts';
import type { PushShape } from '../support/push-request.ts';
import type { CaseFigures } from '../support/report.ts';
import type { BenchCase } from './case.ts';

const queue = 'bench-h';
const payloadBytes = 4096;
const itemsPerPush = 100;
const freeBytes = 200 * 1024 * 1024;
const otherEveryMs = 10;
const limitMs = 300_000;

export const expiringBacklog: BenchCase = {
  id: 'h',
  async run(options: BenchOptions): Promise<CaseFigures> {
    const partitions = options.partitions ?? 10_000;
    const messages = options.messages ?? 500_000;
    const shape: PushShape = { queue, items: itemsPerPush, payloadBytes, withIds: options.withIds };
    const broker = await BenchBroker.start(options);
    const { port } = broker;
    let next = 0;
    const pushed = await broker.phase('push', () =>
      pushLoop({
        port,
        shape,
        connections: options.connections ?? 4,
        chooserOf: () => (request, i, timeUs) => request.set(i, next++ % partitions, 0, timeUs),
        mayContinue: () => next < messages,
      }),
    );
    const others = (until: () => boolean) =>
      pushLoop({
        port,
        shape: { queue: 'others', items: 1, payloadBytes: options.payloadBytes, withIds: options.withIds },
        connections: 1,
        chooserOf: () => (request, i, timeUs) => request.set(i, 0, 0, timeUs),
        mayContinue: async () => {
          await delay(otherEveryMs);
          return !until();
        },
      });
    const yardstickEndsMs = performance.now() + options.seconds * 1000;
    const before = await broker.phase('others, before', () => others(() => performance.now() > yardstickEndsMs));
    const bytesBefore = folderBytes(broker.dataFolder);

    const configured = await fetch(`${broker.url}/api/v1/configure`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ queue, options: { retentionEnabled: true, retentionSeconds: 1 } }),
    });
    if (!configured.ok) throw new Error(`configure answered ${configured.status}`);
    const startedAtMs = performance.now();
    let freeAfterMs = 0;
    let bytesAfter = bytesBefore;
    const isFree = (): boolean => {
      if (freeAfterMs > 0) return true;
      bytesAfter = folderBytes(broker.dataFolder);
      const afterMs = performance.now() - startedAtMs;
      if (afterMs > limitMs) throw new Error(`the folder still has ${bytesAfter} bytes after ${limitMs} ms`);
      if (bytesAfter < freeBytes) freeAfterMs = afterMs;
      return freeAfterMs > 0;
    };
    const during = await broker.phase('others, while it is freed', () => others(isFree));
    await broker.end();
    return {
      name: 'h',
      question: 'the disk of an expired backlog',
      shape: { ...shape, partitions, messages },
      phases: [pushed, before, during],
      facts: {
        'folder before, MB': bytesBefore / 1e6,
        'folder after, MB': bytesAfter / 1e6,
        'seconds from configure to under 200 MiB': freeAfterMs / 1000,
      },
    };
  },
};

/** Bytes of all files, as `ls` shows them. */
function folderBytes(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += folderBytes(path);
    else bytes += statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return bytes;
}
