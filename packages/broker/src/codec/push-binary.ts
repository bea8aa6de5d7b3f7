/**
 * The binary body of a push, as the client queen-mq sends it when its option `binary_push` is on. Seen on the wire of its
 * release 2.6.0 for Python; all integers little-endian:
 *
 *   "QPB1" | u8 flags | u32 groups
 *   per group: u16 n, queue | u16 n, partition | u32 items
 *   per item:  [u16 n, transactionId, with flag 4; empty: none] | u32 n, payload: one JSON text
 *
 * Flags 1 (zstd), 2 (an answer with counts only) and 8 (records framed by the client) are refused: their sender has to use
 * JSON. Texts and payloads are taken where they lie; nothing is copied but the name of the default partition.
 */
import { limits } from '@lanemq/protocol';
import { pushHash, pushSlice } from '../core/mod.ts';
import { checkJson } from './json-scanner.ts';
import { asciiBytes } from './json-writer.ts';
import type { ScannedPush } from './push-items.ts';

const magic = asciiBytes('QPB1');
const headerBytes = 9;
const transactionIds = 4;
const defaultPartition = asciiBytes('Default');

/** True for a body of this form. No JSON text begins so. */
export function isBinaryPush(body: Uint8Array): boolean {
  return body.length >= headerBytes && magic.every((byte, i) => body[i] === byte);
}

/** A refusal, with its text. */
class Refused extends Error {}

/** Takes a body apart. `isUtf8` judges names and ids; payloads are judged with them. */
export function scanBinaryPush(body: Uint8Array, isUtf8: (bytes: Uint8Array) => boolean): ScannedPush {
  try {
    return new BinaryScan(body, isUtf8).run();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { ok: false, message: `bad push body: ${error.message}` };
  }
}

class BinaryScan {
  private readonly body: Uint8Array;
  private readonly view: DataView;
  private readonly isUtf8: (bytes: Uint8Array) => boolean;
  private at = headerBytes;
  private count = 0;
  private rows = new Int32Array(64 * pushSlice.stride);
  private usesDefault = false;

  constructor(body: Uint8Array, isUtf8: (bytes: Uint8Array) => boolean) {
    this.body = body;
    this.view = new DataView(body.buffer, body.byteOffset, body.length);
    this.isUtf8 = isUtf8;
  }

  run(): ScannedPush {
    const flags = this.body[4];
    if ((flags & ~transactionIds) !== 0) {
      throw new Refused(`this binary form (flags ${flags}) is not read here: send JSON, or leave compression off`);
    }
    const groups = this.view.getUint32(5, true);
    for (let i = 0; i < groups; i++) this.group((flags & transactionIds) !== 0);
    if (this.at !== this.body.length) throw new Refused('there are bytes behind the last group');
    const { count } = this;
    let bytes = this.body;
    if (this.usesDefault) {
      bytes = new Uint8Array(this.body.length + defaultPartition.length);
      bytes.set(this.body);
      bytes.set(defaultPartition, this.body.length);
    }
    const slices = this.rows.slice(0, count * pushSlice.stride);
    const hashes = new Uint32Array(count * pushHash.stride);
    return { ok: true, items: { bytes, count, slices, hashes, due: null } };
  }

  private group(hasIds: boolean): void {
    const [queueStart, queueEnd] = this.text('queue');
    if (queueStart === queueEnd) throw new Refused(`item ${this.count} has an empty "queue"`);
    let [partitionStart, partitionEnd] = this.text('partition');
    if (partitionStart === partitionEnd) {
      this.usesDefault = true;
      partitionStart = this.body.length;
      partitionEnd = partitionStart + defaultPartition.length;
    }
    const items = this.u32();
    for (let i = 0; i < items; i++) {
      let idStart = -1;
      let idEnd = -1;
      if (hasIds) [idStart, idEnd] = this.text('transactionId');
      const [payloadStart, payloadEnd] = this.payload();
      const row = this.row();
      const { rows } = this;
      rows[row + pushSlice.queueStart] = queueStart;
      rows[row + pushSlice.queueEnd] = queueEnd;
      rows[row + pushSlice.partitionStart] = partitionStart;
      rows[row + pushSlice.partitionEnd] = partitionEnd;
      rows[row + pushSlice.idStart] = idStart === idEnd ? -1 : idStart;
      rows[row + pushSlice.idEnd] = idStart === idEnd ? -1 : idEnd;
      rows[row + pushSlice.payloadStart] = payloadStart;
      rows[row + pushSlice.payloadEnd] = payloadEnd;
    }
  }

  /** The row of the next item. */
  private row(): number {
    if (this.count >= limits.binaryPushItemsMax) {
      throw new Refused(`it has more than ${limits.binaryPushItemsMax} items`);
    }
    const row = this.count * pushSlice.stride;
    this.count += 1;
    if (row + pushSlice.stride > this.rows.length) {
      const larger = new Int32Array(this.rows.length * 2);
      larger.set(this.rows);
      this.rows = larger;
    }
    return row;
  }

  private text(name: string): [start: number, end: number] {
    const [start, end] = this.piece(this.u16());
    if (this.isUtf8(this.body.subarray(start, end))) return [start, end];
    throw new Refused(`item ${this.count} has a "${name}" that is not UTF-8`);
  }

  private payload(): [start: number, end: number] {
    const [start, end] = this.piece(this.u32());
    const bytes = this.body.subarray(start, end);
    if (!this.isUtf8(bytes)) throw new Refused(`the payload of item ${this.count} is not UTF-8`);
    const fault = checkJson(bytes, limits.jsonDepthMax);
    if (fault !== undefined) throw new Refused(`the payload of item ${this.count} is not JSON: ${fault.message}`);
    return [start, end];
  }

  private u16(): number {
    const [start] = this.piece(2);
    return this.view.getUint16(start, true);
  }

  private u32(): number {
    const [start] = this.piece(4);
    return this.view.getUint32(start, true);
  }

  private piece(length: number): [start: number, end: number] {
    const start = this.at;
    const end = start + length;
    if (end > this.body.length) throw new Refused(`it ends inside of item ${this.count}`);
    this.at = end;
    return [start, end];
  }
}
