/**
 * The body of a push, taken apart: which bytes are the queue, partition, transactionId and payload of each item.
 *
 * The whole body is validated as JSON. Payloads are the client's own bytes, never parsed and never written anew. As with
 * JSON.parse, the last of several properties of one name counts. The caller has checked that the body is valid UTF-8;
 * the budgets of names are the core's to check.
 */
import { limits } from '@lanemq/protocol';
import { type PushItems, pushHash, pushSlice } from '../core/mod.ts';
import type { Hasher } from './hasher.ts';
import { ascii, JsonError, JsonScanner } from './json-scanner.ts';
import { noText, PropertyNames, sameBytes, TextField, textOf } from './json-text.ts';
import { asciiBytes } from './json-writer.ts';

export type ScannedPush =
  | { readonly ok: true; readonly items: PushItems }
  /** `message` is for people and begins with `bad push body:`; where it can, it names the item and its byte position. */
  | { readonly ok: false; readonly message: string };

const stride = pushSlice.stride;
const itemDepth = 3;

/** The working array is dropped after a push of more items than this, so that one giant does not stay in memory. */
const keptItemsMax = 16_384;

const defaultPartition = asciiBytes('Default');

const bodyNames = new PropertyNames(['items']);
const itemNames = new PropertyNames(['queue', 'partition', 'transactionId', 'payload', 'delayMs', 'dueAt', 'headers']);
const property = { queue: 0, partition: 1, transactionId: 2, payload: 3, delayMs: 4, dueAt: 5, headers: 6 } as const;

/** Reads a text as a time, microseconds since 1970; undefined when it is none. */
export type TimeReader = (text: string) => number | undefined;

const noTimes: TimeReader = () => undefined;

class PushScan {
  private readonly scanner = new JsonScanner(limits.jsonDepthMax);
  private rows = new Int32Array(64 * stride);
  private count = 0;
  private readonly field = new TextField();
  /** Where the name `Default` was appended, or −1. */
  private defaultAt = -1;
  /** The first thing wrong with the shape of `items`. A later `items` property would replace it. */
  private refusal: string | null = null;
  /** Times that items wait for, as in PushItems; made when the first item has one. */
  private due: Float64Array | null = null;
  private readTime: TimeReader = noTimes;

  run(body: Uint8Array, readTime: TimeReader): ScannedPush {
    this.readTime = readTime;
    this.due = null;
    const scanner = this.scanner;
    scanner.open(body);
    this.count = 0;
    this.field.appended.reset();
    this.defaultAt = -1;
    this.refusal = 'it has no "items"';
    try {
      scanner.finish(this.top(scanner.space(0)));
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      this.refusal = error.message;
    }
    const result: ScannedPush =
      this.refusal === null
        ? { ok: true, items: this.items(body) }
        : { ok: false, message: `bad push body: ${this.refusal}` };
    scanner.close();
    if (this.rows.length > keptItemsMax * stride) this.rows = new Int32Array(64 * stride);
    return result;
  }

  private items(body: Uint8Array): PushItems {
    const count = this.count;
    const { appended } = this.field;
    let bytes = body;
    if (appended.length > 0) {
      bytes = new Uint8Array(body.length + appended.length);
      bytes.set(body);
      bytes.set(appended.bytes.subarray(0, appended.length), body.length);
    }
    return {
      bytes,
      count,
      slices: this.rows.slice(0, count * stride),
      hashes: new Uint32Array(count * pushHash.stride),
      due: this.due === null || this.due.length >= count ? this.due : withRoom(this.due, count),
    };
  }

  private top(at: number): number {
    const scanner = this.scanner;
    const { bytes, end } = scanner;
    if (at >= end || bytes[at] !== ascii.braceOpen) {
      this.refusal = 'it is not an object';
      return scanner.value(at, 0);
    }
    let p = scanner.enter(at, ascii.braceClose);
    if (p < 0) return -1 - p;
    for (;;) {
      const name = bodyNames.find(scanner, scanner.openName(p));
      p = scanner.colon(bodyNames.after);
      p = name === 0 ? this.list(p) : scanner.value(p, 1);
      p = scanner.nextProperty(p);
      if (p < 0) return -1 - p;
    }
  }

  private list(at: number): number {
    const scanner = this.scanner;
    const { bytes, end } = scanner;
    this.count = 0;
    this.refusal = null;
    this.due = null;
    if (at >= end || bytes[at] !== ascii.bracketOpen) {
      this.refusal = '"items" is not an array';
      return scanner.value(at, 1);
    }
    let p = scanner.enter(at, ascii.bracketClose);
    if (p < 0) return -1 - p;
    for (;;) {
      p = this.item(p);
      this.count++;
      p = scanner.nextElement(p);
      if (p < 0) return -1 - p;
    }
  }

  private item(at: number): number {
    const scanner = this.scanner;
    const { bytes, end } = scanner;
    const field = this.field;
    if (at >= end || bytes[at] !== ascii.braceOpen) {
      this.refuse(at, 'is not an object');
      return scanner.value(at, 2);
    }
    let queueStart: number = noText.missing;
    let queueEnd = 0;
    let partitionStart: number = noText.missing;
    let partitionEnd = 0;
    let idStart: number = noText.missing;
    let idEnd = 0;
    let payloadStart = -1;
    let payloadEnd = 0;
    let delayAt = -1;
    let delayEnd = 0;
    let dueAt = -1;
    let dueEnd = 0;
    let headersStart = 0;
    let headersEnd = 0;
    let p = scanner.enter(at, ascii.braceClose);
    while (p >= 0) {
      const name = itemNames.find(scanner, scanner.openName(p));
      p = scanner.colon(itemNames.after);
      switch (name) {
        case property.queue:
          p = field.read(scanner, p, itemDepth);
          queueStart = field.exactStart;
          queueEnd = field.end;
          break;
        case property.partition:
          p = field.read(scanner, p, itemDepth);
          partitionStart = field.exactStart;
          partitionEnd = field.end;
          break;
        case property.transactionId:
          p = field.read(scanner, p, itemDepth);
          idStart = field.exactStart;
          idEnd = field.end;
          break;
        case property.payload:
          payloadStart = p;
          p = scanner.value(p, itemDepth);
          payloadEnd = p;
          break;
        case property.delayMs:
          delayAt = p;
          p = scanner.value(p, itemDepth);
          delayEnd = p;
          break;
        case property.dueAt:
          dueAt = p;
          p = scanner.value(p, itemDepth);
          dueEnd = p;
          break;
        case property.headers:
          headersStart = p;
          p = scanner.value(p, itemDepth);
          headersEnd = p;
          break;
        default:
          p = scanner.value(p, itemDepth);
      }
      p = scanner.nextProperty(p);
    }
    p = -1 - p;
    if (queueStart < 0) this.refuseText(at, 'queue', queueStart);
    else if (queueStart === queueEnd) this.refuse(at, 'has an empty "queue"');
    if (payloadStart < 0) this.refuse(at, 'has no "payload"');
    if (partitionStart < noText.missing) {
      this.refuseText(at, 'partition', partitionStart);
    } else if (partitionStart < 0 || partitionStart === partitionEnd) {
      if (this.defaultAt < 0) this.appendDefault();
      partitionStart = this.defaultAt;
      partitionEnd = partitionStart + defaultPartition.length;
    }
    if (idStart < noText.missing) {
      this.refuseText(at, 'transactionId', idStart);
    } else if (idStart < 0 || idStart === idEnd) {
      // An empty id could not tell two messages apart: it counts as none.
      idStart = -1;
      idEnd = -1;
    } else if (idEnd - idStart > limits.transactionIdBytesMax) {
      this.refuse(at, `has a "transactionId" of more than ${limits.transactionIdBytesMax} bytes`);
    }
    if (delayAt >= 0 && dueAt >= 0) this.refuse(at, 'has both "delayMs" and "dueAt": send one of them');
    else if (delayAt >= 0) this.noteDue(this.delayOf(at, textOf(bytes, delayAt, delayEnd)));
    else if (dueAt >= 0) this.noteDue(this.timeOf(at, textOf(bytes, dueAt, dueEnd)));
    if (headersEnd > headersStart && !this.acceptsHeaders(at, bytes, headersStart, headersEnd))
      headersEnd = headersStart;
    const row = this.count * stride;
    if (row + stride > this.rows.length) this.growRows();
    const rows = this.rows;
    rows[row + pushSlice.queueStart] = queueStart;
    rows[row + pushSlice.queueEnd] = queueEnd;
    rows[row + pushSlice.partitionStart] = partitionStart;
    rows[row + pushSlice.partitionEnd] = partitionEnd;
    rows[row + pushSlice.idStart] = idStart;
    rows[row + pushSlice.idEnd] = idEnd;
    rows[row + pushSlice.payloadStart] = payloadStart;
    rows[row + pushSlice.payloadEnd] = payloadEnd;
    rows[row + pushSlice.headersStart] = headersStart;
    rows[row + pushSlice.headersEnd] = headersEnd;
    return p;
  }

  /** False when there are none to keep: `null`, no member, or refused. */
  private acceptsHeaders(at: number, bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start > limits.headersBytesMax) {
      this.refuse(at, `has "headers" of more than ${limits.headersBytesMax} bytes`);
      return false;
    }
    const headers: unknown = JSON.parse(textOf(bytes, start, end));
    if (headers === null) return false;
    if (typeof headers !== 'object' || Array.isArray(headers)) {
      this.refuse(at, 'has "headers" that are not an object');
      return false;
    }
    const values = Object.values(headers);
    if (values.every((value) => typeof value === 'string')) return values.length > 0;
    this.refuse(at, 'has "headers" with a value that is not a string');
    return false;
  }

  private noteDue(due: number): void {
    if (Number.isNaN(due)) return;
    let list = this.due;
    if (list === null || this.count >= list.length) {
      list = withRoom(list, Math.max(16, this.count * 2));
      this.due = list;
    }
    list[this.count] = due;
  }

  /** A delay in the form of PushItems; NaN when it is refused. */
  private delayOf(at: number, text: string): number {
    const delayMs = wholeNumber(text);
    if (delayMs >= 0) return -1 - delayMs * usPerMs;
    this.refuse(at, `has a "delayMs" that is not a whole number of milliseconds from 0 on: ${shown(text)}`);
    return Number.NaN;
  }

  private timeOf(at: number, text: string): number {
    const dueUs = text.startsWith('"') ? this.readTime(JSON.parse(text) as string) : wholeNumber(text) * usPerMs;
    // A time before 1970 is as past as any other; a number before it is more likely a delay that went wrong.
    if (dueUs !== undefined && (dueUs >= 0 || text.startsWith('"'))) return Math.max(dueUs, 0);
    this.refuse(at, `has a "dueAt" that is neither an ISO-8601 time nor milliseconds since 1970: ${shown(text)}`);
    return Number.NaN;
  }

  private appendDefault(): void {
    const { appended } = this.field;
    this.defaultAt = this.scanner.end + appended.length;
    appended.raw(defaultPartition);
  }

  private growRows(): void {
    const larger = new Int32Array(this.rows.length * 2);
    larger.set(this.rows);
    this.rows = larger;
  }

  private refuseText(at: number, name: string, why: number): void {
    if (why === noText.missing) this.refuse(at, `has no "${name}"`);
    else if (why === noText.wrongType) this.refuse(at, `has a "${name}" that is not a string`);
    else this.refuse(at, `has a "${name}" with half of a surrogate pair, which is not a character`);
  }

  private refuse(at: number, what: string): void {
    this.refusal ??= `item ${this.count} (at byte ${at}) ${what}`;
  }
}

const usPerMs = 1000;

/** The times with room for `count` of them; what is new has none. */
function withRoom(due: Float64Array | null, count: number): Float64Array {
  const larger = new Float64Array(count).fill(Number.NaN);
  if (due !== null) larger.set(due);
  return larger;
}

/** Texts that are shown back are cut. */
const shownLengthMax = 64;

function shown(text: string): string {
  return text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text;
}

/** The value of a JSON text that is a whole number; NaN when it is anything else. */
function wholeNumber(text: string): number {
  const value = /^-?\d/.test(text) ? Number(text) : Number.NaN;
  return Number.isInteger(value) ? value : value === Number.POSITIVE_INFINITY ? Number.MAX_VALUE : Number.NaN;
}

const scan = new PushScan();

/**
 * Takes a push body apart. Nothing is kept of it but `items.bytes`, which is the body itself, or a copy of it when text
 * had to be appended. `readTime` reads a `dueAt` that is a text. The arrays are made for this push and are the caller's; `hashes` is still empty.
 */
export function scanPushBody(body: Uint8Array, readTime: TimeReader = noTimes): ScannedPush {
  return scan.run(body, readTime);
}

/** Fills `items.hashes`: the hash of each item's partition name (the queue is no part of it) and of its transactionId. */
export function hashPushItems(items: PushItems, hasher: Hasher): void {
  const { bytes, slices, hashes, count } = items;
  let start = -1;
  let end = -1;
  let high = 0;
  let low = 0;
  for (let i = 0; i < count; i++) {
    const row = i * stride;
    const out = i * pushHash.stride;
    const nameStart = slices[row + pushSlice.partitionStart];
    const nameEnd = slices[row + pushSlice.partitionEnd];
    if (start < 0 || !sameBytes(bytes, nameStart, nameEnd, bytes, start, end)) {
      hasher.hash(bytes, nameStart, nameEnd);
      high = hasher.high;
      low = hasher.low;
    }
    start = nameStart;
    end = nameEnd;
    hashes[out + pushHash.partitionHigh] = high;
    hashes[out + pushHash.partitionLow] = low;
    const idStart = slices[row + pushSlice.idStart];
    if (idStart >= 0) {
      hasher.hash(bytes, idStart, slices[row + pushSlice.idEnd]);
      hashes[out + pushHash.idHigh] = hasher.high;
      hashes[out + pushHash.idLow] = hasher.low;
    } else {
      hashes[out + pushHash.idHigh] = 0;
      hashes[out + pushHash.idLow] = 0;
    }
  }
}
