/**
 * Opens a data folder: finds the newest snapshot, replays the log behind it, and indexes what has no sidecar. What comes
 * out is a Store, ready for a shard. The same steps, without the log being opened for writing, verify a folder and build
 * the next snapshot.
 */
import { createHasher, entryHeader, type Hasher, readRecords, recordType, writeGenesis } from './codec/mod.ts';
import { BrokerState, type RecordHandlers, StateLoader, saveState, stateFormat } from './core/mod.ts';
import { SoloLog } from './log/solo-log.ts';
import type {
  Background,
  BuiltSnapshot,
  Clock,
  Disk,
  EntryHeader,
  LogAddress,
  Random,
  Scheduler,
} from './ports/mod.ts';
import { type Store, StoreDamage } from './runtime/mod.ts';
import { type IndexOptions, SegmentedIndex } from './storage/index-segmented.ts';
import { LogDamage } from './storage/log-damage.ts';
import type { LogOptions } from './storage/log-options.ts';
import { readLog, readSegment } from './storage/log-reader.ts';
import { segmentFolder, segmentPath } from './storage/segment-format.ts';
import { gapDamage, gapsOf, listSegments } from './storage/segment-list.ts';
import {
  buildSidecar,
  listSidecarCopies,
  listSidecars,
  removeUnfinishedSidecars,
  type VisitSegment,
} from './storage/sidecar-build.ts';
import { copySidecar, restoreSidecar } from './storage/sidecar-copy.ts';
import { SidecarDamage, sidecarPath } from './storage/sidecar-format.ts';
import {
  listSnapshotMetas,
  openNewestSnapshot,
  openOldestSnapshot,
  SnapshotDamage,
  type StoredSnapshot,
  writeSnapshot,
} from './storage/snapshot-file.ts';

export interface DataFolderParts {
  readonly disk: Disk;
  readonly scheduler: Scheduler;
  readonly clock: Clock & { startAt(us: number): void };
  readonly random: Random;
  readonly background: Background;
  readonly logOptions: Partial<LogOptions>;
  readonly indexOptions?: IndexOptions;
  /** Partitions and cursors the state has room for at first. */
  readonly rowsAtFirst?: number;
  readonly log: (level: 'info' | 'warn' | 'error', text: string) => void;
}

/**
 * Partitions and cursors that a state has room for at first. Address space, not memory, until they exist; it spares the
 * copies, and the holes they leave, of growing there.
 */
const roomForRows = 1 << 20;

/** Replaying gives another state than the one that wrote the log: a fault of ours, or of memory. */
export class StateDiverged extends Error {
  override readonly name = 'StateDiverged';
}

/** Applies entries to a state, checking before each that the state is the one that wrote it. */
class Replay {
  readonly state: BrokerState;
  entries = 0;

  constructor(state: BrokerState) {
    this.state = state;
  }

  apply(
    header: EntryHeader,
    bytes: Uint8Array,
    view: DataView,
    from: number,
    to: number,
    handlers: RecordHandlers,
  ): void {
    if (!isClosedMark(view, from) && header.digest !== this.state.digest >>> 0) {
      throw new StateDiverged(
        `entry ${header.sequence} was written by a state with digest ${header.digest}, replaying gives ${this.state.digest >>> 0}`,
      );
    }
    this.state.edges.recordBase = header.address + entryHeader.bytes - from;
    readRecords(bytes, view, from, to, handlers);
    this.entries++;
  }
}

function isClosedMark(view: DataView, from: number): boolean {
  return view.getUint8(from + 4) === recordType.closed;
}

/**
 * Passes blocks on to the index, and all records to the state before that. Without a state (`applied` null) the records are
 * those of entries that `state` holds already: then only blocks of partitions that still exist matter.
 */
function indexing(
  state: BrokerState,
  applied: BrokerState | null,
  index: SegmentedIndex,
  addressOf: (at: number) => LogAddress,
): RecordHandlers {
  return {
    edges: applied?.edges ?? null,
    genesis: (record) => applied?.genesis(record),
    queue: (record) => applied?.queue(record),
    queueDeleted: (record) => {
      const queue = applied?.queueByNumber.get(record.number);
      if (queue !== undefined) for (let i = 0; i < queue.laneCount; i++) index.forgetLane(queue.lanes[i]);
      applied?.queueDeleted(record);
    },
    partition: (...facts) => applied?.partition(...facts),
    block: (pid, firstOffset, stampUs, count, length, bytes, view, at) => {
      applied?.block(pid, firstOffset, stampUs, count, length, bytes, view, at);
      const lane = state.partitions.findPid(pid);
      if (lane >= 0) index.addBlock(lane, bytes, view, at, addressOf(at));
    },
    subscription: (record) => applied?.subscription(record),
    cursor: (record) => applied?.cursor(record),
    deadLetter: (record) => applied?.deadLetter(record),
    subscriptionDeleted: (record) => applied?.subscriptionDeleted(record),
    partitionPaused: (record) => applied?.partitionPaused(record),
    logStart: (record) => applied?.logStart(record),
    partitionsDeleted: (queueNumber, pids) => {
      if (applied === null) return;
      for (const pid of pids) index.forgetLane(applied.partitions.findPid(pid));
      applied.partitionsDeleted(queueNumber, pids);
    },
    relocatedBlock: (pid, firstOffset, fromAddress, bytes, view, at) => {
      applied?.relocatedBlock(pid, firstOffset, fromAddress, bytes, view, at);
      if (state.partitions.findPid(pid) >= 0) index.addRelocated(bytes, view, at, addressOf(at));
    },
    segmentReclaimed: (range) => applied?.segmentReclaimed(range),
    trace: (record) => applied?.trace(record),
    deadLetterRemoved: (record) => applied?.deadLetterRemoved(record),
    dueRecord: (...facts) => applied?.dueRecord(...facts),
    dueChanged: (...facts) => applied?.dueChanged(...facts),
  };
}

async function loadSnapshot(snapshot: StoredSnapshot, rowsAtFirst: number): Promise<BrokerState> {
  if (snapshot.meta.format !== stateFormat) {
    throw new Error(`${snapshot.path} has format ${snapshot.meta.format}: it was written by another release`);
  }
  const loader = new StateLoader(rowsAtFirst);
  for await (const chunk of snapshot.chunks()) loader.add(chunk);
  return loader.finish();
}

/** A snapshot whose bytes hold but make no state is as good as a damaged one. */
function unusable(path: string): (error: Error) => never {
  return (error) => {
    throw new SnapshotDamage(path, error.message, { cause: error });
  };
}

interface Start {
  readonly state: BrokerState;
  /** Sequence and address behind the last entry the state holds. */
  readonly sequence: number;
  readonly address: LogAddress;
}

/** The state of the newest whole snapshot, or an empty one: the log is complete without any. */
async function newestState(
  disk: Disk,
  hasher: Hasher,
  log: DataFolderParts['log'],
  rowsAtFirst: number,
): Promise<Start> {
  try {
    const { snapshot, damaged } = await openNewestSnapshot(disk, hasher);
    for (const damage of damaged) log('warn', `${damage.message}; an older one is used`);
    if (snapshot !== undefined) {
      const { sequence, address } = snapshot.meta;
      return { state: await loadSnapshot(snapshot, rowsAtFirst).catch(unusable(snapshot.path)), sequence, address };
    }
  } catch (error) {
    if (!(error instanceof SnapshotDamage)) throw error;
    log('warn', `${error.message}; the whole log is replayed instead`);
  }
  return { state: new BrokerState(rowsAtFirst), sequence: 0, address: 0 };
}

export async function openDataFolder(parts: DataFolderParts): Promise<Store & { readonly recovered: string }> {
  const { disk, scheduler, log } = parts;
  const plain = await createHasher(0, 0);
  await removeUnfinishedSidecars(disk);
  const soloLog = await SoloLog.open({ disk, checksum: plain, scheduler, options: parts.logOptions });
  try {
    return await recover(parts, plain, soloLog);
  } catch (error) {
    log('error', `the data folder cannot be used: ${(error as Error).message}`);
    await soloLog.close().catch(() => undefined);
    throw error;
  }
}

interface Replayed {
  readonly entries: number;
  /** Segments that are known by their sidecars. */
  readonly adopted: number;
  /** Sealed segments that have no usable sidecar: they are indexed in memory. */
  readonly unindexed: ReadonlySet<LogAddress>;
}

/** Brings the state from its snapshot to the end of the log, and all blocks into the index. */
async function replayLog(
  disk: Disk,
  plain: Hasher,
  soloLog: SoloLog,
  index: SegmentedIndex,
  start: Start,
): Promise<Replayed> {
  const { state } = start;
  const replay = new Replay(state);
  const segments = soloLog.segments();
  let adopted = 0;
  let replayFrom = soloLog.tail;
  const unindexed = new Set<LogAddress>();
  for (const segment of segments) {
    if (!segment.sealed) {
      replayFrom = Math.min(replayFrom, segment.base);
      continue;
    }
    const isOld = segment.end <= start.address;
    // Its file is still to be removed; nobody needs what is in it.
    if (isOld && state.reclaimed.holds(segment.base)) continue;
    let adoption = await index.adopt(segment.base);
    if (!adoption.ok && isOld) {
      const visitSegment: VisitSegment = (base, visit) => readSegment(disk, plain, base, visit, {}, segment.end);
      await buildSidecar(disk, plain, visitSegment, segment.base);
      adoption = await index.adopt(segment.base);
    }
    if (adoption.ok) adopted++;
    else unindexed.add(segment.base);
    if (!isOld) replayFrom = Math.min(replayFrom, segment.base);
  }

  let next = 0;
  let inMemory = false;
  let current: EntryHeader | null = null;
  let recordsAt = 0;
  const addressOf = (at: number): LogAddress => (current as EntryHeader).address + entryHeader.bytes + at - recordsAt;
  const withIndex = indexing(state, state, index, addressOf);
  const indexOnly = indexing(state, null, index, addressOf);
  const enter = (address: LogAddress): void => {
    while (next < segments.length && segments[next].base <= address) {
      const segment = segments[next++];
      if (segment.base < replayFrom) continue;
      inMemory = !segment.sealed || unindexed.has(segment.base);
      // What was written to deleted partitions is not shown to the index.
      if (inMemory) index.beginSegment(segment.base, false);
    }
  };
  await soloLog.replay(replayFrom, (header, bytes, view, from, to) => {
    enter(header.address);
    current = header;
    recordsAt = from;
    if (header.sequence <= start.sequence) {
      if (inMemory) readRecords(bytes, view, from, to, indexOnly);
    } else replay.apply(header, bytes, view, from, to, inMemory ? withIndex : state);
  });
  enter(soloLog.tail);
  return { entries: replay.entries, adopted, unindexed };
}

async function recover(
  parts: DataFolderParts,
  plain: Hasher,
  soloLog: SoloLog,
): Promise<Store & { readonly recovered: string }> {
  const { disk, scheduler, background, clock, log } = parts;
  const { cut } = soloLog.recovery;
  if (cut !== null) {
    log('warn', `${cut.bytes} bytes of an unfinished write at log address ${cut.address} were dropped: ${cut.reason}`);
  }
  const start = await newestState(disk, plain, log, parts.rowsAtFirst ?? roomForRows);
  const { state } = start;
  const snapshotReclaimed = [...state.reclaimed.all()];
  if (start.sequence > soloLog.recovery.lastSequence) {
    throw new LogDamage(
      segmentFolder,
      soloLog.recovery.tail,
      `it ends with entry ${soloLog.recovery.lastSequence}, and the snapshot holds entries up to ${start.sequence}`,
    );
  }
  const { gaps } = soloLog.recovery;
  const hole = gaps.find(({ end }) => end > start.address);
  if (hole !== undefined) {
    throw new LogDamage(
      segmentPath(hole.base),
      hole.base,
      `nothing is left of the log from here to ${hole.end}, and without a newer snapshot it is needed from ${start.address} on`,
    );
  }
  soloLog.noteReclaimed((address) => state.reclaimed.before(address));
  const repair = (damage: SidecarDamage): Promise<void> => indexQueue.repair(damage);
  const index: SegmentedIndex = new SegmentedIndex({ disk, checksum: plain, scheduler, repair }, parts.indexOptions);
  const idsNeededSinceUs = (): number => clock.nowUs() - longestWindowUs(state);
  const endOf = (base: LogAddress): LogAddress | undefined =>
    soloLog.segments().find((segment) => segment.base === base)?.end;
  const indexQueue = new IndexQueue(index, background, log, idsNeededSinceUs, endOf, {
    make: (base) => copySidecar(disk, plain, base),
    restore: (base) => restoreSidecar(disk, plain, base),
  });
  let replayed: Replayed;
  try {
    replayed = await replayLog(disk, plain, soloLog, index, start);
    const missing = gapDamage(gaps, (address) => state.reclaimed.before(address));
    if (missing !== null) throw missing;
    soloLog.noteReclaimed((address) => state.reclaimed.before(address));
    await adoptIdsOfReclaimed(disk, plain, soloLog, index, state, log);
  } catch (error) {
    await index.close();
    throw error;
  }
  state.collectGarbage(Number.POSITIVE_INFINITY);

  clock.startAt(Math.max(state.lastStampUs, soloLog.recovery.lastStampUs));
  if (!state.exists) await beginState(parts, soloLog, state);
  const hasher = await createHasher(state.identity.seedHigh, state.identity.seedLow);
  soloLog.onSegmentBegun = (base) => index.beginSegment(base, true);
  soloLog.onSegmentSealed = (base) => indexQueue.add(base);
  for (const base of replayed.unindexed) indexQueue.add(base);
  let snapshotAddress = start.address;
  // One that is newer than the state that was loaded is damaged.
  let snapshots: { sequence: number; address: LogAddress }[] = (await listSnapshotMetas(disk, plain)).filter(
    ({ sequence }) => sequence <= start.sequence,
  );
  const replayedSequence = soloLog.nextSequence - 1;
  let snapshotBytes = 0;
  return {
    log: soloLog,
    index,
    state,
    hasher,
    random: parts.random,
    background,
    segments: {
      sealed: () => soloLog.segments().filter((segment) => segment.sealed),
      blockBytes: (base) => index.blockBytes(base),
      unsealedBlockBytes: () =>
        soloLog.segments().reduce((sum, { base, sealed }) => (sealed ? sum : sum + index.blockBytes(base)), 0),
      visitBlocks: (base, visit, pause) => index.visitBlocks(base, visit, pause),
      hasRelocated: (pid, offset, address) => index.hasRelocated(pid, offset, address),
      dropBlocks: async (base) => {
        // What is left of it afterwards cannot be built again.
        if (index.usesIds(base)) await indexQueue.copy(base);
        await index.drop(base);
      },
      remove: (base) => soloLog.removeSegment(base),
      expireIds: () => index.expireIds(idsNeededSinceUs()),
      announcedBy: (base) => {
        if (snapshotReclaimed.some((range) => range.base <= base && base < range.end)) return start.sequence;
        return state.reclaimed.holds(base) ? replayedSequence : undefined;
      },
      snapshots: () => ({
        newestSequence: snapshots[0]?.sequence ?? 0,
        newestAddress: snapshots[0]?.address ?? 0,
        newestBytes: snapshotBytes,
        coveredAddress: snapshots[1]?.address ?? 0,
      }),
    },
    epoch: soloLog.epoch,
    recovered: `${replayed.entries} log entries replayed, ${state.partitions.count} partitions, ${replayed.adopted} segments indexed`,
    bytesSinceSnapshot: () => soloLog.tail - snapshotAddress,
    segmentCount: () => soloLog.segments().length,
    stats: () => ({ ...soloLog.stats(), ...index.stats(), logTail: soloLog.tail, logEpoch: soloLog.epoch }),
    snapshotTaken: ({ sequence, address, bytes }) => {
      snapshotAddress = address;
      snapshotBytes = bytes;
      snapshots = [{ sequence, address }, ...snapshots.filter((known) => known.sequence < sequence)].slice(0, 2);
    },
    close: async () => {
      indexQueue.stop();
      await soloLog.close();
      await background.cancel();
      await index.close();
    },
    abandon: async () => {
      indexQueue.stop();
      await soloLog.close().catch(() => undefined);
      // Whoever opens the folder next builds what is missing: two must not write the same file.
      await background.cancel();
      await index.close();
    },
  };
}

/** Ids outlive the records that had them: what is left of segments that were reclaimed is taken into use for them. */
async function adoptIdsOfReclaimed(
  disk: Disk,
  plain: Hasher,
  soloLog: SoloLog,
  index: SegmentedIndex,
  state: BrokerState,
  log: DataFolderParts['log'],
): Promise<void> {
  const ends = new Map(soloLog.segments().map(({ base, end }) => [base, end]));
  for (const base of new Set([...(await listSidecars(disk)), ...(await listSidecarCopies(disk))])) {
    // The file of one that was reclaimed may still be there, for a moment.
    const end = ends.get(base);
    if (end !== undefined && !state.reclaimed.holds(base)) continue;
    const adoption = await index.adopt(base, 'ids');
    if (adoption.ok) continue;
    const damage = adoption.reason === 'missing' ? `${sidecarPath(base)} is missing` : adoption.damage.message;
    if (end !== undefined && (await builtAgain(disk, plain, base, end)) && (await index.adopt(base, 'ids')).ok) {
      log('warn', `${damage}; it was built again`);
      continue;
    }
    if ((await restoreSidecar(disk, plain, base)) && (await index.adopt(base, 'ids')).ok) {
      log('warn', `${damage}; ${takenFromCopy}`);
      continue;
    }
    log('error', `${damage}: ${forgottenIds}`);
    await index.discard(base);
  }
}

/** False when the segment cannot be read. */
async function builtAgain(disk: Disk, plain: Hasher, base: LogAddress, end: LogAddress): Promise<boolean> {
  try {
    await buildSidecar(disk, plain, (from, visit) => readSegment(disk, plain, from, visit, {}, end), base);
    return true;
  } catch (error) {
    if (!(error instanceof LogDamage)) throw error;
    return false;
  }
}

const takenFromCopy = 'its segment was reclaimed, and its copy takes its place';
const forgottenIds =
  'its segment was reclaimed, and it has no copy, so that the ids in it are forgotten; duplicates of them are not recognised';

/** Ids are asked for at least this long, also when no queue has such a window: late acks name them. */
const idsKeptUsMin = 900 * 1_000_000;

/** How far back any push may ask for an id. */
function longestWindowUs(state: BrokerState): number {
  let longest = idsKeptUsMin;
  for (const queue of state.queues.values()) longest = Math.max(longest, queue.dedupUs, queue.completedUs);
  return longest;
}

/** The first entry of a new log: the numbers drawn once. */
async function beginState(parts: DataFolderParts, soloLog: SoloLog, state: BrokerState): Promise<void> {
  const drawn = new Uint8Array(16);
  parts.random.fill(drawn);
  const view = new DataView(drawn.buffer);
  const { draft } = soloLog;
  const address = draft.base + draft.position;
  writeGenesis(draft, {
    saltHigh: drawn[0],
    saltLow: view.getUint32(4, true),
    seedHigh: view.getUint32(8, true),
    seedLow: view.getUint32(12, true),
    createdAtUs: parts.clock.nowUs(),
  });
  const digest = state.digest;
  readRecords(draft.bytes, draft.view, address - draft.base, draft.position, state);
  const durable = new Promise<void>((resolve, reject) => {
    soloLog.onDurable = () => resolve();
    soloLog.onFailure = reject;
  });
  soloLog.seal({ stampUs: state.lastStampUs, digest, recordCount: 1 });
  await durable;
}

/** The second copies of sidecars, see storage/sidecar-copy.ts. */
interface SidecarCopies {
  make(base: LogAddress): Promise<void>;
  restore(base: LogAddress): Promise<boolean>;
}

/** Builds sidecars one after the other and takes each into use. */
class IndexQueue {
  readonly #index: SegmentedIndex;
  readonly #background: Background;
  readonly #log: DataFolderParts['log'];
  readonly #bases: LogAddress[] = [];
  /** Stamp before which nobody asks for ids any more. */
  readonly #idsNeededSinceUs: () => number;
  readonly #repairs = new Map<LogAddress, Promise<void>>();
  /** Where the segment at a base ends; undefined when its file is gone. */
  readonly #endOf: (base: LogAddress) => LogAddress | undefined;
  readonly #copies: SidecarCopies;
  #running = false;
  #stopped = false;

  constructor(
    index: SegmentedIndex,
    background: Background,
    log: DataFolderParts['log'],
    idsNeededSinceUs: () => number,
    endOf: (base: LogAddress) => LogAddress | undefined,
    copies: SidecarCopies,
  ) {
    this.#endOf = endOf;
    this.#copies = copies;
    this.#index = index;
    this.#idsNeededSinceUs = idsNeededSinceUs;
    this.#background = background;
    this.#log = log;
  }

  add(base: LogAddress): void {
    this.#bases.push(base);
    if (!this.#running) void this.#run();
  }

  stop(): void {
    this.#stopped = true;
  }

  /**
   * Builds a damaged sidecar again; those who meet the same damage wait for the same repair. Rejects with StoreDamage when
   * the segment itself cannot be read.
   */
  repair(damage: SidecarDamage): Promise<void> {
    let repair = this.#repairs.get(damage.base);
    if (repair === undefined) {
      const end = this.#endOf(damage.base);
      if (end !== undefined) this.#log('warn', `${damage.message}; it is built again`);
      repair = (end === undefined ? this.#restore(damage) : this.#rebuild(damage.base, end)).finally(() =>
        this.#repairs.delete(damage.base),
      );
      this.#repairs.set(damage.base, repair);
    }
    return repair;
  }

  /** Makes a copy of a sidecar whose segment is about to go. */
  async copy(base: LogAddress): Promise<void> {
    try {
      await this.#copies.make(base);
    } catch (error) {
      if (!(error instanceof SidecarDamage)) throw error;
      try {
        await this.repair(error);
        await this.#copies.make(base);
      } catch (failure) {
        if (!(failure instanceof StoreDamage)) throw failure;
        // Neither of the two can be read: nobody needs a block of it, and the ids that can be read stay.
        this.#log('error', `${error.message}, and it has no copy: ${failure.message}`);
      }
    }
  }

  async #restore(damage: SidecarDamage): Promise<void> {
    const { base } = damage;
    if ((await this.#copies.restore(base)) && (await this.#index.adopt(base, 'ids')).ok) {
      this.#log('warn', `${damage.message}; ${takenFromCopy}`);
      return;
    }
    this.#log('error', `${damage.message}: ${forgottenIds}`);
    await this.#index.discard(base);
  }

  async #rebuild(base: LogAddress, end: LogAddress): Promise<void> {
    try {
      // Never of the rows in memory: the damage may have come from them.
      await this.#background.buildSegmentIndex(base, end, null);
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ELOGDAMAGE') throw error;
      throw new StoreDamage(`the index of segment ${base} cannot be built again: ${(error as Error).message}`);
    }
    if (this.#stopped) throw new Error('the index is closed');
    const adoption = await this.#index.adopt(base);
    if (!adoption.ok) throw new Error(`the index of segment ${base} is ${adoption.reason} right after it was built`);
  }

  async #run(): Promise<void> {
    this.#running = true;
    for (let base = this.#bases.shift(); base !== undefined && !this.#stopped; base = this.#bases.shift()) {
      const end = this.#endOf(base);
      if (end === undefined) continue;
      try {
        await this.#background.buildSegmentIndex(base, end, this.#index.rowsOf(base, end));
        if (this.#stopped) break;
        const adoption = await this.#index.adopt(base);
        if (!adoption.ok)
          this.#log('error', `the index of segment ${base} is ${adoption.reason} right after it was built`);
        await this.#index.expireIds(this.#idsNeededSinceUs());
      } catch (error) {
        // Its rows stay in memory; the next start builds it again.
        if (!this.#stopped) this.#log('error', `segment ${base} could not be indexed: ${(error as Error).message}`);
      }
    }
    this.#running = false;
  }
}

/** Loads the newest snapshot, applies the log up to `throughSequence`, writes the next one. */
export async function buildSnapshot(
  disk: Disk,
  throughSequence: number,
  log: DataFolderParts['log'],
  rowsAtFirst: number = roomForRows,
): Promise<BuiltSnapshot> {
  const hasher = await createHasher(0, 0);
  const start = await newestState(disk, hasher, log, rowsAtFirst);
  const { state } = start;
  const replay = new Replay(state);
  let address = start.address;
  if (start.sequence < throughSequence) {
    const range = {
      from: start.address,
      afterSequence: start.sequence === 0 ? -1 : start.sequence,
      throughSequence,
    };
    address = await readLog(disk, hasher, range, (header, bytes, view, from, to) => {
      replay.apply(header, bytes, view, from, to, state);
    });
  }
  const meta = {
    sequence: throughSequence,
    address,
    stampUs: state.lastStampUs,
    digest: state.digest >>> 0,
    format: stateFormat,
  };
  const { bytes } = await writeSnapshot(disk, hasher, meta, saveState(state));
  return { sequence: throughSequence, address, digest: state.digest, bytes };
}

/** 64-bit hash of a whole state, as 16 hexadecimal digits: equal for equal states. */
export async function hashState(state: BrokerState): Promise<string> {
  const hasher = await createHasher(0, 0);
  const folded = new Uint8Array(16);
  const view = new DataView(folded.buffer);
  for (const piece of saveState(state)) {
    hasher.checksum(piece.bytes, 0, piece.bytes.length);
    view.setUint32(8, hasher.high, true);
    view.setUint32(12, hasher.low, true);
    hasher.checksum(folded, 0, 16);
    view.setUint32(0, hasher.high, true);
    view.setUint32(4, hasher.low, true);
  }
  return view.getUint32(0, true).toString(16).padStart(8, '0') + view.getUint32(4, true).toString(16).padStart(8, '0');
}

/**
 * Applies a log, as `verifyLog` shows it, to a state: to an empty one when the log is there from its beginning, else to
 * that of the oldest whole snapshot.
 */
export class StateReplay {
  readonly state: BrokerState;
  readonly #replay: Replay;
  /** What the state holds from the start. */
  readonly #throughSequence: number;

  constructor(state: BrokerState = new BrokerState(), throughSequence = 0) {
    this.state = state;
    this.#replay = new Replay(state);
    this.#throughSequence = throughSequence;
  }

  /** For the log in a folder as it is now. */
  static async over(disk: Disk, hasher: Hasher): Promise<StateReplay> {
    const segments = await listSegments(disk, hasher, () => undefined);
    const lastGap = gapsOf(segments).at(-1);
    if (lastGap === undefined) return new StateReplay();
    const snapshot = await openOldestSnapshot(disk, hasher, lastGap.end);
    if (snapshot === undefined) return new StateReplay();
    return new StateReplay(await loadSnapshot(snapshot, 1024), snapshot.meta.sequence);
  }

  visit(header: EntryHeader, bytes: Uint8Array, view: DataView, from: number, to: number): void {
    if (header.sequence <= this.#throughSequence) return;
    this.#replay.apply(header, bytes, view, from, to, this.state);
  }
}
