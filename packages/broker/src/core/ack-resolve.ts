/**
 * Resolving acknowledgements: which offset does each item of a target name. Ids are compared with the records of the
 * span that is acknowledged; what is not among them is looked up in the index.
 */
import type { ItemNumbers } from './ack-targets.ts';
import type { AckItems } from './commands.ts';
import { type DecisionContext, idLookup } from './decision.ts';
import { type IdParts, parseId } from './ids.ts';
import { hasId, offsetOfId } from './record-lookup.ts';

/** An offset that is none: the item names no record that is known. */
export const unresolved = -1;

/** Longest span of records that is searched one by one; in a longer one ids are looked up in the index. */
const scannedSpanMax = 65_536;

export interface Span {
  readonly lane: number;
  readonly pid: number;
  /** Offsets, both inclusive. */
  readonly from: number;
  readonly to: number;
}

const idParts: IdParts = { stampUs: 0, number: 0, index: 0 };

/**
 * Fills `offsets` with the lowest offset in the span whose record has the item's id, or, when there is none, with the
 * offset outside the span where the id is known to be. False when blocks or ids have to be loaded.
 */
export function resolve(
  context: DecisionContext,
  items: AckItems,
  numbers: ItemNumbers,
  span: Span,
  offsets: Float64Array,
): boolean {
  const open = numbers.count;
  let found = 0;
  if (span.to - span.from < scannedSpanMax) {
    const scanned = scan(context, items, numbers, span, offsets);
    if (scanned < 0) return false;
    found = scanned;
  }
  if (found === open) return true;
  let complete = true;
  for (let i = 0; i < open; i++) {
    if (offsets[i] !== unresolved) continue;
    const offset = lookUp(context, items, numbers.order[numbers.begin + i], span);
    if (offset === idLookup.missing) complete = false;
    else offsets[i] = offset;
  }
  return complete;
}

/** Stamp and index of an item whose id is a message id of this partition; false when it is not one. */
function isMessageId(context: DecisionContext, items: AckItems, item: number, pid: number): boolean {
  return (
    parseId(context.state.identity, items.bytes, items.ends[item], items.ends[item + 1], idParts) &&
    idParts.number === pid
  );
}

function lookUp(context: DecisionContext, items: AckItems, item: number, span: Span): number {
  const { ids, blocks } = context;
  const start = items.ends[item];
  const end = items.ends[item + 1];
  // No transactionId that could be one was sent.
  if (start === end) return unresolved;
  const { lane, pid } = span;
  const { hashes, bytes } = items;
  const offset = offsetOfId(context, lane, pid, hashes[item * 2], hashes[item * 2 + 1], 0, bytes, start, end);
  if (offset !== idLookup.absent) return offset;
  const { partitions } = context.state;
  const logStart = partitions.logStart[lane];
  if (!isMessageId(context, items, item, pid)) return unresolved;
  const { stampUs, index } = idParts;
  const first = ids.firstFrom(lane, pid, stampUs);
  if (first === idLookup.missing) return first;
  // Which of the records that were removed it was is not known any more: all of them are over, and so is it.
  const gone = logStart > 0 ? Math.min(logStart - 1, span.to) : unresolved;
  if (first < 0) return stampUs <= partitions.lastStampUs[span.lane] ? gone : unresolved;
  if (first < logStart) return gone;
  const view = blocks.open(lane, pid, first);
  if (view === undefined) return idLookup.missing;
  const isIt =
    view.stampUs === stampUs && index < view.count && view.hashHigh(index) === 0 && view.hashLow(index) === 0;
  if (isIt) return first + index;
  return first === logStart && view.stampUs !== stampUs ? gone : unresolved;
}

let slots = new Int32Array(64);
let nextSameHash = new Int32Array(64);

/**
 * Walks the records of the span and notes the first match of each item. Items are filed by the hash of their id, so that
 * a record costs one look. Returns how many were found, −1 when a block is missing.
 */
function scan(
  context: DecisionContext,
  items: AckItems,
  numbers: ItemNumbers,
  span: Span,
  offsets: Float64Array,
): number {
  const { order, begin, count } = numbers;
  let size = 4;
  while (size < count * 2) size *= 2;
  if (slots.length < size) {
    slots = new Int32Array(size);
    nextSameHash = new Int32Array(size);
  }
  slots.fill(0, 0, size);
  const mask = size - 1;
  for (let i = count - 1; i >= 0; i--) {
    const slot = items.hashes[order[begin + i] * 2 + 1] & mask;
    nextSameHash[i] = slots[slot];
    slots[slot] = i + 1;
  }
  let found = 0;
  for (let offset = span.from; offset <= span.to && found < count; ) {
    const view = context.blocks.open(span.lane, span.pid, offset);
    if (view === undefined) return -1;
    const first = view.firstOffset;
    const end = Math.min(view.count, span.to - first + 1);
    let minted = false;
    for (let index = offset - first; index < end; index++) {
      const high = view.hashHigh(index);
      const low = view.hashLow(index);
      if (high === 0 && low === 0) {
        minted = true;
        continue;
      }
      for (let i = slots[low & mask] - 1; i >= 0; i = nextSameHash[i] - 1) {
        if (offsets[i] !== unresolved) continue;
        const item = order[begin + i];
        if (items.hashes[item * 2 + 1] !== low || items.hashes[item * 2] !== high) continue;
        if (!hasId(view, index, items.bytes, items.ends[item], items.ends[item + 1])) continue;
        offsets[i] = first + index;
        found++;
      }
    }
    if (minted) {
      for (let i = 0; i < count; i++) {
        if (offsets[i] !== unresolved) continue;
        const item = order[begin + i];
        if (!isMessageId(context, items, item, span.pid) || idParts.stampUs !== view.stampUs) continue;
        const at = first + idParts.index;
        if (at < offset || idParts.index >= end) continue;
        if (view.hashHigh(idParts.index) !== 0 || view.hashLow(idParts.index) !== 0) continue;
        offsets[i] = at;
        found++;
      }
    }
    offset = first + view.count;
  }
  return found;
}
