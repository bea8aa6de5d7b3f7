/**
 * Encryption of payloads at rest: AES-256-GCM with a random 96-bit nonce per payload.
 * Stored form: 12 bytes nonce | ciphertext | 16 bytes tag. A changed byte or another key makes `decrypt` throw.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { PayloadCipher } from '../ports/mod.ts';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;
export const cipherKeyBytes = 32;

export class AesCipher implements PayloadCipher {
  readonly #key: Uint8Array;

  /** @param key 32 bytes. */
  constructor(key: Uint8Array) {
    if (key.length !== cipherKeyBytes)
      throw new RangeError(`the encryption key has ${key.length} bytes, not ${cipherKeyBytes}`);
    this.#key = key;
  }

  encrypt(bytes: Uint8Array, start: number, end: number): Uint8Array {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv(algorithm, this.#key, nonce);
    const body = cipher.update(bytes.subarray(start, end));
    return Buffer.concat([nonce, body, cipher.final(), cipher.getAuthTag()]);
  }

  decrypt(bytes: Uint8Array, start: number, end: number): Uint8Array {
    if (end - start < nonceBytes + tagBytes) throw new Error('an encrypted payload is too short to be one');
    const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(start, start + nonceBytes));
    decipher.setAuthTag(bytes.subarray(end - tagBytes, end));
    const body = decipher.update(bytes.subarray(start + nonceBytes, end - tagBytes));
    return Buffer.concat([body, decipher.final()]);
  }
}
