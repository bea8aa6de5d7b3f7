/**
 * The body of an acknowledgement, taken apart. One object is one item; an object with a non-empty `acknowledgments`
 * array is as many items as the array has elements, whatever they are.
 *
 * Only a body that is no JSON object, or names its group in a way that cannot be a group, is refused. What is wrong with
 * a single item is left to be answered per item: an unusable partitionId becomes pid −1, an unusable transactionId the
 * empty one, an unusable leaseId −1 (it was sent, and is no lease of this broker).
 *
 * As with JSON.parse, the last of several properties of one name counts. The caller has checked that the body is UTF-8.
 */
import { limits } from '@lanemq/protocol';
import {
  type AckItems,
  type AckStatus,
  ackStatus,
  type BrokerIdentity,
  defaultGroup,
  type IdParts,
  idTextLength,
  parseId,
  partitionIdIndex,
} from '../core/mod.ts';
import type { Hasher } from './hasher.ts';
import { ascii, JsonError, JsonScanner } from './json-scanner.ts';
import { noText, PropertyNames, sameBytes, TextField, textOf } from './json-text.ts';
import { asciiBytes, ByteWriter } from './json-writer.ts';

export type ScannedAck =
  | { readonly ok: true; readonly group: string; readonly items: AckItems }
  /** `message` is for people and begins with `bad ack body:`. */
  | { readonly ok: false; readonly message: string };

/** The working arrays are dropped after an ack of more items than this, so that one giant does not stay in memory. */
const keptItemsMax = 16_384;
const firstItems = 64;

const names = new PropertyNames([
  'transactionId',
  'partitionId',
  'leaseId',
  'status',
  'error',
  'consumerGroup',
  'acknowledgments',
]);
const property = {
  transactionId: 0,
  partitionId: 1,
  leaseId: 2,
  status: 3,
  error: 4,
  consumerGroup: 5,
  acknowledgments: 6,
} as const;

const statusWords = [
  { word: asciiBytes('completed'), status: ackStatus.completed },
  { word: asciiBytes('failed'), status: ackStatus.failed },
  { word: asciiBytes('retry'), status: ackStatus.retry },
  { word: asciiBytes('dlq'), status: ackStatus.dlq },
] as const;

/** One item while it is read. Texts are positions in the body, or behind it in what was appended. */
interface OpenItem {
  idStart: number;
  idEnd: number;
  pid: number;
  leaseStamp: number;
  status: AckStatus;
  errorStart: number;
  errorEnd: number;
}

function openItem(): OpenItem {
  return { idStart: -1, idEnd: 0, pid: -1, leaseStamp: 0, status: ackStatus.completed, errorStart: -1, errorEnd: 0 };
}

function clearItem(item: OpenItem): void {
  item.idStart = -1;
  item.idEnd = 0;
  item.pid = -1;
  item.leaseStamp = 0;
  item.status = ackStatus.completed;
  item.errorStart = -1;
  item.errorEnd = 0;
}

const noIdentity: BrokerIdentity = { saltHigh: 0, saltLow: 0, seedHigh: 0, seedLow: 0 };

class AckScan {
  private readonly scanner = new JsonScanner(limits.jsonDepthMax);
  private identity: BrokerIdentity = noIdentity;
  private readonly field = new TextField();
  private readonly outer = openItem();
  private readonly inner = openItem();
  private groupStart = -1;
  private groupEnd = 0;
  /** The last group named, as text and as bytes: it is mostly the same again, and decoding it costs as much as an item. */
  private group = '';
  private groupBytes: Uint8Array = new Uint8Array(0);

  private count = 0;
  private readonly ids = new ByteWriter(4096);
  private ends = new Int32Array(firstItems + 1);
  private pids = new Float64Array(firstItems);
  private leaseStamps = new Float64Array(firstItems);
  private statuses = new Uint8Array(firstItems);
  private errors: (string | null)[] = [];

  /** The items of one batch mostly carry one lease: the last one read, and what it is. */
  private leaseStart = -1;
  private leaseEnd = -1;
  private leaseStamp = 0;
  private readonly parts: IdParts = { stampUs: 0, number: 0, index: 0 };

  run(body: Uint8Array, identity: BrokerIdentity): ScannedAck {
    this.scanner.open(body);
    this.identity = identity;
    this.field.appended.reset();
    this.groupStart = noText.missing;
    this.leaseStart = -1;
    clearItem(this.outer);
    this.clearItems();
    const result = this.scan();
    this.scanner.close();
    this.clearItems();
    if (this.pids.length > keptItemsMax) this.allocate(firstItems);
    return result;
  }

  private scan(): ScannedAck {
    const scanner = this.scanner;
    const { bytes, end } = scanner;
    try {
      const at = scanner.space(0);
      const isObject = at < end && bytes[at] === ascii.braceOpen;
      scanner.finish(isObject ? this.object(at, this.outer, 1) : scanner.value(at, 0));
      if (!isObject) return { ok: false, message: 'bad ack body: it is not an object' };
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      return { ok: false, message: `bad ack body: ${error.message}` };
    }
    if (this.groupStart < noText.missing) {
      const why = this.groupStart === noText.wrongType ? 'is not a string' : 'holds half of a surrogate pair';
      return { ok: false, message: `bad ack body: "consumerGroup" ${why}` };
    }
    const isNamed = this.groupStart >= 0 && this.groupEnd > this.groupStart;
    const group = isNamed ? this.groupText() : defaultGroup;
    if (this.count === 0) this.close(this.outer);
    return { ok: true, group, items: this.items() };
  }

  private items(): AckItems {
    const count = this.count;
    return {
      count,
      bytes: this.ids.take(),
      ends: this.ends.slice(0, count + 1),
      hashes: new Uint32Array(count * 2),
      pids: this.pids.slice(0, count),
      leaseStamps: this.leaseStamps.slice(0, count),
      statuses: this.statuses.slice(0, count),
      errors: this.errors,
    };
  }

  /** `at` is the brace of an object whose properties are those of an item; the outermost (depth 1) has two more. */
  private object(at: number, item: OpenItem, depth: number): number {
    const scanner = this.scanner;
    const field = this.field;
    let p = scanner.enter(at, ascii.braceClose);
    while (p >= 0) {
      const name = names.find(scanner, scanner.openName(p));
      p = scanner.colon(names.after);
      if (name >= 0 && name <= property.error) {
        p = field.read(scanner, p, depth);
        this.assign(name, item);
      } else if (name === property.consumerGroup && depth === 1) {
        p = field.read(scanner, p, depth);
        this.groupStart = field.exactStart;
        this.groupEnd = field.end;
      } else if (name === property.acknowledgments && depth === 1) {
        p = this.list(p);
      } else {
        p = scanner.value(p, depth);
      }
      p = scanner.nextProperty(p);
    }
    return -1 - p;
  }

  private list(at: number): number {
    const scanner = this.scanner;
    const { bytes, end } = scanner;
    this.clearItems();
    if (at >= end || bytes[at] !== ascii.bracketOpen) return scanner.value(at, 1);
    let p = scanner.enter(at, ascii.bracketClose);
    while (p >= 0) {
      clearItem(this.inner);
      const isObject = p < end && bytes[p] === ascii.braceOpen;
      p = isObject ? this.object(p, this.inner, 3) : scanner.value(p, 2);
      this.close(this.inner);
      p = scanner.nextElement(p);
    }
    return -1 - p;
  }

  /** Takes the text just read as the property `name` of the item. */
  private assign(name: number, item: OpenItem): void {
    const { start, end } = this.field;
    switch (name) {
      case property.transactionId:
        item.idStart = this.field.exactStart;
        item.idEnd = end;
        break;
      case property.partitionId:
        item.pid = start < 0 ? -1 : this.partition(start, end);
        break;
      case property.leaseId:
        item.leaseStamp = start === noText.missing || start === end ? 0 : start < 0 ? -1 : this.lease(start, end);
        break;
      case property.status:
        item.status = start < 0 ? ackStatus.completed : this.status(start, end);
        break;
      default:
        item.errorStart = start;
        item.errorEnd = end;
    }
  }

  private close(item: OpenItem): void {
    if (this.count >= this.pids.length) this.allocate(this.count * 2);
    const i = this.count++;
    if (item.idStart >= 0)
      this.ids.copy(this.bytesAt(item.idStart), this.offset(item.idStart), this.offset(item.idEnd));
    this.ends[i + 1] = this.ids.length;
    this.pids[i] = item.pid;
    this.leaseStamps[i] = item.leaseStamp;
    this.statuses[i] = item.status;
    this.errors.push(this.errorText(item.errorStart, item.errorEnd));
  }

  /** Null when there is none; cut at a character when it is longer than the limit. */
  private errorText(start: number, end: number): string | null {
    if (start < 0) return null;
    const bytes = this.bytesAt(start);
    const from = this.offset(start);
    let to = this.offset(end);
    if (to - from > limits.errorTextBytesMax) {
      to = from + limits.errorTextBytesMax;
      // Bytes 10xxxxxx go on with a character that began before them.
      while (to > from && (bytes[to] & 0xc0) === 0x80) to--;
    }
    return textOf(bytes, from, to);
  }

  /** A partition's number in decimal, or its UUID as lists of partitions and messages show it. */
  private partition(start: number, end: number): number {
    if (end - start === idTextLength) {
      const { parts } = this;
      const from = this.offset(start);
      const isId = parseId(this.identity, this.bytesAt(start), from, from + idTextLength, parts);
      return isId && parts.index === partitionIdIndex ? parts.number : -1;
    }
    return this.decimal(start, end);
  }

  private decimal(start: number, end: number): number {
    if (start === end) return -1;
    const bytes = this.bytesAt(start);
    const to = this.offset(end);
    let value = 0;
    for (let p = this.offset(start); p < to; p++) {
      const digit = bytes[p] - ascii.zero;
      if (digit < 0 || digit > 9) return -1;
      value = value * 10 + digit;
      if (value > Number.MAX_SAFE_INTEGER) return -1;
    }
    return value;
  }

  private lease(start: number, end: number): number {
    const body = this.scanner.bytes;
    if (start >= body.length) return this.parseLease(this.field.appended.bytes, this.offset(start), this.offset(end));
    if (this.leaseStart >= 0 && sameBytes(body, start, end, body, this.leaseStart, this.leaseEnd))
      return this.leaseStamp;
    this.leaseStart = start;
    this.leaseEnd = end;
    this.leaseStamp = this.parseLease(body, start, end);
    return this.leaseStamp;
  }

  private parseLease(bytes: Uint8Array, start: number, end: number): number {
    const parts = this.parts;
    if (!parseId(this.identity, bytes, start, end, parts)) return -1;
    if (parts.number !== 0 || parts.index !== 0) return -1;
    // Stamp 0 would read as "no lease was sent", and one beyond 2^53 is not the exact stamp of any lease.
    return parts.stampUs > 0 && parts.stampUs <= Number.MAX_SAFE_INTEGER ? parts.stampUs : -1;
  }

  private status(start: number, end: number): AckStatus {
    const bytes = this.bytesAt(start);
    const from = this.offset(start);
    for (const { word, status } of statusWords) {
      if (word.length === end - start && equalsIgnoringCase(bytes, from, word)) return status;
    }
    return ackStatus.completed;
  }

  private groupText(): string {
    const bytes = this.bytesAt(this.groupStart);
    const from = this.offset(this.groupStart);
    const to = this.offset(this.groupEnd);
    if (!sameBytes(bytes, from, to, this.groupBytes, 0, this.groupBytes.length)) {
      this.group = textOf(bytes, from, to);
      // Not `bytes.slice`: on the host's Buffer that would be a view of the body.
      this.groupBytes = new Uint8Array(bytes.subarray(from, to));
    }
    return this.group;
  }

  /** Positions at or behind the end of the body are positions in what was appended. */
  private bytesAt(start: number): Uint8Array {
    return start < this.scanner.end ? this.scanner.bytes : this.field.appended.bytes;
  }

  private offset(position: number): number {
    return position < this.scanner.end ? position : position - this.scanner.end;
  }

  private clearItems(): void {
    this.count = 0;
    this.ids.reset();
    // The last answer's errors belong to whoever got them.
    this.errors = [];
  }

  private allocate(size: number): void {
    const kept = Math.min(this.count, size);
    const { ends, pids, leaseStamps, statuses } = this;
    this.ends = new Int32Array(size + 1);
    this.pids = new Float64Array(size);
    this.leaseStamps = new Float64Array(size);
    this.statuses = new Uint8Array(size);
    this.ends.set(ends.subarray(0, kept + 1));
    this.pids.set(pids.subarray(0, kept));
    this.leaseStamps.set(leaseStamps.subarray(0, kept));
    this.statuses.set(statuses.subarray(0, kept));
  }
}

/** `word` is in lower-case letters. */
function equalsIgnoringCase(bytes: Uint8Array, at: number, word: Uint8Array): boolean {
  for (let i = 0; i < word.length; i++) {
    const c = bytes[at + i];
    if ((c >= 65 && c <= 90 ? c | 0x20 : c) !== word[i]) return false;
  }
  return true;
}

const scan = new AckScan();

/**
 * Takes an ack body apart. The arrays are made for this call and are the caller's; nothing is kept of the body.
 * `items.hashes` is still empty.
 */
export function scanAckBody(body: Uint8Array, identity: BrokerIdentity): ScannedAck {
  return scan.run(body, identity);
}

/** Fills `items.hashes` with the keyed hashes of the transactionIds; both halves 0 where the item has none. */
export function hashAckItems(items: AckItems, hasher: Hasher): void {
  const { bytes, ends, hashes, count } = items;
  for (let i = 0; i < count; i++) {
    if (ends[i] === ends[i + 1]) {
      hashes[2 * i] = 0;
      hashes[2 * i + 1] = 0;
      continue;
    }
    hasher.hash(bytes, ends[i], ends[i + 1]);
    hashes[2 * i] = hasher.high;
    hashes[2 * i + 1] = hasher.low;
  }
}
