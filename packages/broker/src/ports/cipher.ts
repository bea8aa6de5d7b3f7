/** Encryption of payloads at rest. Authenticated: `decrypt` throws when the bytes or the key are not the right ones. */
export interface PayloadCipher {
  encrypt(bytes: Uint8Array, start: number, end: number): Uint8Array;
  decrypt(bytes: Uint8Array, start: number, end: number): Uint8Array;
}
