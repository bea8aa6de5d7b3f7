/**
 * The body of an enqueue, taken apart. The whole body is validated as JSON; values stay the client's own bytes, and seq is
 * read digit by digit, so that neither passes through a double. The last of several members of one name counts.
 */
import type { EdgeItems } from '../core/mod.ts';
import type { Hasher } from './hasher.ts';
import { ascii, JsonError, JsonScanner } from './json-scanner.ts';
import { noText, PropertyNames, TextField, textOf } from './json-text.ts';

export interface EnqueueLimits {
  readonly jsonDepthMax: number;
  readonly messagesMax: number;
  readonly valueBytesMax: number;
  readonly dedupIdLengthMax: number;
  /** A seq may also be a string of its digits. */
  readonly seqMayBeString: boolean;
}

export type ScannedEnqueue =
  | { readonly ok: true; readonly items: EdgeItems }
  | { readonly ok: false; readonly isTooLarge: boolean; readonly message: string };

const bodyNames = new PropertyNames(['messages']);
const itemNames = new PropertyNames(['key', 'seq', 'value', 'dedupId']);
const field = new TextField();
const encoder = new TextEncoder();
const two32 = 0x1_0000_0000;

/**
 * Reads `-?[0-9]{1,19}` at bytes[start, end) into the halves of a row: the high one with its sign bit flipped, the low one.
 * False when it is anything else, or outside 64 bits.
 */
export function readSeq(bytes: Uint8Array, start: number, end: number, into: Uint32Array, at: number): boolean {
  const isNegative = bytes[start] === ascii.minus;
  const first = isNegative ? start + 1 : start;
  if (end <= first || end - first > 19) return false;
  let high = 0;
  let low = 0;
  for (let p = first; p < end; p++) {
    const digit = bytes[p] - ascii.zero;
    if (digit < 0 || digit > 9) return false;
    low = low * 10 + digit;
    const carry = Math.floor(low / two32);
    low -= carry * two32;
    high = high * 10 + carry;
  }
  if (high > 0x8000_0000 || (high === 0x8000_0000 && (!isNegative || low > 0))) return false;
  if (isNegative) {
    low = (two32 - low) % two32;
    high = (two32 - high - (low === 0 ? 0 : 1)) % two32;
  }
  into[at] = high ^ 0x8000_0000;
  into[at + 1] = low;
  return true;
}

/** The decimal digits of the halves of a row. */
export function seqText(high: number, low: number): string {
  return String((BigInt(high ^ 0x8000_0000) << 32n) | BigInt(low));
}

/** Why a body is refused. */
class BadMessage {
  readonly message: string;
  readonly isTooLarge: boolean;
  constructor(message: string, isTooLarge = false) {
    this.message = message;
    this.isTooLarge = isTooLarge;
  }
}

class EnqueueScan {
  readonly #scanner: JsonScanner;
  readonly #limits: EnqueueLimits;
  readonly #hasher: Hasher;
  readonly #values: Int32Array;
  readonly #seqs: Uint32Array;
  readonly #keyHashes: Int32Array;
  #dedupIds: (string | null)[] | null = null;
  #count = -1;
  #refusal: BadMessage | null = null;

  constructor(limits: EnqueueLimits, hasher: Hasher) {
    this.#limits = limits;
    this.#hasher = hasher;
    this.#scanner = new JsonScanner(limits.jsonDepthMax);
    this.#values = new Int32Array(limits.messagesMax * 2);
    this.#seqs = new Uint32Array(limits.messagesMax * 2);
    this.#keyHashes = new Int32Array(limits.messagesMax);
  }

  run(body: Uint8Array): ScannedEnqueue {
    const scanner = this.#scanner;
    scanner.open(body);
    try {
      scanner.finish(this.#top(scanner.space(0)));
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      return { ok: false, isTooLarge: false, message: error.message };
    }
    if (this.#refusal !== null) {
      return { ok: false, isTooLarge: this.#refusal.isTooLarge, message: this.#refusal.message };
    }
    const count = this.#count;
    if (count < 0) return { ok: false, isTooLarge: false, message: 'messages must be an array' };
    return {
      ok: true,
      items: {
        bytes: body,
        count,
        values: this.#values.subarray(0, count * 2),
        seqs: this.#seqs.subarray(0, count * 2),
        keyHashes: this.#keyHashes.subarray(0, count),
        dedupIds: this.#dedupIds,
      },
    };
  }

  #top(at: number): number {
    const scanner = this.#scanner;
    if (scanner.bytes[at] !== ascii.braceOpen) return scanner.value(at, 0);
    let p = scanner.enter(at, ascii.braceClose);
    while (p >= 0) {
      const name = bodyNames.find(scanner, scanner.openName(p));
      p = scanner.colon(bodyNames.after);
      p = scanner.nextProperty(name === 0 ? this.#list(p) : scanner.value(p, 1));
    }
    return -1 - p;
  }

  #list(at: number): number {
    const scanner = this.#scanner;
    this.#count = -1;
    this.#dedupIds = null;
    this.#refusal = null;
    if (scanner.bytes[at] !== ascii.bracketOpen) return scanner.value(at, 1);
    this.#count = 0;
    let p = scanner.enter(at, ascii.bracketClose);
    while (p >= 0) {
      if (this.#count >= this.#limits.messagesMax) {
        this.#refuse(`more than ${this.#limits.messagesMax} messages in one request`, true);
      }
      p = scanner.nextElement(this.#refusal === null ? this.#message(p) : scanner.value(p, 2));
    }
    return -1 - p;
  }

  #message(at: number): number {
    const scanner = this.#scanner;
    const { bytes } = scanner;
    const number = this.#count++;
    if (bytes[at] !== ascii.braceOpen) {
      this.#refuse(`messages[${number}] is not an object`);
      return scanner.value(at, 2);
    }
    let hasKey = false;
    let hasSeq = false;
    let valueStart = 0;
    let valueEnd = 0;
    let p = scanner.enter(at, ascii.braceClose);
    while (p >= 0) {
      const name = itemNames.find(scanner, scanner.openName(p));
      p = scanner.colon(itemNames.after);
      const start = p;
      if (name === 0) {
        field.appended.reset();
        p = field.read(scanner, p, 3);
        hasKey = field.start >= 0;
        if (hasKey) this.#keyHashes[number] = this.#hashKey(start, p);
        else if (field.start === noText.wrongType) this.#refuse(`messages[${number}].key must be a string`);
      } else {
        p = scanner.value(p, 3);
        if (name === 1) hasSeq = this.#seq(start, p, number);
        else if (name === 3) this.#dedupId(start, p, number);
        else if (name === 2) {
          valueStart = start;
          valueEnd = p;
        }
      }
      p = scanner.nextProperty(p);
    }
    if (!hasKey) this.#refuse(`messages[${number}].key is missing`);
    if (!hasSeq) this.#refuse(`messages[${number}].seq must be an integer of 64 bits, written as digits only`);
    if (valueEnd - valueStart > this.#limits.valueBytesMax) {
      this.#refuse(`messages[${number}].value has more than ${this.#limits.valueBytesMax} bytes`, true);
    }
    this.#values[number * 2] = valueStart;
    this.#values[number * 2 + 1] = valueEnd;
    return -1 - p;
  }

  #seq(start: number, end: number, number: number): boolean {
    const isString = this.#limits.seqMayBeString && this.#scanner.bytes[start] === ascii.quote;
    const quotes = isString ? 1 : 0;
    return readSeq(this.#scanner.bytes, start + quotes, end - quotes, this.#seqs, number * 2);
  }

  #dedupId(start: number, end: number, number: number): void {
    const id: unknown = JSON.parse(textOf(this.#scanner.bytes, start, end));
    const { dedupIdLengthMax } = this.#limits;
    if (id === null) {
      if (this.#dedupIds !== null) this.#dedupIds[number] = null;
    } else if (typeof id !== 'string' || id === '' || id.length > dedupIdLengthMax) {
      this.#refuse(`messages[${number}].dedupId must be a string of 1..${dedupIdLengthMax} characters`);
    } else if (/\p{Surrogate}/u.test(id)) {
      // UTF-8 has no such thing: two ids could become one, and the message of the second would be dropped.
      this.#refuse(`messages[${number}].dedupId has half of a surrogate pair`);
    } else {
      this.#dedupIds ??= [];
      while (this.#dedupIds.length < number) this.#dedupIds.push(null);
      this.#dedupIds[number] = id;
    }
  }

  /** The hash of the key just read, which lies with its quotes at [start, end) of the body. */
  #hashKey(start: number, end: number): number {
    const { bytes, end: bodyEnd } = this.#scanner;
    if (!field.isExact) {
      // Half of a surrogate pair counts as a question mark.
      const text = (JSON.parse(textOf(bytes, start, end)) as string).replace(/\p{Surrogate}/gu, '?');
      const utf8 = encoder.encode(text);
      return this.#hasher.hash32(utf8, 0, utf8.length);
    }
    if (field.start < bodyEnd) return this.#hasher.hash32(bytes, field.start, field.end);
    return this.#hasher.hash32(field.appended.bytes, field.start - bodyEnd, field.end - bodyEnd);
  }

  #refuse(message: string, isTooLarge = false): void {
    this.#refusal ??= new BadMessage(message, isTooLarge);
  }
}

/** Takes the body of an enqueue apart. `items.bytes` is the body itself. */
export function scanEnqueueBody(body: Uint8Array, limits: EnqueueLimits, hasher: Hasher): ScannedEnqueue {
  return new EnqueueScan(limits, hasher).run(body);
}
