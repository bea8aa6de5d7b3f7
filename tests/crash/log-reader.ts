/**
 * Reads the entries of a data folder straight from its segment files, by the layout of docs/formats.md, with no code of
 * the broker: so that a test knows which bytes hold which records, and what a broker cannot claim not to have known.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const entryMagic = 0x45514d4c;
const segmentHeaderBytes = 64;
const entryHeaderBytes = 64;
const blockType = 1;

export interface BlockSpan {
  readonly pid: number;
  readonly firstOffset: number;
  readonly count: number;
}

export interface EntrySpan {
  /** Relative to the data folder. */
  readonly file: string;
  /** In the file. */
  readonly position: number;
  readonly length: number;
  readonly sequence: number;
  readonly address: number;
  /** All bytes of the log below this address were on disk when the entry was written. */
  readonly syncedThrough: number;
  readonly blocks: readonly BlockSpan[];
}

/** Segment files of a data folder, oldest first, relative to it. */
export function segmentFiles(folder: string): string[] {
  return filesOf(folder, 'segments', '.seg');
}

/** Files in a sub-folder that end with `suffix`, sorted, relative to the data folder; none when there is no sub-folder. */
export function filesOf(folder: string, subFolder: string, suffix: string): string[] {
  const names = readdirSync(folder).includes(subFolder) ? readdirSync(join(folder, subFolder)) : [];
  return names
    .filter((name) => name.endsWith(suffix))
    .sort()
    .map((name) => `${subFolder}/${name}`);
}

/** All entries of an undamaged log, in order. */
export function readLog(folder: string): EntrySpan[] {
  return segmentFiles(folder).flatMap((file) => readSegment(folder, file));
}

function readSegment(folder: string, file: string): EntrySpan[] {
  const bytes = readFileSync(join(folder, file));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries: EntrySpan[] = [];
  let position = segmentHeaderBytes;
  while (position + entryHeaderBytes <= bytes.length && view.getUint32(position, true) === entryMagic) {
    const length = view.getUint32(position + 4, true);
    entries.push({
      file,
      position,
      length,
      address: u64(view, position + 16),
      sequence: u64(view, position + 24),
      syncedThrough: u64(view, position + 40),
      blocks: blocksIn(view, position + entryHeaderBytes, position + length),
    });
    position += length;
  }
  return entries;
}

function blocksIn(view: DataView, start: number, end: number): BlockSpan[] {
  const blocks: BlockSpan[] = [];
  let at = start;
  while (at < end) {
    if (view.getUint8(at + 4) === blockType) {
      blocks.push({ pid: u64(view, at + 8), firstOffset: u64(view, at + 16), count: view.getUint32(at + 32, true) });
    }
    at += view.getUint32(at, true);
  }
  return blocks;
}

function u64(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, true));
}
