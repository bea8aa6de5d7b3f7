/**
 * Layout of entries and records: the numbers that writers, readers and docs/formats.md share.
 *
 * All integers are little-endian. A u64 is always below 2^53, so that it is exact as a JavaScript number.
 *
 * Entry:   header (64 bytes) then records, one behind the other.
 * Record:  u32 length (all of it) | u8 type | u8 version | u16 flags | fields of the type.
 */
export const entryHeader = {
  bytes: 64,
  magic: 0x45514d4c, // "LMQE"
  version: 1,
  /** u32 */ magicAt: 0,
  /** u32: whole entry, header included */ lengthAt: 4,
  /** u64 as two u32: xxh64, seed 0, of bytes 16..length */ checksumAt: 8,
  /** u64: address of the entry's first byte */ addressAt: 16,
  /** u64: 1, 2, 3 … */ sequenceAt: 24,
  /** u64: broker time in microseconds */ stampAt: 32,
  /** u64: all bytes below this address were synced when this entry was sealed */ syncedThroughAt: 40,
  /** u32: raised at each start of a broker on the folder */ epochAt: 48,
  /** u32: digest of the state before this entry */ digestAt: 52,
  /** u32 */ recordCountAt: 56,
  /** u32 */ versionAt: 60,
} as const;

export const recordHeaderBytes = 8;

/** Numbers on disk: never reused, never renumbered. */
export const recordType = {
  block: 1,
  queue: 2,
  partition: 3,
  subscription: 4,
  cursor: 5,
  deadLetter: 6,
  queueDeleted: 7,
  partitionDeleted: 8,
  genesis: 9,
  deadLetterRemoved: 10,
  /** Last record of a cleanly closed log: nothing may be missing before it. */
  closed: 11,
  /** A block rewritten nearer to the tail by reclaiming: u64 old address | the block record, with its own header. */
  relocatedBlock: 12,
  edgeDatabase: 20,
  edgeTable: 21,
  edgeTableDeleted: 22,
  edgeRows: 23,
  edgeRangeDeleted: 24,
  edgeDatabaseDeleted: 25,
  edgeRowMoved: 26,
  edgesPut: 27,
  edgesDeleted: 28,
  edgeMoved: 29,
  subscriptionDeleted: 14,
  partitionPaused: 15,
  logStart: 13,
  dueChanged: 16,
  segmentReclaimed: 18,
  trace: 17,
} as const;

/**
 * Block record: one append of one partition.
 *
 *   0 u32 length | 4 u8 type | 5 u8 version | 6 u16 flags
 *   8 u64 pid | 16 u64 firstOffset | 24 u64 stampUs | 32 u32 count | 36 u32 checksum: low half of xxh64, seed 0, of bytes 40..length
 *  40 count × { u32 end, u32 hashHigh, u32 hashLow }   end: relative to the start of the data, exclusive
 *     data: per record  u8 flags | [u16 n, n bytes transactionId] | [16 bytes traceId] | [u16 n, n bytes producerSub]
 *           | [16 bytes message id] | [u64 dueUs] | [u16 n, n bytes headers] | payload up to `end`
 *
 * hashHigh/hashLow: keyed fingerprint of the transactionId; both 0 when the record has none of its own (then its
 * transactionId is its message id in text form).
 */
export const block = {
  headerBytes: 40,
  pidAt: 8,
  firstOffsetAt: 16,
  stampAt: 24,
  countAt: 32,
  checksumAt: 36,
  tableAt: 40,
  rowBytes: 12,
} as const;

/** Where the block record begins in a relocatedBlock record, and where its old address stands. */
export const relocated = { fromAddressAt: 8, blockAt: 16 } as const;

/** Bits of a record's flags byte inside a block. */
export const recordFlag = {
  transactionId: 1,
  traceId: 2,
  producerSub: 4,
  encrypted: 8,
  messageId: 16,
  dueAt: 32,
  headers: 64,
} as const;

/** Bits of a block record's flags. */
export const blockFlag = {
  /** Some of its records wait for a time of their own. */
  hasDue: 1,
} as const;

const two32 = 0x1_0000_0000;

/** Reads a u64 that is below 2^53. */
export function readU64(view: DataView, at: number): number {
  return view.getUint32(at + 4, true) * two32 + view.getUint32(at, true);
}

/** Writes a non-negative integer below 2^53. */
export function writeU64(view: DataView, at: number, value: number): void {
  const high = Math.floor(value / two32);
  view.setUint32(at, value - high * two32, true);
  view.setUint32(at + 4, high, true);
}
