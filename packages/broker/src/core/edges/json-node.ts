/** JSON values whose numbers keep their digits: what edge tables take and give, where a double would lose some. */

export type JsonNode =
  | { readonly kind: 'string' | 'number' | 'boolean'; readonly text: string }
  | { readonly kind: 'null' }
  | { readonly kind: 'array'; readonly items: readonly JsonNode[] }
  /** Of members with one name the last counts. */
  | { readonly kind: 'object'; readonly members: ReadonlyMap<string, JsonNode> };

const space = /[ \t\n\r]*/y;
const literal = /-?\d[\d.eE+-]*|true|false|null/y;
const string = /"(?:[^"\\]|\\.)*"/y;

/** Reads text that is known to be valid JSON. */
export function readJsonNode(text: string): JsonNode {
  return new NodeReader(text).value();
}

class NodeReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += found.length;
    return found;
  }

  /** The character behind what is passed over; it is passed over too when it is one of those wanted. */
  #next(wanted: string): string {
    this.#match(space);
    const character = this.#text[this.#at] ?? '';
    if (wanted.includes(character)) this.#at++;
    return character;
  }

  value(): JsonNode {
    const first = this.#next('[{');
    if (first === '{') return { kind: 'object', members: this.#members() };
    if (first === '[') return { kind: 'array', items: this.#items() };
    if (first === '"') return { kind: 'string', text: JSON.parse(this.#match(string)) as string };
    const text = this.#match(literal);
    if (text === 'null') return { kind: 'null' };
    return { kind: text === 'true' || text === 'false' ? 'boolean' : 'number', text };
  }

  #members(): Map<string, JsonNode> {
    const members = new Map<string, JsonNode>();
    while (this.#next(',}') !== '}') {
      this.#match(space);
      const name = JSON.parse(this.#match(string)) as string;
      this.#next(':');
      members.set(name, this.value());
    }
    return members;
  }

  #items(): JsonNode[] {
    const items: JsonNode[] = [];
    while (this.#next(',]') !== ']') items.push(this.value());
    return items;
  }
}
