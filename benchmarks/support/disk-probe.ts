/**
 * What the disk itself takes to make a block durable: overwrites of a preallocated file, each followed by fdatasync,
 * which is what a broker does per group of requests. Latencies of the broker are read as multiples of this.
 */
import { closeSync, fdatasyncSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Latency, type LatencyFigures } from './latency.ts';

const blockBytes = 64 * 1024;
const fileBlocks = 64;
const probeMsMax = 2000;
const writesMax = 500;

/** Probes the disk of a folder for at most two seconds. */
export function probeDisk(folder: string): LatencyFigures {
  const path = join(folder, 'disk-probe');
  const block = Buffer.alloc(blockBytes, 1);
  const latency = new Latency();
  const file = openSync(path, 'w');
  try {
    for (let i = 0; i < fileBlocks; i++) writeSync(file, block, 0, blockBytes, i * blockBytes);
    fsyncSync(file);
    const startedAtMs = performance.now();
    for (let i = 0; i < writesMax && performance.now() - startedAtMs < probeMsMax; i++) {
      const writtenAtMs = performance.now();
      writeSync(file, block, 0, blockBytes, (i % fileBlocks) * blockBytes);
      fdatasyncSync(file);
      latency.record((performance.now() - writtenAtMs) * 1000);
    }
  } finally {
    closeSync(file);
    rmSync(path);
  }
  const figures = latency.figures();
  if (figures === null) throw new Error('the disk did not complete one write');
  return figures;
}
