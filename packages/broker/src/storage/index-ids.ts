/**
 * The ids of one of the newest segments: an open-addressing hash table of 12 bytes per slot.
 *
 *   u32 keyHigh | u32 keyLow | u32 ordinal of the record within the segment, plus 1; 0 = the slot is free
 *
 * Which partition, offset and stamp belong to a record follows from its ordinal through the block rows. Of several
 * records with the same id only the newest is kept: it is the only one that is ever an answer.
 *
 * The table consists of 64 parts that grow by half when four fifths are used, each at a time of its own: their sizes
 * start spread over the range of one growth. So no addition waits for the whole table, and while it grows the mean use
 * stays at about two thirds: 18 bytes per id.
 */

const partBits = 6;
const partCount = 1 << partBits;
const fields = 3;
const growth = 1.5;
const usedShareMax = 0.8;
/** Slots of the smallest part at the start; the whole table starts with 60 KiB. */
const firstSlots = 64;

/** Tells the table which partition a record belongs to. Asked only about records with equal keys. */
export interface RecordPids {
  pidOfOrdinal(ordinal: number): number;
}

export class IdTable {
  /** Ids in the table. */
  count = 0;
  private readonly records: RecordPids;
  /**
   * Shared, so that a sidecar can be made of them elsewhere. V8 does not count such memory: while little else is allocated
   * it would not be collected for minutes, so it is used again.
   */
  private readonly parts: Uint32Array<SharedArrayBuffer>[] = [];
  private readonly slots = new Int32Array(partCount);
  private readonly room = new Int32Array(partCount);

  /**
   * @param before the table of the segment before: what it needed, this one will need too, so it begins with the same
   * sizes. Growing from nothing takes more time than all the rest: 140 ns per id instead of 55.
   * @param unused a table that nobody asks any more, here or elsewhere: its parts are taken where the sizes are the same.
   */
  constructor(records: RecordPids, before?: IdTable, unused?: IdTable) {
    this.records = records;
    for (let part = 0; part < partCount; part++) {
      const slots = before?.slotsNeeded(part) ?? Math.round(firstSlots * growth ** (part / partCount));
      this.parts.push(unused?.slots[part] === slots ? unused.parts[part].fill(0) : emptyPart(slots));
      this.slots[part] = slots;
      this.room[part] = Math.floor(slots * usedShareMax);
    }
  }

  get bytes(): number {
    let bytes = 0;
    for (const part of this.parts) bytes += part.byteLength;
    return bytes;
  }

  /** Adds a record's id, or lets it take the place of an older record of the partition with the same id. */
  add(pid: number, keyHigh: number, keyLow: number, ordinal: number): void {
    const part = keyHigh >>> (32 - partBits);
    if (this.room[part] === 0) this.grow(part);
    const table = this.parts[part];
    const high = keyHigh >>> 0;
    const low = keyLow >>> 0;
    let at = homeSlot(low, this.slots[part]) * fields;
    while (table[at + 2] !== 0) {
      if (table[at + 1] === low && table[at] === high && this.records.pidOfOrdinal(table[at + 2] - 1) === pid) {
        table[at + 2] = ordinal + 1;
        return;
      }
      at += fields;
      if (at === table.length) at = 0;
    }
    table[at] = high;
    table[at + 1] = low;
    table[at + 2] = ordinal + 1;
    this.room[part]--;
    this.count++;
  }

  /** Ordinal of the newest record of the partition with this id; −1 when there is none. */
  find(pid: number, keyHigh: number, keyLow: number): number {
    const part = keyHigh >>> (32 - partBits);
    const table = this.parts[part];
    const high = keyHigh >>> 0;
    const low = keyLow >>> 0;
    let at = homeSlot(low, this.slots[part]) * fields;
    while (table[at + 2] !== 0) {
      if (table[at + 1] === low && table[at] === high) {
        const ordinal = table[at + 2] - 1;
        if (this.records.pidOfOrdinal(ordinal) === pid) return ordinal;
      }
      at += fields;
      if (at === table.length) at = 0;
    }
    return -1;
  }

  /** The memory of the 64 parts, see `visitIds`. */
  sharedParts(): SharedArrayBuffer[] {
    return this.parts.map((part) => part.buffer);
  }

  /** Slots that the next segment's part begins with: as many as this one has, half of them when not even half were used. */
  private slotsNeeded(part: number): number {
    const slots = this.slots[part];
    const used = Math.floor(slots * usedShareMax) - this.room[part];
    return used * 2 >= slots ? slots : Math.max(Math.round(firstSlots * growth ** (part / partCount)), slots >>> 1);
  }

  private grow(part: number): void {
    const old = this.parts[part];
    const oldSlots = this.slots[part];
    const slots = Math.ceil(oldSlots * growth);
    const table = emptyPart(slots);
    let used = 0;
    for (let from = 0; from < old.length; from += fields) {
      if (old[from + 2] === 0) continue;
      let at = homeSlot(old[from + 1], slots) * fields;
      while (table[at + 2] !== 0) {
        at += fields;
        if (at === table.length) at = 0;
      }
      table[at] = old[from];
      table[at + 1] = old[from + 1];
      table[at + 2] = old[from + 2];
      used++;
    }
    this.parts[part] = table;
    this.slots[part] = slots;
    this.room[part] = Math.floor(slots * usedShareMax) - used;
  }
}

function emptyPart(slots: number): Uint32Array<SharedArrayBuffer> {
  return new Uint32Array(new SharedArrayBuffer(slots * fields * 4));
}

/** Shows the ids of one part, in any order. */
export function visitIds(part: Uint32Array, visit: (keyHigh: number, keyLow: number, ordinal: number) => void): void {
  for (let at = 0; at < part.length; at += fields) {
    if (part[at + 2] !== 0) visit(part[at], part[at + 1], part[at + 2] - 1);
  }
}

const inverse32 = 1 / 0x1_0000_0000;

/** Maps 32 evenly spread bits to [0, slots) by multiplication, so that the number of slots may be any. */
function homeSlot(key: number, slots: number): number {
  return (key * slots * inverse32) | 0;
}
