/**
 * Query strings. Names and values are percent-decoded once and `+` is a space, as the clients' URL classes write them.
 * Readers throw `BadParameter` for a value of the wrong type; what is out of bounds is for the route to clamp or refuse.
 */

export class BadParameter extends Error {
  override readonly name = 'BadParameter';
}

/** Shown back in messages, so it is cut. */
const shownLengthMax = 64;

function shown(text: string): string {
  return JSON.stringify(text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text);
}

function decode(text: string, part: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new BadParameter(`${part} ${shown(text)} is not valid percent-encoding of UTF-8`);
  }
}

export class QueryParameters {
  readonly #values = new Map<string, string>();

  /** @param query what follows the `?`; throws BadParameter when it cannot be decoded or names something twice. */
  constructor(query: string) {
    let at = 0;
    while (at < query.length) {
      const ampersand = query.indexOf('&', at);
      const end = ampersand < 0 ? query.length : ampersand;
      if (end > at) this.#add(query.slice(at, end));
      at = end + 1;
    }
  }

  /** The value, or null when the parameter was not sent. */
  text(name: string): string | null {
    return this.#values.get(name) ?? null;
  }

  /** The same; an empty one counts as not sent. */
  name(name: string): string | null {
    return this.#values.get(name) || null;
  }

  /** Exactly `true` or `false`; false when not sent. */
  flag(name: string): boolean {
    const text = this.#values.get(name);
    if (text === undefined || text === 'false') return false;
    if (text === 'true') return true;
    throw new BadParameter(`${name} must be true or false, got ${shown(text)}`);
  }

  /** A whole number in decimal digits, or null when not sent. Beyond 2^53 it loses digits, not its size. */
  integer(name: string): number | null {
    const text = this.#values.get(name);
    if (text === undefined) return null;
    if (!/^[+-]?\d{1,40}$/.test(text)) throw new BadParameter(`${name} must be a whole number, got ${shown(text)}`);
    return Number(text);
  }

  #add(pair: string): void {
    const equals = pair.indexOf('=');
    const name = decode(equals < 0 ? pair : pair.slice(0, equals), 'parameter name');
    if (this.#values.has(name)) throw new BadParameter(`${shown(name)} is given twice`);
    this.#values.set(name, equals < 0 ? '' : decode(pair.slice(equals + 1), 'parameter value'));
  }
}
