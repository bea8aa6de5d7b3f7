/**
 * The 32-bit keys by which filters and hash tables know partitions and ids.
 *
 * Fingerprints of transactionIds come keyed with a secret of the data folder, so they are spread evenly and nobody
 * outside can aim at a place in a table. Pids are small consecutive numbers and are mixed here. An id is known by its
 * partition and its fingerprint together: clients like to number the records of every partition 1, 2, 3 …, and then a
 * million partitions share each fingerprint.
 */

const two32 = 0x1_0000_0000;

/** A bijection of 32 bits in which each input bit changes about half of the output bits. */
function mix32(value: number): number {
  let x = value;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return x ^ (x >>> 16);
}

/** The key of a partition: distinct for all pids below 2^32. Signed; `>>> 0` where the order matters. */
export function pidKey(pid: number): number {
  const high = Math.floor(pid / two32);
  return mix32((pid >>> 0) ^ (high === 0 ? 0 : mix32(high)));
}

/**
 * The two halves of an id's key are the halves of its fingerprint, each combined by XOR with a number that follows from
 * the pid. So two ids with equal keys and equal pids have equal fingerprints: a table that holds keys and can look up
 * the pid need not hold the fingerprints.
 */
export function idKeyHigh(keyOfPid: number, hashHigh: number): number {
  return hashHigh ^ keyOfPid;
}

export function idKeyLow(keyOfPid: number, hashLow: number): number {
  return hashLow ^ Math.imul(keyOfPid, 0x9e3779b1);
}
