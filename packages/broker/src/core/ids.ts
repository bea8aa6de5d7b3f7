/**
 * Ids as UUIDv7 text, made from facts instead of chance, so that nothing needs to be stored for them:
 *
 *   48 bit milliseconds | 7 | 12 bit microseconds within the millisecond | 10 | 40 bit number | 22 bit index
 *
 * `number` is the pid for messages and dead letters and 0 for leases and transactions; it is masked with the salt of
 * the data folder, so that two brokers do not mint the same ids. Stamps rise strictly within a partition, so message
 * ids are unique and sort, as strings, in offset order within a partition.
 */

/** The secret and unique numbers of one data folder, drawn once when it is created. */
export interface BrokerIdentity {
  /** 40 bits in two parts: 8 and 32. */
  readonly saltHigh: number;
  readonly saltLow: number;
  /** Seed of the keyed hashes, 2 × 32 bits. */
  readonly seedHigh: number;
  readonly seedLow: number;
}

export interface IdParts {
  stampUs: number;
  /** The pid, or 0. */
  number: number;
  index: number;
}

/** Records of one append: their indexes are below this. What lies above marks ids of other things. */
export const idIndexMax = 0x3f_fff0;
/** Index in the ids of partitions, queues and traces, so that they differ from those of messages. */
export const partitionIdIndex = 0x3f_ffff;
export const queueIdIndex = 0x3f_fffe;
export const traceIdIndex = 0x3f_fffd;
/** Index in the ids of redrives; their number counts them. */
export const redriveIdIndex = 0x3f_fffc;
export const idTextLength = 36;

const two32 = 0x1_0000_0000;
const bytesOf = new Uint8Array(16);

/** The two hexadecimal digits of each byte. */
const firstDigit = new Uint8Array(256);
const secondDigit = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  firstDigit[byte] = byte.toString(16).padStart(2, '0').charCodeAt(0);
  secondDigit[byte] = byte.toString(16).padStart(2, '0').charCodeAt(1);
}

const dash = 45;

/**
 * Writes the 36 characters of an id at `at`; returns the index behind them. Written out byte by byte: two ids are
 * written for every message, and a loop over the sixteen bytes takes twice as long.
 */
export function writeId(
  t: Uint8Array,
  at: number,
  identity: BrokerIdentity,
  stampUs: number,
  number: number,
  index: number,
): number {
  const ms = Math.floor(stampUs / 1000);
  const us = stampUs - ms * 1000;
  const msHigh = Math.floor(ms / 0x1_0000);
  const msLow = ms - msHigh * 0x1_0000;
  const numberHigh = Math.floor(number / two32);
  const high = (numberHigh ^ identity.saltHigh) & 255;
  const low = ((number - numberHigh * two32) ^ identity.saltLow) >>> 0;
  let b = msHigh >>> 24;
  t[at + 0] = firstDigit[b];
  t[at + 1] = secondDigit[b];
  b = (msHigh >>> 16) & 255;
  t[at + 2] = firstDigit[b];
  t[at + 3] = secondDigit[b];
  b = (msHigh >>> 8) & 255;
  t[at + 4] = firstDigit[b];
  t[at + 5] = secondDigit[b];
  b = msHigh & 255;
  t[at + 6] = firstDigit[b];
  t[at + 7] = secondDigit[b];
  t[at + 8] = dash;
  b = msLow >>> 8;
  t[at + 9] = firstDigit[b];
  t[at + 10] = secondDigit[b];
  b = msLow & 255;
  t[at + 11] = firstDigit[b];
  t[at + 12] = secondDigit[b];
  t[at + 13] = dash;
  b = 0x70 | (us >>> 8);
  t[at + 14] = firstDigit[b];
  t[at + 15] = secondDigit[b];
  b = us & 255;
  t[at + 16] = firstDigit[b];
  t[at + 17] = secondDigit[b];
  t[at + 18] = dash;
  b = 0x80 | (high >>> 2);
  t[at + 19] = firstDigit[b];
  t[at + 20] = secondDigit[b];
  b = ((high & 3) << 6) | (low >>> 26);
  t[at + 21] = firstDigit[b];
  t[at + 22] = secondDigit[b];
  t[at + 23] = dash;
  b = (low >>> 18) & 255;
  t[at + 24] = firstDigit[b];
  t[at + 25] = secondDigit[b];
  b = (low >>> 10) & 255;
  t[at + 26] = firstDigit[b];
  t[at + 27] = secondDigit[b];
  b = (low >>> 2) & 255;
  t[at + 28] = firstDigit[b];
  t[at + 29] = secondDigit[b];
  b = ((low & 3) << 6) | (index >>> 16);
  t[at + 30] = firstDigit[b];
  t[at + 31] = secondDigit[b];
  b = (index >>> 8) & 255;
  t[at + 32] = firstDigit[b];
  t[at + 33] = secondDigit[b];
  b = index & 255;
  t[at + 34] = firstDigit[b];
  t[at + 35] = secondDigit[b];
  return at + idTextLength;
}

const idCharacters = new Uint8Array(36);

export function idText(identity: BrokerIdentity, stampUs: number, number: number, index: number): string {
  writeId(idCharacters, 0, identity, stampUs, number, index);
  return String.fromCharCode(...idCharacters);
}

function hexValue(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  return -1;
}

/**
 * Takes apart an id in `bytes[start, end)` into `into`. False when it is not 36 characters of lower-case UUIDv7 text.
 * The number is unmasked with the identity's salt; whether it means anything is for the caller to find out.
 */
export function parseId(
  identity: BrokerIdentity,
  bytes: Uint8Array,
  start: number,
  end: number,
  into: IdParts,
): boolean {
  if (end - start !== idTextLength) return false;
  let p = start;
  const b = bytesOf;
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) {
      if (bytes[p++] !== 45) return false;
    }
    const high = hexValue(bytes[p++]);
    const low = hexValue(bytes[p++]);
    if (high < 0 || low < 0) return false;
    b[i] = (high << 4) | low;
  }
  if (b[6] >>> 4 !== 7 || b[8] >>> 6 !== 2) return false;
  const us = ((b[6] & 15) << 8) | b[7];
  if (us > 999) return false;
  const msHigh = b[0] * 0x100_0000 + ((b[1] << 16) | (b[2] << 8) | b[3]);
  const ms = msHigh * 0x1_0000 + ((b[4] << 8) | b[5]);
  const numberHigh = ((b[8] & 63) << 2) | (b[9] >>> 6);
  const numberLow = (((b[9] & 63) << 26) | (b[10] << 18) | (b[11] << 10) | (b[12] << 2) | (b[13] >>> 6)) >>> 0;
  into.stampUs = ms * 1000 + us;
  into.number = ((numberHigh ^ identity.saltHigh) & 255) * two32 + ((numberLow ^ identity.saltLow) >>> 0);
  into.index = ((b[13] & 63) << 16) | (b[14] << 8) | b[15];
  return true;
}
