/**
 * A broker on a small file system of its own that fills up and gets room again. Needs the right to mount one; without it
 * the tests are skipped, and the simulated disk of packages/broker/tests is what is left of them.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { ErrorBody, PushResult } from '../e2e/broker-client.ts';
import { BrokerProcess } from '../e2e/broker-process.ts';
import { passed } from '../e2e/clock.ts';

const mib = 1024 * 1024;
const diskBytes = 48 * mib;
/** Taken by another program, which gives it back later. */
const ballastBytes = 16 * mib;
const text = 'x'.repeat(100_000);
const giveUpMs = 20_000;

function mountSmallDisk(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'lanemq-small-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes}`, 'tmpfs', folder]);
  if (mounted.status === 0) return folder;
  rmdirSync(folder);
  return null;
}

async function onSmallDisk(args: readonly string[], use: (disk: SmallDisk) => Promise<void>): Promise<boolean> {
  const folder = mountSmallDisk();
  if (folder === null) return false;
  const ballast = join(folder, 'ballast');
  await writeFile(ballast, Buffer.alloc(ballastBytes));
  const broker = await BrokerProcess.start({
    dataFolder: join(folder, 'data'),
    args: ['--segment-bytes', '1MiB', '--snapshot-log-bytes', '4MiB', ...args],
  });
  try {
    await use(new SmallDisk(broker, ballast));
  } finally {
    await broker.dispose();
    assert.equal(spawnSync('umount', [folder]).status, 0);
    rmdirSync(folder);
  }
  return true;
}

class SmallDisk {
  readonly broker: BrokerProcess;
  readonly #ballast: string;
  /** Numbers that were answered 201, in the order of their pushing. */
  readonly stored: number[] = [];
  /** Refused ones: they may be stored or not when the answer said that the outcome is unknown. */
  readonly unknown = new Set<number>();
  #next = 0;

  constructor(broker: BrokerProcess, ballast: string) {
    this.broker = broker;
    this.#ballast = ballast;
  }

  /** One push; its status and its code, and how long the answer took. */
  async push(): Promise<{ status: number; code: string; tookMs: number }> {
    const n = this.#next++;
    const item = { queue: 'q', partition: 'p', transactionId: `n-${n}`, payload: { n, text } };
    const startedMs = performance.now();
    const answer = await this.broker.client.request<PushResult[] | ErrorBody>('POST', '/api/v1/push', {
      json: { items: [item] },
    });
    const code = answer.status === 201 ? '' : (answer.body as ErrorBody).code;
    if (answer.status === 201) this.stored.push(n);
    else if (code === 'outcome_unknown') this.unknown.add(n);
    return { status: answer.status, code, tookMs: performance.now() - startedMs };
  }

  async pushUntilRefused(): Promise<{ status: number; code: string; tookMs: number }> {
    for (;;) {
      const answer = await this.push();
      if (answer.status !== 201) return answer;
      assert.ok(this.stored.length * text.length < diskBytes, 'the disk holds no more than its size');
    }
  }

  freeSpace(): Promise<void> {
    return rm(this.#ballast);
  }

  /** Milliseconds until a push is taken. */
  async pushesAgain(): Promise<number> {
    const startedMs = performance.now();
    for (;;) {
      if ((await this.push()).status === 201) return performance.now() - startedMs;
      assert.ok(performance.now() - startedMs < giveUpMs, `pushes are taken again:\n${this.broker.output}`);
      await passed(50);
    }
  }

  /** Everything is delivered: all that was answered, in order and without gaps, and nothing that was refused. */
  async audit(firstOffset: number): Promise<void> {
    const got: number[] = [];
    let offset = firstOffset;
    for (;;) {
      const messages = await this.broker.client.pop<{ n: number }>('q', { batch: 50, autoAck: true });
      if (messages.length === 0) break;
      for (const message of messages) {
        assert.equal(message.offset, offset++);
        got.push(message.data.n);
      }
    }
    const expected = this.stored.slice(firstOffset);
    assert.deepEqual(
      got.filter((n) => !this.unknown.has(n)),
      expected,
    );
  }
}

// S-061
describe('a disk that fills up and gets room again', () => {
  it('refuses pushes at the watermark, delivers and takes acks, and takes pushes again without a restart', async (context) => {
    const ran = await onSmallDisk([], async (disk) => {
      const { client } = disk.broker;
      const refused = await disk.pushUntilRefused();
      assert.deepEqual([refused.status, refused.code], [507, 'storage_full']);
      assert.ok(refused.tookMs < 1000, `refused within a second, took ${refused.tookMs} ms`);
      assert.equal(disk.unknown.size, 0);
      const metrics = await client.request<{ diskFull: number }>('GET', '/metrics');
      assert.equal(metrics.body.diskFull, 1);
      const health = await client.request<{ status: string; detail: string }>('GET', '/health');
      assert.deepEqual([health.status, health.body.status], [200, 'healthy']);
      assert.match(health.body.detail, /disk is full: pushes are refused/);
      const [first] = await client.pop<{ n: number }>('q', { batch: 1 });
      assert.equal(first.data.n, 0);
      const [acked] = await client.ack([first]);
      assert.equal(acked.success, true);
      await disk.freeSpace();
      const tookMs = await disk.pushesAgain();
      assert.ok(tookMs < 2000, `pushes are taken within a second or so of room being there, took ${tookMs} ms`);
      await disk.audit(1);
    });
    if (!ran) context.skip('no right to mount a file system');
  });

  it('to its last byte says that the outcome is unknown, comes back by itself, and has lost and doubled nothing', async (context) => {
    const ran = await onSmallDisk(['--disk-full-share', '1', '--disk-free-share', '0.999'], async (disk) => {
      const refused = await disk.pushUntilRefused();
      assert.ok(refused.status === 503 || refused.status === 507, `refused with ${refused.status} ${refused.code}`);
      assert.ok(refused.tookMs < 1000, `refused within a second, took ${refused.tookMs} ms`);
      await disk.freeSpace();
      await disk.pushesAgain();
      await disk.audit(0);
      await disk.broker.kill();
      await disk.broker.launch();
      assert.equal((await disk.push()).status, 201);
      assert.equal(
        (await disk.broker.client.pop('q', { batch: 10 })).length,
        1,
        'only what came after the audit is left',
      );
    });
    if (!ran) context.skip('no right to mount a file system');
  });
});
