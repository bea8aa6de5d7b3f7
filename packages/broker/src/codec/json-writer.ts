/**
 * Builds JSON answers as bytes, without strings in between: constants are encoded once, texts are copied from where
 * they lie, numbers, ids and times are written digit by digit.
 *
 * The writer checks no grammar; it only guarantees that each piece is what its method says.
 */
import { type BrokerIdentity, idTextLength, writeId } from '../core/mod.ts';
import { ascii, notPlain } from './json-scanner.ts';

/** A writer keeps no larger buffer than this after `take` and `reset`. */
export const keptBytesMax = 1024 * 1024;

/**
 * Up to so many bytes a loop, at 1 to 2 ns per byte, beats `set`, which takes 18 ns for a whole array and 45 ns for a part
 * of one, however long (measured, Node 20).
 */
const loopWholeMax = 8;
const loopPartMax = 24;

/** From so many bytes on it pays to look at a source four bytes at a time, which needs a DataView of it. */
const fourAtATimeMin = 16;

const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

const hex = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0));

/** How a byte is written inside a string: 0 as it is, 1 as \u00XX, else a backslash and this letter. */
const escapeLetter = new Uint8Array(256).fill(1, 0, ascii.space);
escapeLetter[8] = 'b'.charCodeAt(0);
escapeLetter[ascii.tab] = 't'.charCodeAt(0);
escapeLetter[ascii.lineFeed] = 'n'.charCodeAt(0);
escapeLetter[12] = 'f'.charCodeAt(0);
escapeLetter[ascii.carriageReturn] = 'r'.charCodeAt(0);
escapeLetter[ascii.quote] = ascii.quote;
escapeLetter[ascii.backslash] = ascii.backslash;

/** The bytes of a text made of ASCII characters; for constants that are written often. */
export function asciiBytes(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => {
    const code = letter.charCodeAt(0);
    if (code > 127) throw new RangeError(`not ASCII: ${text}`);
    return code;
  });
}

/** A growing array of bytes. */
export class ByteWriter {
  /** The written bytes are [0, length). Replaced by a larger array when it is full: read it again after each call. */
  bytes: Uint8Array;
  length = 0;
  private readonly capacity: number;
  private view: DataView;
  /** The source that `jsonBytes` read last, and its view: it is mostly the same again. */
  private source: Uint8Array = noBytes;
  private sourceView: DataView = noView;
  /** The time whose text `timeText` holds, and its whole seconds. */
  private timeUs = -1;
  private timeSecond = -1;
  private readonly timeText = asciiBytes('1970-01-01T00:00:00.000000Z');

  /** @param capacity bytes to begin with. @param bytes the writer's own from now on; so many. */
  constructor(capacity = 4096, bytes: Uint8Array = new Uint8Array(capacity)) {
    this.capacity = capacity;
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Forgets what was written. */
  reset(): void {
    this.length = 0;
    this.source = noBytes;
    this.sourceView = noView;
    if (this.bytes.length > keptBytesMax) this.use(new Uint8Array(this.capacity));
  }

  /** Guarantees room for `count` bytes behind `length`. */
  ensure(count: number): void {
    if (this.length + count > this.bytes.length) this.grow(count);
  }

  /** What was written, as bytes that are the caller's own; the writer is empty afterwards. */
  take(): Uint8Array {
    // Handing a large buffer over is cheaper than copying it, unless it is mostly air.
    const isGiven = this.bytes.length > keptBytesMax && this.length * 2 > this.bytes.length;
    const taken = isGiven ? this.bytes.subarray(0, this.length) : this.bytes.slice(0, this.length);
    this.reset();
    return taken;
  }

  byte(value: number): void {
    this.ensure(1);
    this.bytes[this.length++] = value;
  }

  /** All of `source` as it is. */
  raw(source: Uint8Array): void {
    const count = source.length;
    this.ensure(count);
    const bytes = this.bytes;
    if (count <= loopWholeMax) {
      let p = this.length;
      for (let i = 0; i < count; i++) bytes[p++] = source[i];
    } else {
      bytes.set(source, this.length);
    }
    this.length += count;
  }

  /** source[start, end) as it is. */
  copy(source: Uint8Array, start: number, end: number): void {
    const count = end - start;
    this.ensure(count);
    const bytes = this.bytes;
    if (count <= loopPartMax) {
      let p = this.length;
      for (let i = start; i < end; i++) bytes[p++] = source[i];
    } else {
      // Not `source.subarray`: on the host's Buffer that is a slower function of its own.
      bytes.set(new Uint8Array(source.buffer, source.byteOffset + start, count), this.length);
    }
    this.length += count;
  }

  /** A non-negative integer below 2^53, in decimal digits. */
  integer(value: number): void {
    this.ensure(16);
    if (value < 10) {
      this.bytes[this.length++] = ascii.zero + value;
      return;
    }
    if (value < 1_000_000_000) {
      this.digits(value, digitCount(value));
      return;
    }
    const high = Math.floor(value / 1_000_000_000);
    this.digits(high, digitCount(high));
    this.digits(value - high * 1_000_000_000, 9);
  }

  /** A JSON string, quotes included, from the UTF-8 bytes source[start, end). */
  jsonBytes(source: Uint8Array, start: number, end: number): void {
    // Room for a clean text. Six times as much is needed only behind the first byte that is not.
    this.ensure(end - start + 2);
    const bytes = this.bytes;
    let p = this.length;
    let i = start;
    bytes[p++] = ascii.quote;
    if (end - start >= fourAtATimeMin) {
      const view = this.view;
      const sourceView = this.viewOf(source);
      for (const last = end - 4; i <= last; i += 4, p += 4) {
        const four = sourceView.getInt32(i, true);
        if (notPlain(four) !== 0) break;
        view.setInt32(p, four, true);
      }
    }
    for (; i < end; i++) {
      const c = source[i];
      if (escapeLetter[c] !== 0) {
        this.length = p;
        this.jsonBytesEscaped(source, i, end);
        return;
      }
      bytes[p++] = c;
    }
    bytes[p++] = ascii.quote;
    this.length = p;
  }

  private jsonBytesEscaped(source: Uint8Array, start: number, end: number): void {
    this.ensure((end - start) * 6 + 1);
    for (let i = start; i < end; i++) {
      const c = source[i];
      if (escapeLetter[c] === 0) this.bytes[this.length++] = c;
      else this.escaped(c);
    }
    this.bytes[this.length++] = ascii.quote;
  }

  /** A JSON string, quotes included. Half of a surrogate pair is written as an escape, as JSON.stringify does. */
  jsonText(text: string): void {
    this.ensure(text.length * 6 + 2);
    const bytes = this.bytes;
    bytes[this.length++] = ascii.quote;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit < 0x80) {
        if (escapeLetter[unit] === 0) bytes[this.length++] = unit;
        else this.escaped(unit);
      } else if (unit < 0xd800 || unit > 0xdfff) {
        this.codePoint(unit);
      } else {
        const next = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
        if (unit < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) {
          this.codePoint(0x1_0000 + ((unit - 0xd800) << 10) + (next - 0xdc00));
          i++;
        } else {
          this.unicodeEscape(unit);
        }
      }
    }
    bytes[this.length++] = ascii.quote;
  }

  /** The UTF-8 of a Unicode scalar value, unescaped. */
  codePoint(value: number): void {
    this.ensure(4);
    const bytes = this.bytes;
    let p = this.length;
    if (value < 0x80) {
      bytes[p++] = value;
    } else if (value < 0x800) {
      bytes[p++] = 0xc0 | (value >>> 6);
      bytes[p++] = 0x80 | (value & 63);
    } else if (value < 0x1_0000) {
      bytes[p++] = 0xe0 | (value >>> 12);
      bytes[p++] = 0x80 | ((value >>> 6) & 63);
      bytes[p++] = 0x80 | (value & 63);
    } else {
      bytes[p++] = 0xf0 | (value >>> 18);
      bytes[p++] = 0x80 | ((value >>> 12) & 63);
      bytes[p++] = 0x80 | ((value >>> 6) & 63);
      bytes[p++] = 0x80 | (value & 63);
    }
    this.length = p;
  }

  /** The 36 characters of an id, without quotes. */
  id(identity: BrokerIdentity, stampUs: number, number: number, index: number): void {
    this.ensure(idTextLength);
    this.length = writeId(this.bytes, this.length, identity, stampUs, number, index);
  }

  /** Microseconds since 1970, below 2^53, as `2026-10-02T09:14:03.512887Z`, without quotes. */
  timestamp(us: number): void {
    if (us !== this.timeUs) this.fillTime(us);
    this.raw(this.timeText);
  }

  private fillTime(us: number): void {
    const second = Math.floor(us / 1_000_000);
    if (second !== this.timeSecond) this.fillSecond(second);
    putDigits(this.timeText, 20, 6, us - second * 1_000_000);
    this.timeUs = us;
  }

  private fillSecond(second: number): void {
    const days = Math.floor(second / 86_400);
    const rest = second - days * 86_400;
    // Days are counted from 1 March of year 0 in eras of 400 years, so that the leap day is the last of its year.
    const sinceMarch = days + 719_468;
    const era = Math.floor(sinceMarch / 146_097);
    const dayOfEra = sinceMarch - era * 146_097;
    const yearOfEra = Math.floor(
      (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
    );
    const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
    const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
    const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
    const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
    const text = this.timeText;
    putDigits(text, 0, 4, year);
    putDigits(text, 5, 2, month);
    putDigits(text, 8, 2, dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1);
    putDigits(text, 11, 2, Math.floor(rest / 3600));
    putDigits(text, 14, 2, Math.floor(rest / 60) % 60);
    putDigits(text, 17, 2, rest % 60);
    this.timeSecond = second;
  }

  /** `value` below 2^31 with leading zeros to `count` digits; room must be there. */
  private digits(value: number, count: number): void {
    putDigits(this.bytes, this.length, count, value);
    this.length += count;
  }

  /** A byte that must not stand for itself in a string; room for six bytes must be there. */
  private escaped(code: number): void {
    const letter = escapeLetter[code];
    if (letter === 1) {
      this.unicodeEscape(code);
      return;
    }
    this.bytes[this.length++] = ascii.backslash;
    this.bytes[this.length++] = letter;
  }

  private unicodeEscape(unit: number): void {
    const bytes = this.bytes;
    let p = this.length;
    bytes[p++] = ascii.backslash;
    bytes[p++] = ascii.lowerU;
    bytes[p++] = hex[unit >>> 12];
    bytes[p++] = hex[(unit >>> 8) & 15];
    bytes[p++] = hex[(unit >>> 4) & 15];
    bytes[p++] = hex[unit & 15];
    this.length = p;
  }

  private viewOf(source: Uint8Array): DataView {
    if (source !== this.source) {
      this.source = source;
      this.sourceView = new DataView(source.buffer, source.byteOffset, source.length);
    }
    return this.sourceView;
  }

  private grow(count: number): void {
    const larger = new Uint8Array(Math.max(this.length + count, this.bytes.length * 2));
    larger.set(this.bytes.subarray(0, this.length));
    this.use(larger);
  }

  private use(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }
}

function putDigits(bytes: Uint8Array, at: number, count: number, value: number): void {
  let rest = value | 0;
  for (let p = at + count - 1; p >= at; p--) {
    const next = (rest / 10) | 0;
    bytes[p] = ascii.zero + rest - next * 10;
    rest = next;
  }
}

/** Decimal digits of an integer below 2^31. */
function digitCount(value: number): number {
  if (value < 10_000) return value < 100 ? (value < 10 ? 1 : 2) : value < 1000 ? 3 : 4;
  if (value < 1_000_000) return value < 100_000 ? 5 : 6;
  if (value < 100_000_000) return value < 10_000_000 ? 7 : 8;
  return value < 1_000_000_000 ? 9 : 10;
}
