/**
 * Drives a log as the runtime does, and knows what must be in it: entry n holds one record whose bytes follow from n and
 * its length alone.
 */
import assert from 'node:assert/strict';
import { createHasher } from '../../../src/codec/hasher.ts';
import { SoloLog } from '../../../src/log/solo-log.ts';
import type { Disk, Scheduler } from '../../../src/ports/mod.ts';
import type { LogOptions } from '../../../src/storage/log-options.ts';
import { SystemScheduler } from '../../../src/system/system-scheduler.ts';

export const hasher = await createHasher(0, 0);

/** A record type that the log itself knows nothing about. */
const testRecordType = 200;

export const smallOptions: Partial<LogOptions> = {
  segmentBytes: 4096,
  slabBytes: 1024,
  tailBytes: 4096,
  coldBytes: 2048,
  coldPageBytes: 256,
  scanBytes: 512,
  zeroStepBytes: 1024,
};

export function openLog(
  disk: Disk,
  options: Partial<LogOptions> = smallOptions,
  scheduler: Scheduler = new SystemScheduler(),
): Promise<SoloLog> {
  return SoloLog.open({ disk, checksum: hasher, scheduler, options });
}

/** The body of the record in entry n. Never zero, so that lost bytes show. */
export function bodyOf(sequence: number, length: number): Uint8Array {
  const body = new Uint8Array(length);
  for (let i = 0; i < length; i++) body[i] = ((sequence * 31 + i * 7 + length) % 255) + 1;
  return body;
}

/** Where the record of an appended entry lies. */
export interface Appended {
  readonly sequence: number;
  readonly address: number;
  readonly length: number;
}

/** Fills and seals one entry, asking for room in pieces as the core's records do. */
export function append(log: SoloLog, bodyLength: number, pieceLength = 100): Appended {
  const { draft } = log;
  const body = bodyOf(log.nextSequence, bodyLength);
  draft.require(8);
  const address = draft.base + draft.position;
  draft.view.setUint32(draft.position, 8 + bodyLength, true);
  draft.view.setUint32(draft.position + 4, testRecordType | (1 << 8), true);
  draft.position += 8;
  for (let at = 0; at < bodyLength; at += pieceLength) {
    const piece = body.subarray(at, at + pieceLength);
    draft.require(piece.length);
    draft.bytes.set(piece, draft.position);
    draft.position += piece.length;
  }
  assert.equal(log.draftHasRecords, true);
  const stampUs = 1_000_000 + log.nextSequence;
  const sequence = log.seal({ stampUs, digest: log.nextSequence * 3, recordCount: 1 });
  return { sequence, address, length: 8 + bodyLength };
}

/** Resolves when the entry is durable; rejects when the log fails. Takes over the log's two callbacks. */
export function durable(log: SoloLog, sequence: number): Promise<void> {
  return new Promise((fulfil, reject) => {
    if (log.durableSequence >= sequence) fulfil();
    log.onDurable = (through) => {
      if (through >= sequence) fulfil();
    };
    log.onFailure = reject;
  });
}

/** Body lengths by sequence; −1 for the mark of a clean end. Checks everything that can be checked. */
export async function readAll(log: SoloLog, from?: number): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  let last = -1;
  await log.replay(from ?? log.segments()[0].base, (entry, bytes, view, start, end) => {
    assert.equal(end - start, entry.length - 64);
    assert.equal(entry.recordCount, 1);
    if (last >= 0) assert.equal(entry.sequence, last + 1);
    last = entry.sequence;
    const length = view.getUint32(start, true);
    assert.equal(length, end - start);
    if (bytes[start + 4] === testRecordType) {
      assert.equal(entry.digest, entry.sequence * 3);
      assert.deepEqual(bytes.slice(start + 8, end), bodyOf(entry.sequence, length - 8));
      found.set(entry.sequence, length - 8);
    } else {
      found.set(entry.sequence, -1);
    }
  });
  return found;
}

/** The bytes of an appended record, as they must read back. */
export function assertResident(log: SoloLog, appended: Appended): void {
  const found = log.resident(appended.address, appended.length);
  assert.ok(found, `entry ${appended.sequence} is in memory`);
  const body = found.bytes.slice(found.at + 8, found.at + appended.length);
  assert.deepEqual(body, bodyOf(appended.sequence, appended.length - 8));
  assert.equal(found.view.getUint32(found.at, true), appended.length);
}
