/** Texts inside JSON: resolving escapes, comparing property names, and turning UTF-8 into strings. */
import { ascii, hexDigit, type JsonScanner } from './json-scanner.ts';
import { asciiBytes, ByteWriter } from './json-writer.ts';

/** What a backslash and a letter stand for; 0 where that is not one byte. */
const meaningOf = new Uint8Array(256);
meaningOf[ascii.quote] = ascii.quote;
meaningOf[ascii.backslash] = ascii.backslash;
meaningOf['/'.charCodeAt(0)] = '/'.charCodeAt(0);
meaningOf['b'.charCodeAt(0)] = 8;
meaningOf['f'.charCodeAt(0)] = 12;
meaningOf['n'.charCodeAt(0)] = ascii.lineFeed;
meaningOf['r'.charCodeAt(0)] = ascii.carriageReturn;
meaningOf['t'.charCodeAt(0)] = ascii.tab;

const replacement = 0xfffd;

// Without `ignoreBOM` the decoder would swallow U+FEFF at the beginning of a name.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** The string of the UTF-8 bytes [start, end). */
export function textOf(bytes: Uint8Array, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end));
}

function unit(bytes: Uint8Array, at: number): number {
  return (
    (hexDigit[bytes[at]] << 12) |
    (hexDigit[bytes[at + 1]] << 8) |
    (hexDigit[bytes[at + 2]] << 4) |
    hexDigit[bytes[at + 3]]
  );
}

/**
 * Appends the UTF-8 of the string body bytes[start, end) (without its quotes, accepted by a JsonScanner before).
 * An escaped half of a surrogate pair has no UTF-8: U+FFFD is written for it, and the result is false.
 */
export function resolveEscapes(bytes: Uint8Array, start: number, end: number, into: ByteWriter): boolean {
  let whole = true;
  let p = start;
  while (p < end) {
    let run = p;
    while (run < end && bytes[run] !== ascii.backslash) run++;
    into.copy(bytes, p, run);
    if (run >= end) break;
    p = run + 2;
    const letter = bytes[run + 1];
    if (letter !== ascii.lowerU) {
      into.byte(meaningOf[letter]);
      continue;
    }
    const first = unit(bytes, p);
    p += 4;
    if (first < 0xd800 || first > 0xdfff) {
      into.codePoint(first);
      continue;
    }
    if (first < 0xdc00 && p + 6 <= end && bytes[p] === ascii.backslash && bytes[p + 1] === ascii.lowerU) {
      const second = unit(bytes, p + 2);
      if (second >= 0xdc00 && second <= 0xdfff) {
        into.codePoint(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
        p += 6;
        continue;
      }
    }
    into.codePoint(replacement);
    whole = false;
  }
  return whole;
}

/** True when two slices, of equal or different arrays, hold the same bytes. */
export function sameBytes(
  a: Uint8Array,
  aStart: number,
  aEnd: number,
  b: Uint8Array,
  bStart: number,
  bEnd: number,
): boolean {
  const length = aEnd - aStart;
  if (length !== bEnd - bStart) return false;
  // From the back: names that differ mostly differ at their end.
  for (let i = length - 1; i >= 0; i--) {
    if (a[aStart + i] !== b[bStart + i]) return false;
  }
  return true;
}

/** The properties that a scanner looks for in an object, told apart by their position in the list. */
export class PropertyNames {
  /** After `find`: the position behind the name's closing quote. */
  after = 0;
  /** Each with its closing quote, so that one comparison finds the name and its end. */
  private readonly words: readonly Uint8Array[];
  /** Clients send the properties of all items in one order: the search begins behind the last one found. */
  private next = 0;
  private readonly unescaped = new ByteWriter(64);

  constructor(names: readonly string[]) {
    this.words = names.map((name) => asciiBytes(`${name}"`));
  }

  /** `at` is behind the opening quote. Returns the position of the name in the list, or −1. Throws JsonError. */
  find(scanner: JsonScanner, at: number): number {
    const { bytes, end } = scanner;
    const words = this.words;
    let candidate = this.next;
    for (let tries = words.length; tries > 0; tries--) {
      if (candidate >= words.length) candidate = 0;
      const word = words[candidate];
      if (startsWith(bytes, at, end, word)) {
        this.next = candidate + 1;
        this.after = at + word.length;
        return candidate;
      }
      candidate++;
    }
    const run = scanner.plain(at);
    this.after = scanner.string(run);
    return this.after === run + 1 ? -1 : this.findEscaped(bytes, at, this.after - 1);
  }

  private findEscaped(bytes: Uint8Array, start: number, end: number): number {
    const name = this.unescaped;
    name.reset();
    resolveEscapes(bytes, start, end, name);
    // A quote in the name itself must not be taken for the closing one: compare lengths, too.
    name.byte(ascii.quote);
    return this.words.findIndex((word) => sameBytes(name.bytes, 0, name.length, word, 0, word.length));
  }
}

function startsWith(bytes: Uint8Array, at: number, end: number, word: Uint8Array): boolean {
  if (at + word.length > end) return false;
  for (let i = 0; i < word.length; i++) {
    if (bytes[at + i] !== word[i]) return false;
  }
  return true;
}

/** Values of `TextField.start` when there is no text to point to. */
export const noText = { missing: -1, wrongType: -2, halfPair: -3 } as const;

/**
 * Reads values that should be strings. A text without escapes is left where it lies; one with escapes is resolved and
 * appended to `appended`, and its positions count on from the end of the body, as if `appended` lay behind it.
 */
export class TextField {
  /** First byte of the text, or `missing` for JSON null, or `wrongType`. */
  start: number = noText.missing;
  /** Position behind its last byte; 0 when there is no text. */
  end = 0;
  /** False when the text held half of a surrogate pair, in whose place there is U+FFFD now. */
  isExact = true;
  readonly appended = new ByteWriter(256);

  /** `start`, or `halfPair` when the text is not what was sent: for names and ids, which must not be altered. */
  get exactStart(): number {
    return this.isExact ? this.start : noText.halfPair;
  }

  /** `at` is the first byte of a value in an object at `depth`. Returns the position behind it. Throws JsonError. */
  read(scanner: JsonScanner, at: number, depth: number): number {
    const bytes = scanner.bytes;
    this.isExact = true;
    if (at < scanner.end && bytes[at] === ascii.quote) {
      const run = scanner.plain(at + 1);
      const after = scanner.string(run);
      this.start = at + 1;
      this.end = run;
      if (after !== run + 1) this.resolve(bytes, at + 1, after - 1, scanner.end);
      return after;
    }
    const after = scanner.value(at, depth);
    this.start = bytes[at] === ascii.lowerN ? noText.missing : noText.wrongType;
    this.end = 0;
    return after;
  }

  private resolve(bytes: Uint8Array, start: number, stop: number, end: number): void {
    this.start = end + this.appended.length;
    this.isExact = resolveEscapes(bytes, start, stop, this.appended);
    this.end = end + this.appended.length;
  }
}
