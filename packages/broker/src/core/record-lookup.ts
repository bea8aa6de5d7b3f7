/** Finds a stored record by its transactionId, or by the message id that one without has instead. */
import { type BlockView, type DecisionContext, idLookup } from './decision.ts';
import type { IdParts } from './ids.ts';

/**
 * Offset of the newest record with this transactionId and a stamp ≥ `sinceUs`, or one of `idLookup`. Of a record that was
 * removed, which lies before the start of its partition, only the fingerprint is left to go by.
 */
export function offsetOfId(
  { ids, blocks, state }: DecisionContext,
  lane: number,
  pid: number,
  hashHigh: number,
  hashLow: number,
  sinceUs: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): number {
  const offset = ids.find(lane, pid, hashHigh, hashLow, sinceUs);
  if (offset < state.partitions.logStart[lane]) return offset;
  const view = blocks.open(lane, pid, offset);
  if (view === undefined) return idLookup.missing;
  // Fingerprints can agree by chance or by design; only the id itself makes it the record.
  return hasId(view, offset - view.firstOffset, bytes, start, end) ? offset : idLookup.absent;
}

/** Offset of the record with this message id, which is of the partition, when it is kept; or one of `idLookup`. */
export function offsetOfMessageId(
  { ids, blocks, state }: DecisionContext,
  lane: number,
  pid: number,
  { stampUs, index }: IdParts,
): number {
  const first = ids.firstFrom(lane, pid, stampUs);
  if (first < 0) return first;
  if (first < state.partitions.logStart[lane]) return idLookup.absent;
  const view = blocks.open(lane, pid, first);
  if (view === undefined) return idLookup.missing;
  return view.stampUs === stampUs && index < view.count ? first + index : idLookup.absent;
}

/** True when the record has exactly these bytes for its transactionId. */
export function hasId(view: BlockView, index: number, bytes: Uint8Array, start: number, end: number): boolean {
  view.select(index);
  if (view.idEnd - view.idStart !== end - start) return false;
  for (let p = view.idStart, q = start; q < end; p++, q++) if (view.bytes[p] !== bytes[q]) return false;
  return true;
}
