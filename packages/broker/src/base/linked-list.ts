/**
 * A list whose nodes carry their own links: adding, removing and taking the oldest cost the same however long it is.
 *
 * A Map or Set keeps order too, but finding its first key after many removals at the front walks over all the holes
 * they left, which makes an eviction order or a queue of waiters quadratic.
 */
export class ListNode<Node> {
  list: LinkedList<Node> | null = null;
  older: Node | null = null;
  newer: Node | null = null;
}

/** Nodes are in at most one list at a time. */
export class LinkedList<Node> {
  #oldest: (Node & ListNode<Node>) | null = null;
  #newest: (Node & ListNode<Node>) | null = null;
  size = 0;

  /** The node that was added first; null when the list is empty. */
  get oldest(): (Node & ListNode<Node>) | null {
    return this.#oldest;
  }

  /** Adds at the newest end. The node must be in no list. */
  add(node: Node & ListNode<Node>): void {
    if (node.list !== null) throw new Error('a node is in one list at a time');
    node.list = this;
    node.older = this.#newest;
    node.newer = null;
    if (this.#newest === null) this.#oldest = node;
    else this.#newest.newer = node;
    this.#newest = node;
    this.size++;
  }

  /** False when the node is not in this list. */
  remove(node: Node & ListNode<Node>): boolean {
    if (node.list !== this) return false;
    const older = node.older as (Node & ListNode<Node>) | null;
    const newer = node.newer as (Node & ListNode<Node>) | null;
    if (older === null) this.#oldest = newer;
    else older.newer = newer;
    if (newer === null) this.#newest = older;
    else newer.older = older;
    node.list = null;
    node.older = null;
    node.newer = null;
    this.size--;
    return true;
  }

  clear(): void {
    while (this.#oldest !== null) this.remove(this.#oldest);
  }

  /** From the oldest to the newest. The node that was just visited may be removed. */
  *[Symbol.iterator](): Generator<Node & ListNode<Node>> {
    for (let node = this.#oldest; node !== null; ) {
      const next = node.newer as (Node & ListNode<Node>) | null;
      yield node;
      node = next;
    }
  }
}
