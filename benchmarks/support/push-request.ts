/**
 * A push request made once and patched in place: partition names, transactionIds, times and numbers have a fixed
 * width, so that sending another 1,000 messages costs a few thousand byte writes and no allocation.
 */
import { requestHead } from './raw-connection.ts';

export interface PushShape {
  readonly queue: string;
  /** Messages per request. */
  readonly items: number;
  /** Bytes of each payload's JSON text; at least `payloadBytesMin`. */
  readonly payloadBytes: number;
  /** False: no transactionId is sent, the broker mints one. */
  readonly withIds: boolean;
}

/** Payload without padding: `{"t":"…16…","n":"…10…","x":""}`. */
export const payloadBytesMin = 48;
export const partitionDigits = 8;
const timeDigits = 16;
const numberDigits = 10;
const idTextLength = 36;

/** Ids differ in the last 48 bits within a run and in the rest between runs. */
const runStart = Date.now().toString(16).padStart(12, '0');
const runSalt = Math.floor(Math.random() * 0xfff)
  .toString(16)
  .padStart(3, '0');
const idPrefix = `${runStart.slice(0, 8)}-${runStart.slice(8)}-7${runSalt}-8${runSalt}-`;
let nextId = 0;

export class PushRequest {
  /** The whole request. Not to be patched while it is on its way. */
  readonly bytes: Buffer;
  readonly items: number;
  readonly #partitionAt: Int32Array;
  readonly #idAt: Int32Array;
  readonly #timeAt: Int32Array;
  readonly #numberAt: Int32Array;

  constructor(shape: PushShape) {
    if (shape.payloadBytes < payloadBytesMin) throw new RangeError(`a payload has at least ${payloadBytesMin} bytes`);
    const { items } = shape;
    this.items = items;
    this.#partitionAt = new Int32Array(items);
    this.#idAt = new Int32Array(items);
    this.#timeAt = new Int32Array(items);
    this.#numberAt = new Int32Array(items);
    const padding = 'x'.repeat(shape.payloadBytes - payloadBytesMin);
    let body = '{"items":[';
    for (let i = 0; i < items; i++) {
      body += `${i === 0 ? '' : ','}{"queue":"${shape.queue}","partition":"p`;
      this.#partitionAt[i] = body.length;
      body += `${'0'.repeat(partitionDigits)}",`;
      if (shape.withIds) {
        body += '"transactionId":"';
        this.#idAt[i] = body.length;
        body += `${idPrefix}${'0'.repeat(idTextLength - idPrefix.length)}",`;
      }
      body += '"payload":{"t":"';
      this.#timeAt[i] = body.length;
      body += `${'0'.repeat(timeDigits)}","n":"`;
      this.#numberAt[i] = body.length;
      body += `${'0'.repeat(numberDigits)}","x":"${padding}"}}`;
    }
    body += ']}';
    const head = requestHead('POST', '/api/v1/push', body.length);
    this.bytes = Buffer.from(head + body, 'latin1');
    const columns = [this.#partitionAt, this.#timeAt, this.#numberAt, ...(shape.withIds ? [this.#idAt] : [])];
    for (const column of columns) for (let i = 0; i < items; i++) column[i] += head.length;
  }

  /** Makes item `i` a new message of a partition: a fresh id, the time in microseconds, and the caller's number. */
  set(i: number, partition: number, number: number, timeUs: number): void {
    writeDecimal(this.bytes, this.#partitionAt[i] + partitionDigits, partition, partitionDigits);
    writeDecimal(this.bytes, this.#timeAt[i] + timeDigits, timeUs, timeDigits);
    writeDecimal(this.bytes, this.#numberAt[i] + numberDigits, number, numberDigits);
    const idAt = this.#idAt[i];
    if (idAt > 0) writeHex(this.bytes, idAt + idTextLength, nextId++, idTextLength - idPrefix.length);
  }
}

/** A microsecond clock for times in payloads; only differences mean anything. */
export function clockUs(): number {
  return Math.round(performance.now() * 1000);
}

function writeDecimal(bytes: Buffer, end: number, value: number, digits: number): void {
  let rest = value;
  let at = end;
  // Behind the highest digit that changed everything is still zero only in a fresh request, so all are written.
  for (let i = 0; i < digits; i++) {
    const higher = Math.floor(rest / 10);
    bytes[--at] = 48 + (rest - higher * 10);
    rest = higher;
  }
}

function writeHex(bytes: Buffer, end: number, value: number, digits: number): void {
  let rest = value;
  let at = end;
  for (let i = 0; i < digits; i++) {
    const higher = Math.floor(rest / 16);
    const digit = rest - higher * 16;
    bytes[--at] = digit < 10 ? 48 + digit : 87 + digit;
    rest = higher;
  }
}
