/**
 * Expected state that can be taken back. Each change carries the log sequence it will be durable with; when a crash
 * loses the end of the log, `forgetAfter` undoes exactly the changes that were lost.
 */
export class ChangeLog {
  /** Sequence of the changes being made. */
  sequence = 0;
  readonly #undo: { readonly sequence: number; readonly run: () => void }[] = [];

  /** Changes under way. */
  get length(): number {
    return this.#undo.length;
  }

  /** Notes how to take a change back that was just made. */
  did(undo: () => void): void {
    this.#undo.push({ sequence: this.sequence, run: undo });
  }

  set<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
    const existed = map.has(key);
    const before = map.get(key) as Value;
    map.set(key, value);
    this.did(() => {
      if (existed) map.set(key, before);
      else map.delete(key);
    });
  }

  delete<Key, Value>(map: Map<Key, Value>, key: Key): void {
    if (!map.has(key)) return;
    // Put back where it was: the order of a map is part of what is expected.
    const entries = [...map];
    map.delete(key);
    this.did(() => {
      map.clear();
      for (const [k, v] of entries) map.set(k, v);
    });
  }

  push<Value>(list: Value[], value: Value): void {
    list.push(value);
    this.did(() => list.pop());
  }

  /** Takes back what came after the sequence, newest first. Returns how many changes that were. */
  forgetAfter(sequence: number): number {
    let count = 0;
    while (this.#undo.length > 0 && this.#undo[this.#undo.length - 1].sequence > sequence) {
      this.#undo.pop()?.run();
      count++;
    }
    return count;
  }

  /** These changes are durable: they are never taken back. */
  settle(sequence: number): void {
    let settled = 0;
    while (settled < this.#undo.length && this.#undo[settled].sequence <= sequence) settled++;
    if (settled > 0) this.#undo.splice(0, settled);
  }
}
