/**
 * Dead letters: rows that refer to a record by (pid, offset). The payload stays in the log, so whoever gives log space
 * back asks here first what is still referred to: `isReferenced`, `offsetsOf`, `countOf`.
 *
 *   by id      (stamp, index) → row: a hash look-up
 *   in order   all rows, those of a queue, those of a group of it: arrays in filing order. A removed row stays as a
 *              hole until half of its array is holes; then they are squeezed out, step by step with the changes that follow
 *   by record  pid → its only row, or its rows by offset
 *
 * A queue's rows go with it at once; what its rows occupy in the look-ups is given back by `collectGarbage`, in slices.
 */
import type { DeadLetterRecord } from './records.ts';

class Row {
  readonly record: DeadLetterRecord;
  readonly queue: QueueLetters;
  readonly group: LetterList;
  isRemoved = false;

  constructor(record: DeadLetterRecord, queue: QueueLetters, group: LetterList) {
    this.record = record;
    this.queue = queue;
    this.group = group;
  }
}

function isLive(row: Row): boolean {
  return !row.isRemoved && !row.queue.isRemoved;
}

const holesKept = 64;
/** Places that a page looks at before others have their turn. */
const pageStep = 500;
/** Holes are squeezed out some places at a time, after so many changes: long before half of the places are holes again. */
const squeezeStep = { changes: 64, places: 512 } as const;

/** Rows in filing order, which is that of (stamp, index), with holes where rows were removed. */
class LetterList {
  /**
   * While holes are squeezed out, places [#squeezedTo, #squeezedFrom) mean nothing: what was live in them has moved to
   * before #squeezedTo.
   */
  #rows: Row[] = [];
  #squeezedTo = 0;
  #squeezedFrom = 0;
  #isSqueezing = false;
  #changes = 0;
  live = 0;
  /** Rises when rows get other places. */
  moves = 0;

  /** Rows and holes. */
  get length(): number {
    return this.#rows.length - this.#squeezedFrom + this.#squeezedTo;
  }

  at(place: number): Row {
    return this.#rows[place < this.#squeezedTo ? place : place + this.#squeezedFrom - this.#squeezedTo];
  }

  add(row: Row): void {
    this.#rows.push(row);
    this.live++;
    this.#changed();
  }

  /** `count` of its rows are holes from now on. */
  removed(count: number): void {
    this.live -= count;
    const holes = this.length - this.live;
    if (holes > holesKept && holes > this.live) this.#isSqueezing = true;
    this.#changed();
  }

  #changed(): void {
    if (!this.#isSqueezing || ++this.#changes < squeezeStep.changes) return;
    this.#changes = 0;
    this.#squeeze(squeezeStep.places);
  }

  /** Takes out the last place, which may be a hole. */
  pop(): Row {
    const row = this.at(this.length - 1);
    // Nothing is squeezed out of a list that is given back from its end.
    this.#rows.length--;
    if (this.#rows.length === this.#squeezedFrom) this.#endSqueeze();
    return row;
  }

  /** Looks at the next `count` places for holes to squeeze out. */
  squeeze(count: number): void {
    if (this.#isSqueezing) this.#squeeze(count);
  }

  #squeeze(count: number): void {
    const rows = this.#rows;
    const end = Math.min(rows.length, this.#squeezedFrom + count);
    let to = this.#squeezedTo;
    for (let from = this.#squeezedFrom; from < end; from++) {
      const row = rows[from];
      if (isLive(row)) rows[to++] = row;
    }
    this.#squeezedTo = to;
    this.#squeezedFrom = end;
    this.moves++;
    if (end === rows.length) this.#endSqueeze();
  }

  #endSqueeze(): void {
    this.#rows.length = this.#squeezedTo;
    this.#squeezedTo = 0;
    this.#squeezedFrom = 0;
    this.#isSqueezing = false;
  }

  /** Place of the first row filed after (stampUs, index). */
  after(stampUs: number, index: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { record } = this.at(middle);
      if (record.stampUs < stampUs || (record.stampUs === stampUs && record.index <= index)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

class QueueLetters extends LetterList {
  readonly groups = new Map<string, LetterList>();
  isRemoved = false;
}

/** Rows of one partition. */
class PidRows {
  readonly byOffset = new Map<number, Row | Row[]>();
  count = 0;
  /** Distinct offsets, ascending; null = to be sorted again. */
  sorted: Float64Array | null = null;
}

/** Which rows: null = all queues, all groups of the queue. A group without a queue looks at every row. */
export interface LetterSelection {
  readonly queueNumber: number | null;
  readonly group: string | null;
}

/** Place in a walk: the last row that was visited; the start is {stampUs: -1, index: 0}. */
export interface LetterPlace {
  stampUs: number;
  index: number;
}

export class DeadLetters {
  readonly #all = new LetterList();
  readonly #queues = new Map<number, QueueLetters>();
  readonly #byStamp = new Map<number, Row | Map<number, Row>>();
  readonly #byPid = new Map<number, Row | PidRows>();
  readonly #removedQueues: QueueLetters[] = [];

  get count(): number {
    return this.#all.live;
  }

  add(record: DeadLetterRecord): void {
    let queue = this.#queues.get(record.queueNumber);
    if (queue === undefined) {
      queue = new QueueLetters();
      this.#queues.set(record.queueNumber, queue);
    }
    let group = queue.groups.get(record.group);
    if (group === undefined) {
      group = new LetterList();
      queue.groups.set(record.group, group);
    }
    const row = new Row(record, queue, group);
    this.#all.add(row);
    queue.add(row);
    group.add(row);
    this.#addId(row);
    this.#addPid(row);
  }

  #addId(row: Row): void {
    const { stampUs, index } = row.record;
    const found = this.#byStamp.get(stampUs);
    if (found === undefined) this.#byStamp.set(stampUs, row);
    else if (found instanceof Row) {
      this.#byStamp.set(
        stampUs,
        new Map([
          [found.record.index, found],
          [index, row],
        ]),
      );
    } else found.set(index, row);
  }

  #addPid(row: Row): void {
    const { pid } = row.record;
    const found = this.#byPid.get(pid);
    if (found === undefined) this.#byPid.set(pid, row);
    else if (found instanceof Row) {
      const rows = new PidRows();
      addOffset(rows, found);
      addOffset(rows, row);
      this.#byPid.set(pid, rows);
    } else addOffset(found, row);
  }

  #find(stampUs: number, index: number): Row | undefined {
    const found = this.#byStamp.get(stampUs);
    const row = found instanceof Map ? found.get(index) : found;
    return row !== undefined && row.record.index === index && isLive(row) ? row : undefined;
  }

  /** The row with this id, or undefined. */
  get(stampUs: number, pid: number, index: number): DeadLetterRecord | undefined {
    const record = this.#find(stampUs, index)?.record;
    return record?.pid === pid ? record : undefined;
  }

  /** Removes a row; the record it was, or undefined when there is none. */
  remove(stampUs: number, index: number): DeadLetterRecord | undefined {
    const row = this.#find(stampUs, index);
    if (row === undefined) return undefined;
    row.isRemoved = true;
    this.#forget(row);
    row.group.removed(1);
    row.queue.removed(1);
    this.#all.removed(1);
    if (row.group.live === 0) row.queue.groups.delete(row.record.group);
    if (row.queue.live === 0) this.#queues.delete(row.record.queueNumber);
    return row.record;
  }

  /** Takes a row out of the look-ups. */
  #forget(row: Row): void {
    const { stampUs, index, pid } = row.record;
    const found = this.#byStamp.get(stampUs);
    if (found instanceof Map) {
      found.delete(index);
      if (found.size === 0) this.#byStamp.delete(stampUs);
    } else if (found === row) this.#byStamp.delete(stampUs);
    const ofPid = this.#byPid.get(pid);
    if (ofPid === row) this.#byPid.delete(pid);
    else if (ofPid instanceof PidRows) {
      removeOffset(ofPid, row);
      if (ofPid.count === 0) this.#byPid.delete(pid);
    }
  }

  removeQueue(queueNumber: number): void {
    const queue = this.#queues.get(queueNumber);
    if (queue === undefined) return;
    this.#queues.delete(queueNumber);
    queue.isRemoved = true;
    this.#all.removed(queue.live);
    this.#removedQueues.push(queue);
  }

  get hasGarbage(): boolean {
    return this.#removedQueues.length > 0;
  }

  /** Gives back what up to `max` rows of removed queues occupy. */
  collectGarbage(max: number): void {
    let left = max;
    for (let queue = this.#removedQueues[0]; queue !== undefined && left > 0; queue = this.#removedQueues[0]) {
      for (; left > 0 && queue.length > 0; left--) {
        const row = queue.pop();
        if (!row.isRemoved) this.#forget(row);
      }
      if (queue.length === 0) this.#removedQueues.shift();
    }
    this.#all.squeeze(max * (squeezeStep.places / squeezeStep.changes));
  }

  /** In filing order. */
  *all(): Generator<DeadLetterRecord> {
    for (let i = 0; i < this.#all.length; i++) {
      const row = this.#all.at(i);
      if (isLive(row)) yield row.record;
    }
  }

  #list(selection: LetterSelection): LetterList | undefined {
    if (selection.queueNumber === null) return this.#all;
    const queue = this.#queues.get(selection.queueNumber);
    return selection.group === null ? queue : queue?.groups.get(selection.group);
  }

  /** How many rows there are; counted one by one only for a group without a queue. */
  countOf(selection: LetterSelection): number {
    if (selection.queueNumber !== null || selection.group === null) return this.#list(selection)?.live ?? 0;
    let count = 0;
    for (const queue of this.#queues.values()) count += queue.groups.get(selection.group)?.live ?? 0;
    return count;
  }

  /**
   * A page of the selected rows, newest first, and how many there are. Yields how many places it has looked at since the
   * last time; rows may come and go meanwhile.
   */
  *page(
    selection: LetterSelection,
    offset: number,
    limit: number,
  ): Generator<number, { rows: DeadLetterRecord[]; total: number }, undefined> {
    const rows: DeadLetterRecord[] = [];
    const total = this.countOf(selection);
    // Only a group without a queue has rows of others in its list.
    const group = selection.queueNumber === null ? selection.group : null;
    let passed = 0;
    let place: LetterPlace = { stampUs: Number.POSITIVE_INFINITY, index: 0 };
    while (rows.length < limit && passed < total) {
      const list = this.#list(selection);
      const end = list?.after(place.stampUs, place.index - 1) ?? 0;
      const from = Math.max(0, end - pageStep);
      for (let i = end - 1; i >= from && list !== undefined && rows.length < limit; i--) {
        const row = list.at(i);
        place = row.record;
        if (!isLive(row) || (group !== null && row.record.group !== group)) continue;
        if (passed++ >= offset) rows.push(row.record);
      }
      if (from === 0) break;
      yield end - from;
    }
    return { rows, total };
  }

  /**
   * Visits rows in filing order, from behind `place` on, which moves along; at most `max` steps, and no further than a
   * visit that answers false. True when the walk is at its end.
   */
  walk(
    selection: LetterSelection,
    place: LetterPlace,
    max: number,
    visit: (record: DeadLetterRecord) => boolean,
  ): boolean {
    const list = this.#list(selection);
    if (list === undefined) return true;
    let at = list.after(place.stampUs, place.index);
    for (let steps = 0; steps < max && at < list.length; steps++) {
      const row = list.at(at);
      const { moves } = list;
      place.stampUs = row.record.stampUs;
      place.index = row.record.index;
      const goesOn = !isLive(row) || visit(row.record);
      // A visit may remove rows.
      at = list.moves === moves ? at + 1 : list.after(place.stampUs, place.index);
      if (!goesOn) break;
    }
    return at >= list.length;
  }

  // What gives log space back asks.

  /** True when a dead letter needs the payload of this record. */
  isReferenced(pid: number, offset: number): boolean {
    const found = this.#byPid.get(pid);
    if (found === undefined) return false;
    return found instanceof Row ? isLive(found) && found.record.offset === offset : found.byOffset.has(offset);
  }

  /** True when a row refers to a record of the partition in [from, to). */
  refersTo(pid: number, from: number, to: number): boolean {
    const offsets = this.offsetsOf(pid);
    let low = 0;
    let high = offsets.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (offsets[middle] < from) low = middle + 1;
      else high = middle;
    }
    return low < offsets.length && offsets[low] < to;
  }

  /** Dead letters of a partition. */
  countOfPid(pid: number): number {
    const found = this.#byPid.get(pid);
    if (found === undefined) return 0;
    return found instanceof Row ? (isLive(found) ? 1 : 0) : found.count;
  }

  /** Offsets that dead letters of a partition refer to, ascending, each once. Kept until a row comes or goes. */
  offsetsOf(pid: number): Float64Array {
    const found = this.#byPid.get(pid);
    if (found === undefined) return new Float64Array(0);
    if (found instanceof Row) return isLive(found) ? Float64Array.of(found.record.offset) : new Float64Array(0);
    found.sorted ??= Float64Array.from(found.byOffset.keys()).sort();
    return found.sorted;
  }

  /** Rows that refer to a record, one per group. */
  rowsAt(pid: number, offset: number): DeadLetterRecord[] {
    const found = this.#byPid.get(pid);
    if (found === undefined) return [];
    const at = found instanceof Row ? (found.record.offset === offset ? found : undefined) : found.byOffset.get(offset);
    const rows = at === undefined ? [] : Array.isArray(at) ? at : [at];
    return rows.filter(isLive).map(({ record }) => record);
  }

  /** Rows of a partition. */
  *rowsOf(pid: number): Generator<DeadLetterRecord> {
    const found = this.#byPid.get(pid);
    if (found === undefined) return;
    if (found instanceof Row) {
      if (isLive(found)) yield found.record;
      return;
    }
    for (const at of found.byOffset.values()) {
      for (const row of Array.isArray(at) ? at : [at]) if (isLive(row)) yield row.record;
    }
  }
}

function addOffset(rows: PidRows, row: Row): void {
  const { offset } = row.record;
  const found = rows.byOffset.get(offset);
  if (found === undefined) {
    rows.byOffset.set(offset, row);
    rows.sorted = null;
  } else rows.byOffset.set(offset, Array.isArray(found) ? [...found, row] : [found, row]);
  rows.count++;
}

function removeOffset(rows: PidRows, row: Row): void {
  const { offset } = row.record;
  const found = rows.byOffset.get(offset);
  const left = Array.isArray(found) ? found.filter((other) => other !== row) : [];
  if (left.length > 0) rows.byOffset.set(offset, left.length === 1 ? left[0] : left);
  else {
    rows.byOffset.delete(offset);
    rows.sorted = null;
  }
  rows.count--;
}
