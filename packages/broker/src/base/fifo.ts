/** Slots in front of the oldest element before they are given back. */
const emptySlotsMax = 4096;

/** A queue in one array. What was taken out is let go at once, so that it can be collected. */
export class Fifo<Element extends object> {
  #elements: (Element | null)[] = [];
  #head = 0;

  get size(): number {
    return this.#elements.length - this.#head;
  }

  /** The element that was pushed first; null when there is none. */
  get oldest(): Element | null {
    return this.#head < this.#elements.length ? (this.#elements[this.#head] as Element) : null;
  }

  push(element: Element): void {
    this.#elements.push(element);
  }

  /** Takes the oldest out; null when there is none. */
  shift(): Element | null {
    const element = this.oldest;
    if (element === null) return null;
    this.#elements[this.#head++] = null;
    if (this.#head === this.#elements.length) {
      this.#elements = [];
      this.#head = 0;
    } else if (this.#head > emptySlotsMax && this.#head * 2 > this.#elements.length) {
      this.#elements = this.#elements.slice(this.#head);
      this.#head = 0;
    }
    return element;
  }
}
