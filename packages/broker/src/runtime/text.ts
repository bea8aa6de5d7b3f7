const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

export function utf8Text(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Bytes of a text in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) continue;
    // A surrogate pair is 4 bytes for 2 units; a lone surrogate is written as 3 bytes for 1.
    const isHigh = code >= 0xd800 && code <= 0xdbff;
    const next = isHigh ? text.charCodeAt(i + 1) : 0;
    if (isHigh && next >= 0xdc00 && next <= 0xdfff) {
      bytes += 2;
      i++;
    } else bytes += code < 0x800 ? 1 : 2;
  }
  return bytes;
}
