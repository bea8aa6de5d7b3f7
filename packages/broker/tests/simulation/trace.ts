/** What happened in a world: the last events as text, and a hash of all of them. */
const eventsKept = 400;

export class Trace {
  readonly #events: string[] = [];
  #count = 0;
  #high = 0x811c9dc5;
  #low = 0x01000193;

  /** `timeMs`: virtual time. */
  note(timeMs: number, text: string): void {
    const event = `${timeMs.toFixed(3)} ${text}`;
    this.#events[this.#count % eventsKept] = event;
    this.#count++;
    let { high, low } = { high: this.#high, low: this.#low };
    for (let i = 0; i < event.length; i++) {
      high = Math.imul(high ^ event.charCodeAt(i), 0x01000193);
      low = Math.imul(low ^ event.charCodeAt(i), 0x85ebca6b) + 1;
    }
    this.#high = high | 0;
    this.#low = low | 0;
  }

  get hash(): string {
    const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, '0');
    return `${hex(this.#high)}${hex(this.#low)}-${this.#count}`;
  }

  /** Oldest first. */
  last(): string[] {
    const first = Math.max(0, this.#count - eventsKept);
    return Array.from({ length: this.#count - first }, (_, i) => this.#events[(first + i) % eventsKept]);
  }
}
