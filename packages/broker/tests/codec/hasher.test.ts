import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import xxhash from 'xxhash-wasm';
import { createHasher, Hasher } from '../../src/codec/hasher.ts';

const utf8 = (text: string) => new TextEncoder().encode(text);
const wordMask = 0xffff_ffff_ffff_ffffn;

/** xxh64 as its specification describes it, one step after the other. */
function xxh64(bytes: Uint8Array, seed: bigint): bigint {
  const [p1, p2, p3, p4, p5] = [
    0x9e3779b185ebca87n,
    0xc2b2ae3d27d4eb4fn,
    0x165667b19e3779f9n,
    0x85ebca77c2b2ae63n,
    0x27d4eb2f165667c5n,
  ];
  const rotate = (x: bigint, by: bigint) => ((x << by) | (x >> (64n - by))) & wordMask;
  const times = (a: bigint, b: bigint) => (a * b) & wordMask;
  const plus = (a: bigint, b: bigint) => (a + b) & wordMask;
  const round = (acc: bigint, lane: bigint) => times(rotate(plus(acc, times(lane, p2)), 31n), p1);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  let hash: bigint;
  if (bytes.length >= 32) {
    const lanes = [plus(plus(seed, p1), p2), plus(seed, p2), seed, (seed - p1) & wordMask];
    for (; at + 32 <= bytes.length; at += 32) {
      for (let i = 0; i < 4; i++) lanes[i] = round(lanes[i], view.getBigUint64(at + 8 * i, true));
    }
    hash = plus(plus(rotate(lanes[0], 1n), rotate(lanes[1], 7n)), plus(rotate(lanes[2], 12n), rotate(lanes[3], 18n)));
    for (const lane of lanes) hash = plus(times(hash ^ round(0n, lane), p1), p4);
  } else {
    hash = plus(seed, p5);
  }
  hash = plus(hash, BigInt(bytes.length));
  for (; at + 8 <= bytes.length; at += 8) {
    hash = plus(times(rotate(hash ^ round(0n, view.getBigUint64(at, true)), 27n), p1), p4);
  }
  if (at + 4 <= bytes.length) {
    hash = plus(times(rotate(hash ^ times(BigInt(view.getUint32(at, true)), p1), 23n), p2), p3);
    at += 4;
  }
  for (; at < bytes.length; at++) hash = times(rotate(hash ^ times(BigInt(bytes[at]), p5), 11n), p1);
  hash = times(hash ^ (hash >> 33n), p2);
  hash = times(hash ^ (hash >> 29n), p3);
  return hash ^ (hash >> 32n);
}

const joined = (hasher: Hasher) => (BigInt(hasher.high) << 32n) | BigInt(hasher.low);

function sample(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = 0x2545f491;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

describe('the checksum is xxh64 with seed 0', async () => {
  const hasher = await createHasher(0xdead_beef, 7);
  const vectors: [string, bigint][] = [
    ['', 0xef46db3751d8e999n],
    ['a', 0xd24ec4f1a98c6e5bn],
    ['abc', 0x44bc2cf5ad770999n],
    ['xxhash', 0x32dd38952c4bc720n],
    ['Nobody inspects the spammish repetition', 0xfbcea83c8a378bf1n],
  ];
  for (const [text, expected] of vectors) {
    it(`of ${JSON.stringify(text)}`, () => {
      hasher.checksum(utf8(text), 0, text.length);
      assert.equal(joined(hasher), expected);
      assert.equal(xxh64(utf8(text), 0n), expected);
    });
  }

  it('of every length around the places where the way of hashing changes, and wherever the bytes lie', () => {
    const bytes = sample(256 * 1024 * 2 + 100);
    const lengths = [...Array(300).keys(), 65_536, 262_143, 262_144, 262_145, 524_288, 524_388];
    for (const length of lengths) {
      const start = length > 1000 ? 0 : length % 7;
      hasher.checksum(bytes, start, start + length);
      assert.equal(joined(hasher), xxh64(bytes.subarray(start, start + length), 0n), `length ${length}`);
    }
  });
});

describe('the hash', async () => {
  it('is xxh64 with the two halves of the seed', async () => {
    const hasher = await createHasher(0, 20_141_025);
    hasher.hash(utf8('xxhash'), 0, 6);
    assert.equal(joined(hasher), 0xb559b98d844e0635n);
  });

  const high = 0xfedc_ba98;
  const low = 0x8765_4321;
  const seed = (BigInt(high) << 32n) | BigInt(low);
  const hasher = await createHasher(high, low);

  it('agrees with the specification for arbitrary slices, also of a Buffer', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(300), fc.nat(300), (bytes, a, b) => {
        const start = Math.min(a, b, bytes.length);
        const end = Math.min(Math.max(a, b), bytes.length);
        const expected = xxh64(bytes.slice(start, end), seed);
        hasher.hash(bytes, start, end);
        assert.equal(joined(hasher), expected);
        hasher.hash(Buffer.from(bytes), start, end);
        assert.equal(joined(hasher), expected);
      }),
    );
  });

  it('depends on each half of the seed', async () => {
    const seen = new Set<bigint>();
    for (const [a, b] of [
      [0, 0],
      [1, 0],
      [0, 1],
      [0xffff_ffff, 0],
      [0, 0xffff_ffff],
    ]) {
      const other = await createHasher(a, b);
      other.hash(utf8('order-1'), 0, 7);
      seen.add(joined(other));
    }
    assert.equal(seen.size, 5);
  });

  it('is never 0, which stands for no id; the checksum may be', async () => {
    const api = await xxhash();
    const zero = new Hasher({ ...api, h64Raw: () => 0n }, 1n);
    zero.hash(utf8('a'), 0, 1);
    assert.deepEqual([zero.high, zero.low], [0, 1]);
    zero.checksum(utf8('a'), 0, 1);
    assert.deepEqual([zero.high, zero.low], [0, 0]);
  });
});
