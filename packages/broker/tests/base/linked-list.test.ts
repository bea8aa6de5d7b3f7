import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LinkedList, ListNode } from '../../src/base/linked-list.ts';

class Item extends ListNode<Item> {
  readonly number: number;

  constructor(number: number) {
    super();
    this.number = number;
  }
}

describe('a linked list', () => {
  it('holds what an array would, whatever is added and removed', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(20))), (steps) => {
        const list = new LinkedList<Item>();
        let twin: Item[] = [];
        steps.forEach(([isAdded, at], number) => {
          if (isAdded) {
            const item = new Item(number);
            list.add(item);
            twin.push(item);
          } else if (twin.length > 0) {
            const item = twin[at % twin.length];
            assert.equal(list.remove(item), true);
            assert.equal(list.remove(item), false);
            twin = twin.filter((other) => other !== item);
          }
          assert.equal(list.size, twin.length);
          assert.equal(list.oldest, twin[0] ?? null);
          assert.deepEqual(
            [...list].map((item) => item.number),
            twin.map((item) => item.number),
          );
        });
      }),
    );
  });

  it('refuses a node that is in a list already', () => {
    const item = new Item(1);
    new LinkedList<Item>().add(item);
    assert.throws(() => new LinkedList<Item>().add(item), /one list at a time/);
  });
});
