import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as passed } from 'node:timers/promises';
import { DiskWatermark } from '../src/disk-watermark.ts';
import { NodeDisk } from '../src/system/node-disk.ts';

it('a disk whose free space cannot be read is reported once, and once more when it can', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lanemq-watermark-'));
  const lines: string[] = [];
  const watermark = new DiskWatermark(new NodeDisk(folder), { fullShare: 1, freeShare: 0.99 }, (level, text) =>
    lines.push(`${level} ${text}`),
  );
  await watermark.start();
  try {
    await rm(folder, { recursive: true });
    while (lines.length === 0) await passed(50);
    // Twice as long as from one look to the next.
    await passed(1000);
    await mkdir(folder);
    while (!lines.some((line) => line.startsWith('info'))) await passed(50);
  } finally {
    watermark.stop();
    await rm(folder, { recursive: true, force: true });
  }
  assert.equal(lines.length, 2, lines.join('\n'));
  assert.match(lines[0], /^warn the free space of the disk cannot be read: ENOENT/);
  assert.equal(lines[1], 'info the free space of the disk can be read again');
});
