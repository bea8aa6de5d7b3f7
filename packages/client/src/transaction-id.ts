/**
 * Fresh transactionIds: UUID version 7 text, so that ids made later sort behind ids made earlier (to the millisecond).
 */

const hexOf: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Random bytes are drawn in one piece, because a draw per id costs more than all the rest of it. */
const pool = new Uint8Array(1024);
const randomBytesPerId = 10;
let poolAt = pool.length;

/**
 * A new UUIDv7 in lower-case text; 74 of its bits are random.
 *
 * @example
 * const transactionId = newTransactionId();
 * await client.queue('orders').push({ payload: { orderId: 9137 }, transactionId });
 */
export function newTransactionId(): string {
  if (poolAt + randomBytesPerId > pool.length) {
    crypto.getRandomValues(pool);
    poolAt = 0;
  }
  const at = poolAt;
  poolAt += randomBytesPerId;
  const time = Date.now().toString(16).padStart(12, '0');
  const version = hexOf[0x70 | (pool[at] & 0x0f)] + hexOf[pool[at + 1]];
  const variant = hexOf[0x80 | (pool[at + 2] & 0x3f)] + hexOf[pool[at + 3]];
  let node = '';
  for (let i = at + 4; i < at + randomBytesPerId; i++) node += hexOf[pool[i]];
  return `${time.slice(0, 8)}-${time.slice(8)}-${version}-${variant}-${node}`;
}
