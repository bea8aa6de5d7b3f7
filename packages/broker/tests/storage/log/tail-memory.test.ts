import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TailMemory } from '../../../src/storage/tail-memory.ts';

/** Fills the draft with one byte value and begins the next entry. */
function fill(memory: TailMemory, value: number, length: number): void {
  memory.require(length);
  memory.bytes.fill(value, memory.position, memory.position + length);
  memory.position += length;
}

describe('tail memory', () => {
  it('leaves what was found in it alone until the draft is sealed, however much the draft grows', () => {
    const memory = new TailMemory({ slabBytes: 512, tailBytes: 1024, entryBytesMax: 1 << 20 }, 0);
    memory.beginEntry();
    const oldest = memory.base + memory.position;
    for (let entry = 1; entry <= 6; entry++) {
      fill(memory, entry, 200);
      memory.durableThrough(memory.base + memory.position);
      memory.beginEntry();
    }
    // The oldest byte that is still in memory: its slab is the next to be used again.
    let address = oldest;
    while (memory.resident(address, 1) === undefined) address++;
    const found = memory.resident(address, 100);
    assert.ok(found !== undefined);
    const { bytes, at } = found;
    const before = bytes.slice(at, at + 100);
    for (let piece = 0; piece < 40; piece++) fill(memory, 255, 100);
    assert.deepEqual(bytes.slice(at, at + 100), before);
  });

  it('holds no more than its budget once everything is durable and a new entry has begun', () => {
    const memory = new TailMemory({ slabBytes: 512, tailBytes: 2048, entryBytesMax: 1 << 20 }, 0);
    memory.beginEntry();
    for (let entry = 0; entry < 200; entry++) {
      fill(memory, entry & 127, 30 + (entry % 7) * 40);
      memory.durableThrough(memory.base + memory.position);
      memory.beginEntry();
      assert.ok(memory.heldBytes <= 2048 + 512, `${memory.heldBytes} bytes are held`);
    }
  });
});
