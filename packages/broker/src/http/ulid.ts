/** ULIDs: 128 bits in 4 words, and as 26 characters of Crockford's base 32, most significant first. */
import type { ByteWriter } from '../codec/mod.ts';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const digits = Buffer.from(alphabet);
const pattern = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const bitsOfFirst = 125;

export function writeUlid(writer: ByteWriter, words: Uint32Array, at: number): void {
  for (let bit = bitsOfFirst; bit >= 0; bit -= 5) {
    const word = 3 - (bit >>> 5);
    const shift = bit & 31;
    let five = words[at + word] >>> shift;
    if (shift > 27 && word > 0) five |= words[at + word - 1] << (32 - shift);
    writer.byte(digits[five & 31]);
  }
}

/** The 4 words; null when the text is no ULID. */
export function readUlid(text: string): Uint32Array | null {
  if (!pattern.test(text)) return null;
  let value = 0n;
  for (const character of text) value = (value << 5n) | BigInt(alphabet.indexOf(character));
  return Uint32Array.from([96n, 64n, 32n, 0n], (shift) => Number((value >> shift) & 0xffff_ffffn));
}
