/** JSON values whose numbers keep their digits: what edge tables take and give, where a double would lose some. */

export type JsonNode =
  | { readonly kind: 'string' | 'number' | 'boolean'; readonly text: string }
  | { readonly kind: 'null' }
  | { readonly kind: 'array'; readonly items: readonly JsonNode[] }
  /** Of members with one name the last counts. */
  | { readonly kind: 'object'; readonly members: ReadonlyMap<string, JsonNode> };

const quote = 34;
const backslash = 92;
const blanks: readonly number[] = [32, 10, 13, 9];
const behindLiteral = ',]} \n\r\t';

/** Reads text that is known to be valid JSON. Character by character: a pattern would run out of stack in a long string. */
export function readJsonNode(text: string): JsonNode {
  return new NodeReader(text).value();
}

class NodeReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  #skipSpace(): void {
    while (blanks.includes(this.#code())) this.#at++;
  }

  /** The string that begins here. */
  #string(): string {
    const start = this.#at++;
    for (let code = this.#code(); code !== quote; code = this.#code()) this.#at += code === backslash ? 2 : 1;
    return JSON.parse(this.#text.slice(start, ++this.#at)) as string;
  }

  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }

  /** The number or word that begins here. */
  #literal(): string {
    const start = this.#at;
    while (this.#at < this.#text.length && !behindLiteral.includes(this.#text[this.#at])) this.#at++;
    return this.#text.slice(start, this.#at);
  }

  /** The character behind what is passed over; it is passed over too when it is one of those wanted. */
  #next(wanted: string): string {
    this.#skipSpace();
    const character = this.#text[this.#at] ?? '';
    if (wanted.includes(character)) this.#at++;
    return character;
  }

  value(): JsonNode {
    const first = this.#next('[{');
    if (first === '{') return { kind: 'object', members: this.#members() };
    if (first === '[') return { kind: 'array', items: this.#items() };
    if (first === '"') return { kind: 'string', text: this.#string() };
    const text = this.#literal();
    if (text === 'null') return { kind: 'null' };
    return { kind: text === 'true' || text === 'false' ? 'boolean' : 'number', text };
  }

  #members(): Map<string, JsonNode> {
    const members = new Map<string, JsonNode>();
    while (this.#next(',}') !== '}') {
      this.#skipSpace();
      const name = this.#string();
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
