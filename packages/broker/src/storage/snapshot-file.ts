/**
 * Snapshot files: `snapshots/<sequence, 16 hex digits>.snap`. A container of named chunks of bytes; what is in them is
 * the state's own affair. The layout is drawn in docs/formats.md.
 *
 *   header 64 bytes | chunk | chunk | … | trailer
 *
 * Every part carries a checksum, the snapshot's sequence and its number in the file, and the trailer says how many there
 * were: a file that was cut, flipped, or pieced together from two is never taken for whole. A file gets its name only
 * when all of it is on the disk, so that a crash leaves the snapshots before it as they were.
 */
import { readU64, writeU64 } from '../codec/format.ts';
import type { Disk, DiskFile, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';

export const snapshotFolder = 'snapshots';

/** Longest chunk. Longer ones are cut by the writer. */
export const snapshotChunkBytesMax = 8 * 1024 * 1024;
/** Longest name of a section, in ASCII characters. */
export const snapshotNameLengthMax = 64;
/** Whole snapshots that stay in the folder. */
const snapshotsKept = 2;
/** Chunks up to this are gathered into one write. */
const gatheredBytesMax = 256 * 1024;
/** Written bytes between two syncs: one large sync at the end would hold up the log's syncs on the same disk. */
const bytesPerSync = 32 * 1024 * 1024;
const readBytes = 1024 * 1024;

const snapshotHeader = {
  bytes: 64,
  magic: 0x4e514d4c, // "LMQN"
  version: 1,
  /** u32 */ magicAt: 0,
  /** u32 */ versionAt: 4,
  /** u64 as two u32: xxh64, seed 0, of bytes 16..64 */ checksumAt: 8,
  /** u64 */ sequenceAt: 16,
  /** u64 */ addressAt: 24,
  /** u64 */ stampAt: 32,
  /** u32 */ digestAt: 40,
  /** u32 */ formatAt: 44,
  /** zeros up to 64 */ reservedAt: 48,
} as const;

/** In front of each chunk; the trailer is a chunk head of its own kind, with nothing behind it. */
const chunkHead = {
  bytes: 48,
  chunkMagic: 0x4b514d4c, // "LMQK"
  trailerMagic: 0x54514d4c, // "LMQT"
  /** u32 */ magicAt: 0,
  /** u32: length of the name behind the head; of the trailer 0 */ nameLengthAt: 4,
  /** u64 as two u32: xxh64, seed 0, of bytes 16.. of the head and the name */ checksumAt: 8,
  /** u64: of the snapshot */ sequenceAt: 16,
  /** u32: 0, 1, 2 … ; of the trailer the number of chunks */ numberAt: 24,
  /** u32: bytes behind the name; of the trailer 0 */ lengthAt: 28,
  /** u64 as two u32: xxh64, seed 0, of those bytes; of the trailer 0 */ contentChecksumAt: 32,
  /** u64: content bytes of all chunks before this one */ contentBeforeAt: 40,
} as const;

/** What a snapshot is a snapshot of. All numbers are below 2^53, `digest` and `format` below 2^32. */
export interface SnapshotMeta {
  /** Last log sequence that the state contains. */
  readonly sequence: number;
  /** Log address behind that entry: where the replay goes on. */
  readonly address: LogAddress;
  /** Broker time of that entry, microseconds. */
  readonly stampUs: number;
  /** Digest of the state. */
  readonly digest: number;
  /** Version of what is in the sections. */
  readonly format: number;
}

/** A piece of a section. Pieces of one name that follow each other are one section. */
export interface SnapshotChunk {
  /** ASCII, 1 to 64 characters. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A snapshot that was found whole. */
export interface StoredSnapshot {
  /** Path in the data folder. */
  readonly path: string;
  readonly meta: SnapshotMeta;
  /**
   * The chunks in the order in which they were written. The bytes of one are valid until the next is asked for. Checked
   * once more while reading; rejects with SnapshotDamage.
   */
  chunks(): AsyncGenerator<SnapshotChunk, void, undefined>;
}

export interface NewestSnapshot {
  /** Undefined when the folder holds none at all. */
  readonly snapshot: StoredSnapshot | undefined;
  /** Newer ones that could not be used. */
  readonly damaged: readonly SnapshotDamage[];
}

/** A snapshot is not what was written, or none that exists is whole. */
export class SnapshotDamage extends Error {
  readonly code = 'ESNAPSHOTDAMAGE';
  readonly path: string;
  readonly reason: string;

  constructor(path: string, reason: string, options?: { cause: unknown }) {
    super(`the snapshot ${path} is damaged: ${reason}`, options);
    this.name = 'SnapshotDamage';
    this.path = path;
    this.reason = reason;
  }
}

const nameDigits = 16;
const namePattern = /^[0-9a-f]{16}\.snap$/;
const temporaryPattern = /^[0-9a-f]{16}\.tmp$/;

function pathOf(sequence: number, extension: 'snap' | 'tmp'): string {
  return `${snapshotFolder}/${sequence.toString(16).padStart(nameDigits, '0')}.${extension}`;
}

/**
 * Writes a snapshot; when it resolves it is durable, and only the newest two are left in the folder, with nothing
 * unfinished beside them. One writer at a time. Each chunk's bytes are used until the next one is asked for.
 * Rejects with the error of `chunks` or of the disk; then the older snapshots are all still there.
 */
export async function writeSnapshot(
  disk: Disk,
  checksum: Checksum,
  meta: SnapshotMeta,
  chunks: AsyncIterable<SnapshotChunk> | Iterable<SnapshotChunk>,
): Promise<{ path: string; bytes: number }> {
  await disk.makeFolder(snapshotFolder);
  await disk.syncFolder('');
  const temporary = pathOf(meta.sequence, 'tmp');
  const path = pathOf(meta.sequence, 'snap');
  const file = await disk.open(temporary, 'create');
  let bytes: number;
  try {
    const writer = new SnapshotWriter(file, checksum, meta.sequence);
    await writer.header(meta);
    for await (const { name, bytes: content } of chunks) {
      let from = 0;
      do {
        const to = Math.min(content.length, from + snapshotChunkBytesMax);
        await writer.chunk(name, content, from, to);
        from = to;
      } while (from < content.length);
    }
    bytes = await writer.end();
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, path);
  await disk.syncFolder(snapshotFolder);
  await removeSuperseded(disk);
  return { path, bytes };
}

/**
 * Finds the newest snapshot that is whole, reading all of it once. Changes nothing in the folder.
 * Rejects with SnapshotDamage when there are snapshots and none is whole, and with the disk's own errors.
 */
export async function openNewestSnapshot(disk: Disk, checksum: Checksum): Promise<NewestSnapshot> {
  const damaged: SnapshotDamage[] = [];
  for (const sequence of await listSnapshots(disk)) {
    const path = pathOf(sequence, 'snap');
    try {
      const meta = await readAll(disk, checksum, path, sequence);
      const chunks = () => readChunks(disk, checksum, path, sequence);
      return { snapshot: { path, meta, chunks }, damaged };
    } catch (error) {
      if (!(error instanceof SnapshotDamage)) throw error;
      damaged.push(error);
    }
  }
  if (damaged.length > 0) {
    throw new SnapshotDamage(damaged[0].path, `${damaged[0].reason}; no older one is whole`, { cause: damaged });
  }
  return { snapshot: undefined, damaged };
}

/** Sequences of the snapshots in the folder, newest first. Says nothing about what is in the files. */
export async function listSnapshots(disk: Disk): Promise<number[]> {
  const sequences: number[] = [];
  for (const name of await disk.list(snapshotFolder)) {
    if (!namePattern.test(name)) continue;
    const sequence = Number.parseInt(name.slice(0, nameDigits), 16);
    if (Number.isSafeInteger(sequence)) sequences.push(sequence);
  }
  return sequences.sort((a, b) => b - a);
}

/**
 * What the snapshots in the folder say that they are of, newest first. Looks at their headers only; one whose header does
 * not hold is left out.
 */
export async function listSnapshotMetas(disk: Disk, checksum: Checksum): Promise<SnapshotMeta[]> {
  const metas: SnapshotMeta[] = [];
  for (const sequence of await listSnapshots(disk)) {
    const path = pathOf(sequence, 'snap');
    const file = await disk.open(path, 'read');
    try {
      metas.push(await new SnapshotReader(file, checksum, path, sequence).header());
    } catch (error) {
      if (!(error instanceof SnapshotDamage)) throw error;
    } finally {
      await file.close();
    }
  }
  return metas;
}

/**
 * The oldest snapshot that is whole, reading all of it once: with the log behind it, it shows most. `from`: the log is
 * complete behind this address, so that older ones are of no use; a power cut can bring back one whose removal was not
 * durable. Undefined when none is left.
 */
export async function openOldestSnapshot(
  disk: Disk,
  checksum: Checksum,
  from: LogAddress,
): Promise<StoredSnapshot | undefined> {
  for (const sequence of (await listSnapshots(disk)).reverse()) {
    const path = pathOf(sequence, 'snap');
    try {
      const meta = await readAll(disk, checksum, path, sequence);
      if (meta.address < from) continue;
      return { path, meta, chunks: () => readChunks(disk, checksum, path, sequence) };
    } catch (error) {
      if (!(error instanceof SnapshotDamage)) throw error;
    }
  }
  return undefined;
}

async function removeSuperseded(disk: Disk): Promise<void> {
  let removed = false;
  for (const sequence of (await listSnapshots(disk)).slice(snapshotsKept)) {
    await disk.remove(pathOf(sequence, 'snap'));
    removed = true;
  }
  for (const name of await disk.list(snapshotFolder)) {
    if (!temporaryPattern.test(name)) continue;
    await disk.remove(`${snapshotFolder}/${name}`);
    removed = true;
  }
  if (removed) await disk.syncFolder(snapshotFolder);
}

class SnapshotWriter {
  private readonly file: DiskFile;
  private readonly checksum: Checksum;
  private readonly sequence: number;
  private readonly gathered = new Uint8Array(gatheredBytesMax + chunkHead.bytes + snapshotNameLengthMax);
  private readonly view = new DataView(this.gathered.buffer);
  private filled = 0;
  private written = 0;
  private synced = 0;
  private chunkCount = 0;
  private contentBytes = 0;

  constructor(file: DiskFile, checksum: Checksum, sequence: number) {
    this.file = file;
    this.checksum = checksum;
    this.sequence = sequence;
  }

  async header(meta: SnapshotMeta): Promise<void> {
    const h = snapshotHeader;
    const { gathered, view, checksum } = this;
    gathered.fill(0, 0, h.bytes);
    view.setUint32(h.magicAt, h.magic, true);
    view.setUint32(h.versionAt, h.version, true);
    writeU64(view, h.sequenceAt, meta.sequence);
    writeU64(view, h.addressAt, meta.address);
    writeU64(view, h.stampAt, meta.stampUs);
    view.setUint32(h.digestAt, meta.digest, true);
    view.setUint32(h.formatAt, meta.format, true);
    checksum.checksum(gathered, h.checksumAt + 8, h.bytes);
    view.setUint32(h.checksumAt, checksum.low, true);
    view.setUint32(h.checksumAt + 4, checksum.high, true);
    this.filled = h.bytes;
    await this.flush();
  }

  async chunk(name: string, content: Uint8Array, from: number, to: number): Promise<void> {
    const length = to - from;
    const needed = chunkHead.bytes + name.length + Math.min(length, gatheredBytesMax);
    if (this.filled + needed > this.gathered.length) await this.flush();
    this.checksum.checksum(content, from, to);
    this.head(chunkHead.chunkMagic, name, length, this.checksum.high, this.checksum.low);
    this.chunkCount++;
    this.contentBytes += length;
    if (this.filled + length <= this.gathered.length) {
      this.gathered.set(content.subarray(from, to), this.filled);
      this.filled += length;
      return;
    }
    await this.flush();
    await this.write(content.subarray(from, to));
  }

  /** Writes the trailer; returns the length of the file. */
  async end(): Promise<number> {
    if (this.filled + chunkHead.bytes > this.gathered.length) await this.flush();
    this.head(chunkHead.trailerMagic, '', 0, 0, 0);
    await this.flush();
    return this.written;
  }

  private head(magic: number, name: string, length: number, contentHigh: number, contentLow: number): void {
    const h = chunkHead;
    const { gathered, view, checksum } = this;
    const at = this.filled;
    view.setUint32(at + h.magicAt, magic, true);
    view.setUint32(at + h.nameLengthAt, name.length, true);
    writeU64(view, at + h.sequenceAt, this.sequence);
    view.setUint32(at + h.numberAt, this.chunkCount, true);
    view.setUint32(at + h.lengthAt, length, true);
    view.setUint32(at + h.contentChecksumAt, contentLow, true);
    view.setUint32(at + h.contentChecksumAt + 4, contentHigh, true);
    writeU64(view, at + h.contentBeforeAt, this.contentBytes);
    writeName(gathered, at + h.bytes, name, magic === h.trailerMagic ? 0 : 1);
    checksum.checksum(gathered, at + h.checksumAt + 8, at + h.bytes + name.length);
    view.setUint32(at + h.checksumAt, checksum.low, true);
    view.setUint32(at + h.checksumAt + 4, checksum.high, true);
    this.filled = at + h.bytes + name.length;
  }

  private async flush(): Promise<void> {
    if (this.filled === 0) return;
    const { filled } = this;
    this.filled = 0;
    await this.write(this.gathered.subarray(0, filled));
  }

  private async write(bytes: Uint8Array): Promise<void> {
    await this.file.write(bytes, this.written);
    this.written += bytes.length;
    if (this.written - this.synced < bytesPerSync) return;
    await this.file.sync();
    this.synced = this.written;
  }
}

/** Throws a RangeError for a name that is too long, too short or not ASCII. */
function writeName(target: Uint8Array, at: number, name: string, lengthMin: number): void {
  if (name.length < lengthMin || name.length > snapshotNameLengthMax) {
    throw new RangeError(`a section's name has 1 to ${snapshotNameLengthMax} characters: '${name}'`);
  }
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code < 0x20 || code > 0x7e) throw new RangeError(`a section's name is printable ASCII: '${name}'`);
    target[at + i] = code;
  }
}

async function readAll(disk: Disk, checksum: Checksum, path: string, sequence: number): Promise<SnapshotMeta> {
  const file = await disk.open(path, 'read');
  try {
    const reader = new SnapshotReader(file, checksum, path, sequence);
    const meta = await reader.header();
    while ((await reader.next()) !== undefined);
    return meta;
  } finally {
    await file.close();
  }
}

async function* readChunks(
  disk: Disk,
  checksum: Checksum,
  path: string,
  sequence: number,
): AsyncGenerator<SnapshotChunk, void, undefined> {
  const file = await disk.open(path, 'read');
  try {
    const reader = new SnapshotReader(file, checksum, path, sequence);
    await reader.header();
    for (;;) {
      const chunk = await reader.next();
      if (chunk === undefined) return;
      yield chunk;
    }
  } finally {
    await file.close();
  }
}

/** Reads a snapshot from its beginning to its end and checks everything on the way. */
class SnapshotReader {
  private readonly file: DiskFile;
  private readonly checksum: Checksum;
  private readonly path: string;
  private readonly sequence: number;
  private bytes = new Uint8Array(readBytes);
  private view = new DataView(this.bytes.buffer);
  /** bytes[at, end) were read and are not used yet; `position` is the place of bytes[end] in the file. */
  private at = 0;
  private end = 0;
  private position = 0;
  private chunkCount = 0;
  private contentBytes = 0;

  constructor(file: DiskFile, checksum: Checksum, path: string, sequence: number) {
    this.file = file;
    this.checksum = checksum;
    this.path = path;
    this.sequence = sequence;
  }

  async header(): Promise<SnapshotMeta> {
    const h = snapshotHeader;
    await this.need(h.bytes, 'its header');
    const { view, at } = this;
    if (view.getUint32(at + h.magicAt, true) !== h.magic) throw this.damage('the file is no snapshot (bad magic)');
    const version = view.getUint32(at + h.versionAt, true);
    if (version !== h.version) throw this.damage(`snapshot format version ${version} is not known to this broker`);
    if (!this.holds(at + h.checksumAt + 8, at + h.bytes, at + h.checksumAt)) {
      throw this.damage('the header fails its checksum');
    }
    const sequence = readU64(view, at + h.sequenceAt);
    if (sequence !== this.sequence) throw this.damage(`its header says sequence ${sequence}`);
    this.at += h.bytes;
    return {
      sequence,
      address: readU64(view, at + h.addressAt),
      stampUs: readU64(view, at + h.stampAt),
      digest: view.getUint32(at + h.digestAt, true),
      format: view.getUint32(at + h.formatAt, true),
    };
  }

  /** The next chunk; undefined after the last one, when the trailer agrees with what was read. */
  async next(): Promise<SnapshotChunk | undefined> {
    const h = chunkHead;
    const what = `chunk ${this.chunkCount}`;
    await this.need(h.bytes, what);
    const nameLength = this.view.getUint32(this.at + h.nameLengthAt, true);
    const magic = this.view.getUint32(this.at + h.magicAt, true);
    if ((magic !== h.chunkMagic && magic !== h.trailerMagic) || nameLength > snapshotNameLengthMax) {
      throw this.damage(`neither a chunk nor the trailer stands where ${what} should`);
    }
    await this.need(h.bytes + nameLength, what);
    const head = this.at;
    if (!this.holds(head + h.checksumAt + 8, head + h.bytes + nameLength, head + h.checksumAt)) {
      throw this.damage(`the head of ${what} fails its checksum`);
    }
    if (
      readU64(this.view, head + h.sequenceAt) !== this.sequence ||
      this.view.getUint32(head + h.numberAt, true) !== this.chunkCount ||
      readU64(this.view, head + h.contentBeforeAt) !== this.contentBytes
    ) {
      throw this.damage(`what stands where ${what} should belongs elsewhere`);
    }
    if (magic === h.trailerMagic) {
      this.at += h.bytes;
      if ((await this.available(1)) > 0) throw this.damage('bytes follow behind its trailer');
      return undefined;
    }
    const length = this.view.getUint32(head + h.lengthAt, true);
    const headBytes = h.bytes + nameLength;
    await this.need(headBytes + length, what);
    const { at } = this;
    const from = at + headBytes;
    if (!this.holds(from, from + length, at + h.contentChecksumAt)) {
      throw this.damage(`the content of ${what} fails its checksum`);
    }
    let name = '';
    for (let i = at + h.bytes; i < from; i++) name += String.fromCharCode(this.bytes[i]);
    this.at = from + length;
    this.chunkCount++;
    this.contentBytes += length;
    return { name, bytes: this.bytes.subarray(from, from + length) };
  }

  private holds(from: number, to: number, checksumAt: number): boolean {
    this.checksum.checksum(this.bytes, from, to);
    return (
      this.view.getUint32(checksumAt, true) === this.checksum.low &&
      this.view.getUint32(checksumAt + 4, true) === this.checksum.high
    );
  }

  private async need(count: number, what: string): Promise<void> {
    if ((await this.available(count)) < count) throw this.damage(`it ends within ${what}`);
  }

  /** Tries to have `count` unused bytes in memory; returns how many there are, fewer only at the end of the file. */
  private async available(count: number): Promise<number> {
    if (this.end - this.at >= count) return this.end - this.at;
    if (this.at + count > this.bytes.length) this.makeRoom(count);
    while (this.end - this.at < count) {
      const got = await this.file.read(this.bytes.subarray(this.end), this.position);
      if (got === 0) break;
      this.end += got;
      this.position += got;
    }
    return this.end - this.at;
  }

  private makeRoom(count: number): void {
    const unused = this.bytes.subarray(this.at, this.end);
    if (count > this.bytes.length) {
      this.bytes = new Uint8Array(count + readBytes);
      this.view = new DataView(this.bytes.buffer);
    }
    this.bytes.set(unused);
    this.end = unused.length;
    this.at = 0;
  }

  private damage(reason: string): SnapshotDamage {
    return new SnapshotDamage(this.path, reason);
  }
}
