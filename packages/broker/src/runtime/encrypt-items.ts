/** Replaces the payloads of encrypted queues before a push is decided: the core stores bytes and knows no keys. */
import { type PushItems, pushSlice } from '../core/mod.ts';
import type { PayloadCipher } from '../ports/mod.ts';
import { utf8Text } from './text.ts';

/** The same items when none belongs to an encrypted queue; 'no-key' when one does and there is no key. */
export function encryptItems(
  items: PushItems,
  encrypted: ReadonlySet<string>,
  cipher: PayloadCipher | null,
): PushItems | 'no-key' {
  const sealed: { item: number; bytes: Uint8Array }[] = [];
  let extra = 0;
  for (let item = 0; item < items.count; item++) {
    const s = item * pushSlice.stride;
    const { slices, bytes } = items;
    const name = utf8Text(bytes.subarray(slices[s + pushSlice.queueStart], slices[s + pushSlice.queueEnd]));
    if (!encrypted.has(name)) continue;
    if (cipher === null) return 'no-key';
    const payload = cipher.encrypt(bytes, slices[s + pushSlice.payloadStart], slices[s + pushSlice.payloadEnd]);
    sealed.push({ item, bytes: payload });
    extra += payload.length;
  }
  if (sealed.length === 0) return items;
  const bytes = new Uint8Array(items.bytes.length + extra);
  bytes.set(items.bytes);
  const slices = items.slices.slice();
  let at = items.bytes.length;
  for (const payload of sealed) {
    bytes.set(payload.bytes, at);
    slices[payload.item * pushSlice.stride + pushSlice.payloadStart] = at;
    at += payload.bytes.length;
    slices[payload.item * pushSlice.stride + pushSlice.payloadEnd] = at;
  }
  return { bytes, count: items.count, slices, hashes: items.hashes, due: items.due ?? null };
}
