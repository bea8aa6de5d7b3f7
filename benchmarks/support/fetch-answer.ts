/**
 * What a replay needs of an answer of POST /api/v1/fetch, found by searching instead of parsing: how far each entry
 * came, and whether its records are those that follow. Good for the payloads of this load generator, which hold none of
 * the texts that are searched for.
 */
const recordBegins = Buffer.from('{"offset":');
const entryEnds = Buffer.from('],"highWatermark":');
const zero = 48;
const nine = 57;

export interface EntryProgress {
  /** The offset behind the last record; the one asked for when there was none. */
  next: number;
  highWatermark: number;
  records: number;
  /** Records that are not the ones that follow. */
  violations: number;
}

/** Calls `see` for each entry in bytes[start, end); `nextOf` tells the offset that was asked for. The object is used again. */
export function eachEntry(
  bytes: Buffer,
  start: number,
  end: number,
  nextOf: (index: number) => number,
  see: (index: number, progress: EntryProgress) => void,
): void {
  const progress: EntryProgress = { next: 0, highWatermark: 0, records: 0, violations: 0 };
  let at = start;
  for (let index = 0; ; index++) {
    const entryEnd = bytes.indexOf(entryEnds, at);
    if (entryEnd < 0 || entryEnd >= end) return;
    progress.next = nextOf(index);
    progress.records = 0;
    progress.violations = 0;
    for (;;) {
      const record = bytes.indexOf(recordBegins, at);
      if (record < 0 || record >= entryEnd) break;
      at = record + recordBegins.length;
      const offset = integerAt(bytes, at);
      if (offset !== progress.next) progress.violations++;
      progress.next = offset + 1;
      progress.records++;
    }
    at = entryEnd + entryEnds.length;
    progress.highWatermark = integerAt(bytes, at);
    see(index, progress);
  }
}

function integerAt(bytes: Buffer, start: number): number {
  let value = 0;
  for (let at = start; bytes[at] >= zero && bytes[at] <= nine; at++) value = value * 10 + bytes[at] - zero;
  return value;
}
