/**
 * Values of edge tables as bytes whose order is the order of the values: a header byte per type, then a body. A
 * descending value is the complement of all its bytes. The layouts are those of the contract.
 */
import type { JsonNode } from './json-node.ts';

export const edgeTypes = ['BOOLEAN', 'BYTE', 'SHORT', 'INT', 'LONG', 'FLOAT', 'DOUBLE', 'STRING', 'BYTES'] as const;
export type EdgeType = (typeof edgeTypes)[number];
export type SortOrder = 'ASC' | 'DESC';

const headers = {
  nothing: 0x05,
  int8: 0x29,
  int16: 0x2a,
  int32: 0x2b,
  int64: 0x2c,
  float32: 0x30,
  float64: 0x31,
  string: 0x34,
  no: 0x35,
  yes: 0x36,
} as const;

const integerBits = { BYTE: 8, SHORT: 16, INT: 32, LONG: 64 } as const;
const integerHeader = { BYTE: headers.int8, SHORT: headers.int16, INT: headers.int32, LONG: headers.int64 } as const;
const encoder = new TextEncoder();

/**
 * A value cast to its type, as it is stored: JSON text. Numbers may come as strings of digits and the other way round;
 * null when the value is not of the type.
 */
export function castEdgeValue(type: EdgeType, node: JsonNode): string | null {
  if (node.kind !== 'string' && node.kind !== 'number' && node.kind !== 'boolean') return null;
  const { text } = node;
  switch (type) {
    case 'BOOLEAN':
      return text === 'true' || text === 'false' ? text : null;
    case 'BYTE':
    case 'SHORT':
    case 'INT':
    case 'LONG':
      return node.kind !== 'boolean' && isInteger(text, integerBits[type]) ? BigInt(text).toString() : null;
    case 'FLOAT':
    case 'DOUBLE': {
      if (node.kind === 'boolean' || !/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return null;
      const value = type === 'FLOAT' ? Math.fround(Number(text)) : Number(text);
      // A string may begin with zeros, which JSON does not allow.
      return Number.isFinite(value) ? text.replace(/^(-?)0+(?=\d)/, '$1') : null;
    }
    case 'STRING':
      return text.includes('\u0000') ? null : JSON.stringify(text.replace(/\p{Surrogate}/gu, '?'));
    case 'BYTES':
      return node.kind === 'string' && isBase64(text) ? JSON.stringify(text) : null;
  }
}

function isInteger(text: string, bits: number): boolean {
  if (!/^-?\d{1,19}$/.test(text)) return false;
  const value = BigInt(text);
  const limit = 1n << BigInt(bits - 1);
  return value >= -limit && value < limit;
}

function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

/** The bytes of a value that `castEdgeValue` gave; null = no value. */
export function edgeKeyBytes(type: EdgeType, stored: string | null, order: SortOrder): Uint8Array {
  const bytes = stored === null ? Uint8Array.of(headers.nothing) : ascending(type, stored);
  if (order === 'DESC') for (let i = 0; i < bytes.length; i++) bytes[i] ^= 0xff;
  return bytes;
}

function ascending(type: EdgeType, stored: string): Uint8Array {
  switch (type) {
    case 'BOOLEAN':
      return Uint8Array.of(stored === 'true' ? headers.yes : headers.no);
    case 'BYTE':
    case 'SHORT':
    case 'INT':
    case 'LONG': {
      const bits = BigInt(integerBits[type]);
      return bigEndian(integerHeader[type], BigInt.asUintN(Number(bits), BigInt(stored) + (1n << (bits - 1n))), bits);
    }
    case 'FLOAT':
    case 'DOUBLE':
      return float(type, Number(stored));
    case 'STRING':
    case 'BYTES': {
      const utf8 = encoder.encode(JSON.parse(stored) as string);
      const bytes = new Uint8Array(utf8.length + 2);
      bytes[0] = headers.string;
      bytes.set(utf8, 1);
      return bytes;
    }
  }
}

function bigEndian(header: number, value: bigint, bits: bigint): Uint8Array {
  const bytes = new Uint8Array(Number(bits) / 8 + 1);
  bytes[0] = header;
  let rest = value;
  for (let i = bytes.length - 1; i > 0; i--) {
    bytes[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

function float(type: 'FLOAT' | 'DOUBLE', value: number): Uint8Array {
  const width = type === 'FLOAT' ? 4 : 8;
  const bytes = new Uint8Array(width + 1);
  bytes[0] = type === 'FLOAT' ? headers.float32 : headers.float64;
  const view = new DataView(bytes.buffer);
  // Two zeros would be two places for one value.
  if (type === 'FLOAT') view.setFloat32(1, value === 0 ? 0 : value);
  else view.setFloat64(1, value === 0 ? 0 : value);
  if ((bytes[1] & 0x80) === 0) bytes[1] ^= 0x80;
  else for (let i = 1; i < bytes.length; i++) bytes[i] ^= 0xff;
  return bytes;
}

/** The smallest bytes of the same length that are greater than all that begin with these: one more, carried. */
export function edgeKeyAfter(bytes: Uint8Array): Uint8Array {
  const next = bytes.slice();
  for (let i = next.length - 1; i >= 0; i--) {
    next[i] = (next[i] + 1) & 0xff;
    if (next[i] !== 0) break;
  }
  return next;
}

/** Bytes one behind the other. */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** Order of unsigned bytes; a prefix comes first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}
