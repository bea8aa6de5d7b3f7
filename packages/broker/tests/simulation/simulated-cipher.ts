import type { PayloadCipher } from '../../src/ports/mod.ts';

const tag = 0xa5;

/** A cipher without chance: it hides nothing, but what was not encrypted by it does not decrypt. */
export class SimulatedCipher implements PayloadCipher {
  encrypt(bytes: Uint8Array, start: number, end: number): Uint8Array {
    const sealed = new Uint8Array(end - start + 1);
    for (let i = start; i < end; i++) sealed[i - start] = bytes[i] ^ 0x5a;
    sealed[end - start] = tag;
    return sealed;
  }

  decrypt(bytes: Uint8Array, start: number, end: number): Uint8Array {
    if (end === start || bytes[end - 1] !== tag) throw new Error('these bytes were not encrypted here');
    return bytes.slice(start, end - 1).map((byte) => byte ^ 0x5a);
  }
}
