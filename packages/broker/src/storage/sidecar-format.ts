/**
 * Sidecar files: `segments/<base, 16 hex digits>.idx`, one per sealed segment. The layout is drawn in docs/formats.md.
 *
 * A sidecar consists of pages of 4 KiB. Each page ends with its own number and a checksum, and no byte is believed
 * before the checksum of its page was compared: a flipped bit is an error with a name, never a wrong answer. A sidecar
 * holds nothing that is not in its segment, so it can be built again at any time.
 */
import { readU64, writeU64 } from '../codec/format.ts';
import type { LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { segmentFolder } from './segment-format.ts';

export const page = {
  bytes: 4096,
  /** Bytes of content. */
  room: 4084,
  /** u32: number of the page, 0 = the header page */ numberAt: 4084,
  /** u64 as two u32: xxh64, seed 0, of bytes 0..4088 */ checksumAt: 4088,
} as const;

export const sidecarHeader = {
  magic: 0x49514d4c, // "LMQI"
  version: 2,
  /** u32 */ magicAt: 0,
  /** u32 */ versionAt: 4,
  /** u64 */ baseAt: 8,
  /** u64: address behind the last entry */ endAt: 16,
  /** u64: stamp of the oldest and of the newest block; 0 when there is none */ minStampAt: 24,
  maxStampAt: 32,
  /** u64: bytes of all blocks, copies included */ blockBytesAt: 40,
  /** u32 each: rows of the sections, in the order of the sections */ countsAt: 48,
} as const;

/** The sections in the order of the file. Each begins on a page of its own; a row never crosses a page. */
export const sections = [
  /** pid u64 | firstOffset u64 | stampUs u64 | distance from the segment's base u32 | length u32 | count u32 */
  { name: 'blocks', rowBytes: 36 },
  /** pid u64 | hashHigh u32 | hashLow u32 | row of the block u32 | index in the block u32 */
  { name: 'ids', rowBytes: 24 },
  /** First row of each page of blocks: pid u64 | firstOffset u64 */
  { name: 'blockFences', rowBytes: 16 },
  /** First row of each page of ids: pid u64 | hashHigh u32 | hashLow u32 */
  { name: 'idFences', rowBytes: 16 },
  /** Key of each pid u32, ascending, each once */
  { name: 'pidKeys', rowBytes: 4 },
  /** Key of each (pid, fingerprint) u32, ascending, each once */
  { name: 'idKeys', rowBytes: 4 },
] as const;

export type SectionName = (typeof sections)[number]['name'];

export const blockRow = {
  pidAt: 0,
  firstOffsetAt: 8,
  stampAt: 16,
  distanceAt: 24,
  lengthAt: 28,
  countAt: 32,
} as const;

export const idRow = {
  pidAt: 0,
  hashHighAt: 8,
  hashLowAt: 12,
  blockAt: 16,
  indexAt: 20,
} as const;

/** Where one section lies. */
export interface SectionPlace {
  readonly rowBytes: number;
  readonly rowsPerPage: number;
  readonly rows: number;
  readonly firstPage: number;
  readonly pages: number;
}

export type SidecarPlan = { readonly [K in SectionName]: SectionPlace } & {
  /** All pages of the file, the header page included. */
  readonly pages: number;
};

/** What the header page says. */
export interface SidecarFacts {
  readonly base: LogAddress;
  readonly end: LogAddress;
  readonly minStampUs: number;
  readonly maxStampUs: number;
  /** Of all blocks, copies included. */
  readonly blockBytes: number;
  /** Rows per section. */
  readonly counts: { readonly [K in SectionName]: number };
}

/** The file cannot be used as the index of its segment. It is to be built again from the segment. */
export class SidecarDamage extends Error {
  readonly code = 'ESIDECARDAMAGE';
  readonly base: LogAddress;
  readonly reason: string;

  constructor(base: LogAddress, reason: string, options: { cause?: unknown; path?: string } = {}) {
    super(`the sidecar ${options.path ?? sidecarPath(base)} is damaged: ${reason}`, options);
    this.name = 'SidecarDamage';
    this.base = base;
    this.reason = reason;
  }
}

const nameDigits = 16;
const namePattern = /^[0-9a-f]{16}\.idx$/;
const copySuffix = '.copy';
const temporaryPattern = /^[0-9a-f]{16}\.idx(\.copy)?\.tmp$/;

/** `segments/00000000000000ff.idx` */
export function sidecarPath(base: LogAddress): string {
  return `${segmentFolder}/${base.toString(16).padStart(nameDigits, '0')}.idx`;
}

/** The second copy of a sidecar whose segment is given up. */
export function sidecarCopyPath(base: LogAddress): string {
  return `${sidecarPath(base)}${copySuffix}`;
}

/** The base address in the name of a second copy; undefined when the file is none. */
export function sidecarCopyBaseOf(name: string): LogAddress | undefined {
  return name.endsWith(copySuffix) ? sidecarBaseOf(name.slice(0, -copySuffix.length)) : undefined;
}

/** Where a sidecar is written before it gets its name. */
export function sidecarTemporaryPath(base: LogAddress): string {
  return `${sidecarPath(base)}.tmp`;
}

/** The base address in a file's name; undefined when the file is no sidecar. */
export function sidecarBaseOf(name: string): LogAddress | undefined {
  if (!namePattern.test(name)) return undefined;
  const base = Number.parseInt(name.slice(0, nameDigits), 16);
  return Number.isSafeInteger(base) ? base : undefined;
}

/** Where a copy is written, in either direction: a sidecar may be built again meanwhile. */
export function sidecarCopyTemporaryPath(base: LogAddress): string {
  return `${sidecarCopyPath(base)}.tmp`;
}

/** True for the name of a sidecar whose writing was cut short. */
export function isSidecarTemporary(name: string): boolean {
  return temporaryPattern.test(name);
}

/** Where the sections lie, given their numbers of rows. */
export function sidecarPlan(counts: SidecarFacts['counts']): SidecarPlan {
  const places: Record<string, SectionPlace> = {};
  let firstPage = 1;
  for (const { name, rowBytes } of sections) {
    const rows = counts[name];
    const rowsPerPage = Math.floor(page.room / rowBytes);
    const pages = Math.ceil(rows / rowsPerPage);
    places[name] = { rowBytes, rowsPerPage, rows, firstPage, pages };
    firstPage += pages;
  }
  return { ...(places as { [K in SectionName]: SectionPlace }), pages: firstPage };
}

/** Pages of a section with so many rows. */
export function sectionPages(name: SectionName, rows: number): number {
  const section = sections.find((candidate) => candidate.name === name)!;
  return Math.ceil(rows / Math.floor(page.room / section.rowBytes));
}

/** Writes the header's content into the page at `at`; `sealPage` is still to come. */
export function writeSidecarHeader(view: DataView, at: number, facts: SidecarFacts): void {
  const h = sidecarHeader;
  view.setUint32(at + h.magicAt, h.magic, true);
  view.setUint32(at + h.versionAt, h.version, true);
  writeU64(view, at + h.baseAt, facts.base);
  writeU64(view, at + h.endAt, facts.end);
  writeU64(view, at + h.minStampAt, facts.minStampUs);
  writeU64(view, at + h.maxStampAt, facts.maxStampUs);
  writeU64(view, at + h.blockBytesAt, facts.blockBytes);
  sections.forEach(({ name }, i) => {
    view.setUint32(at + h.countsAt + i * 4, facts.counts[name], true);
  });
}

/** Reads a header page whose checksum holds. Throws SidecarDamage when it is not the header of `base`'s sidecar. */
export function readSidecarHeader(view: DataView, base: LogAddress): SidecarFacts {
  const h = sidecarHeader;
  if (view.getUint32(h.magicAt, true) !== h.magic) throw new SidecarDamage(base, 'the file is no sidecar (bad magic)');
  const version = view.getUint32(h.versionAt, true);
  if (version !== h.version) {
    throw new SidecarDamage(base, `sidecar format version ${version} is not known to this broker`);
  }
  const written = readU64(view, h.baseAt);
  if (written !== base) throw new SidecarDamage(base, `it was written for the segment at ${written}`);
  const counts: Record<string, number> = {};
  sections.forEach(({ name }, i) => {
    counts[name] = view.getUint32(h.countsAt + i * 4, true);
  });
  return {
    base,
    end: readU64(view, h.endAt),
    minStampUs: readU64(view, h.minStampAt),
    maxStampUs: readU64(view, h.maxStampAt),
    blockBytes: readU64(view, h.blockBytesAt),
    counts: counts as SidecarFacts['counts'],
  };
}

/** Puts number and checksum behind the content of the page at `at`. */
export function sealPage(bytes: Uint8Array, view: DataView, at: number, number: number, checksum: Checksum): void {
  view.setUint32(at + page.numberAt, number, true);
  checksum.checksum(bytes, at, at + page.checksumAt);
  view.setUint32(at + page.checksumAt, checksum.low, true);
  view.setUint32(at + page.checksumAt + 4, checksum.high, true);
}

/** True when the page at `at` is page `number`, unchanged. */
export function pageHolds(bytes: Uint8Array, view: DataView, at: number, number: number, checksum: Checksum): boolean {
  if (view.getUint32(at + page.numberAt, true) !== number) return false;
  checksum.checksum(bytes, at, at + page.checksumAt);
  return (
    view.getUint32(at + page.checksumAt, true) === checksum.low &&
    view.getUint32(at + page.checksumAt + 4, true) === checksum.high
  );
}
