/**
 * The composition root: builds the adapters, wires them to a shard and the HTTP server, starts them in order and stops
 * them in the opposite one.
 */
import { resolve } from 'node:path';
import { createHasher } from './codec/mod.ts';
import type { BrokerConfig, LogLine } from './config/mod.ts';
import { hashState, openDataFolder, StateReplay } from './data-folder.ts';
import { DiskWatermark } from './disk-watermark.ts';
import { buildHttpServer } from './http/mod.ts';
import { Shard, type Store } from './runtime/mod.ts';
import { inspectLog, type LogReport, verifyLog } from './storage/offline.ts';
import { gapDamage } from './storage/segment-list.ts';
import { listSidecarCopies, listSidecars } from './storage/sidecar-build.ts';
import { checkSidecar } from './storage/sidecar-check.ts';
import { sidecarCopyPath, sidecarPath } from './storage/sidecar-format.ts';
import { openNewestSnapshot, SnapshotDamage } from './storage/snapshot-file.ts';
import { AesCipher } from './system/aes-cipher.ts';
import { NodeDisk } from './system/node-disk.ts';
import { SystemClock } from './system/system-clock.ts';
import { SystemRandom } from './system/system-random.ts';
import { SystemScheduler } from './system/system-scheduler.ts';
import { version } from './version.ts';
import { WorkerBackground } from './worker-background.ts';

export { type BrokerConfig, parseConfig } from './config/mod.ts';

export interface Broker {
  readonly url: string;
  /** What was found in the data folder, in words. */
  readonly recovered: string;
  stop(): Promise<void>;
}

/**
 * Opens the data folder and serves it. Rejects when the folder is in use or damaged, or the port is taken.
 * A broker that can no longer explain its own state ends the process with exit code 70.
 */
export async function startBroker(config: BrokerConfig, log: (line: LogLine) => void): Promise<Broker> {
  const location = resolve(config.dataFolder);
  const disk = new NodeDisk(location);
  await disk.makeFolder('');
  await refuseForeignFolder(disk);
  const lock = await disk.lock();
  const say = (level: 'info' | 'warn' | 'error', text: string): void => log({ level, text });
  const background = new WorkerBackground(location, (text) => say('warn', text));
  const clock = new SystemClock();
  const scheduler = new SystemScheduler();
  const cipher = config.encryptionKey === null ? null : new AesCipher(config.encryptionKey);
  const watermark = new DiskWatermark(disk, { fullShare: config.diskFullShare, freeShare: config.diskFreeShare }, say);
  const open = (): ReturnType<typeof openDataFolder> =>
    openDataFolder({
      disk,
      scheduler,
      clock,
      random: new SystemRandom(),
      background,
      logOptions: { segmentBytes: config.segmentBytes, tailBytes: config.tailBytes, coldBytes: config.coldBytes },
      log: say,
    });
  let store: Store & { readonly recovered: string };
  try {
    await watermark.start();
    store = await open();
  } catch (error) {
    watermark.stop();
    await background.close();
    await lock.release();
    throw error;
  }
  const shard = new Shard(
    store,
    {
      clock,
      scheduler,
      cipher,
      reopen: async () => {
        store = await open();
        return store;
      },
      isDiskFull: () => watermark.isFull(store.log.tail),
      log: say,
      fatal: (error) => {
        say('error', `the broker cannot explain its own state and stops: ${error.stack ?? error.message}`);
        process.exit(fatalExitCode);
      },
    },
    {
      snapshotLogBytes: config.snapshotLogBytes,
      parkedPopsMax: config.maxParkedPops,
      housekeeping: { cleanupUs: config.partitionCleanupDays * 86_400_000_000 },
    },
  );
  const http = buildHttpServer(shard, {
    port: config.port,
    host: config.host,
    maxBodyBytes: config.maxBodyBytes,
    defaultSubscriptionMode: config.defaultSubscriptionMode,
    admissionBytes: config.admissionBytes,
    admissionWaitMs: config.admissionWaitMs,
    answerBytes: config.answerBytes,
    slowReaderSeconds: config.slowReaderSeconds,
    requestTimeoutMs: config.requestTimeoutMs,
    receiveTimeoutMs: config.receiveTimeoutMs,
    keepAliveMs: config.keepAliveMs,
    maxConnections: config.maxConnections,
    maxHeaderBytes: config.maxHeaderBytes,
    stopGraceMs: config.stopGraceMs,
    version,
    decrypt: (bytes, start, end) => {
      if (cipher === null) throw new Error('the message is encrypted, and the broker was started without a key');
      return cipher.decrypt(bytes, start, end);
    },
    log,
  });
  const shutDown = async (): Promise<void> => {
    watermark.stop();
    await shard.stop();
    await background.close();
    await lock.release();
  };
  let url: string;
  try {
    ({ url } = await http.listen());
  } catch (error) {
    await shutDown();
    throw error;
  }
  return {
    url,
    recovered: store.recovered,
    stop: async () => {
      const closed = http.close();
      await shard.stop();
      await closed;
      await shutDown();
    },
  };
}

/**
 * A folder that holds other things was probably named by mistake. What file systems and tools put everywhere (lost+found,
 * names that begin with a dot) does not count.
 */
async function refuseForeignFolder(disk: NodeDisk): Promise<void> {
  const names = await disk.list('');
  if (names.some((name) => ownNames.has(name))) return;
  const foreign = names.find((name) => !name.startsWith('.') && name !== 'lost+found');
  if (foreign === undefined) return;
  throw new ForeignFolder(disk.location, foreign);
}

class ForeignFolder extends Error {
  readonly code = 'EFOREIGNFOLDER';

  constructor(location: string, found: string) {
    super(
      `${location} is not empty (it holds ${found}) and is no LaneMQ data folder: name an empty or a new one with --data`,
    );
    this.name = 'ForeignFolder';
  }
}

/** One of these is in every data folder, from its first start on. */
const ownNames: ReadonlySet<string> = new Set(['lock', 'segments']);

/** EX_SOFTWARE of sysexits.h. */
const fatalExitCode = 70;

/** What the log of a data folder holds, damaged or not. Changes nothing. */
export async function inspectDataFolder(folder: string): Promise<LogReport> {
  return inspectLog(new NodeDisk(resolve(folder)), await createHasher(0, 0));
}

/** Checks every checksum of log, sidecars and snapshots, and replays the whole log into a state. Changes nothing. */
export async function verifyDataFolder(
  folder: string,
): Promise<{ log: LogReport; problems: readonly string[]; stateHash: string }> {
  const disk = new NodeDisk(resolve(folder));
  const hasher = await createHasher(0, 0);
  const problems: string[] = [];
  const replay = await StateReplay.over(disk, hasher);
  let readable = true;
  const log = await verifyLog(disk, hasher, (header, bytes, view, from, to) => {
    if (!readable) return;
    try {
      replay.visit(header, bytes, view, from, to);
    } catch (error) {
      // What comes behind would only repeat the first fault.
      readable = false;
      problems.push(`entry ${header.sequence}: ${(error as Error).message}`);
    }
  });
  try {
    const { snapshot, damaged } = await openNewestSnapshot(disk, hasher);
    for (const damage of damaged) problems.push(damage.message);
    if (snapshot !== undefined && snapshot.meta.sequence > log.lastSequence) {
      problems.push(
        `${snapshot.path} holds entries up to ${snapshot.meta.sequence}, the log ends at ${log.lastSequence}`,
      );
    }
  } catch (error) {
    if (!(error instanceof SnapshotDamage)) throw error;
    problems.push(error.message);
  }
  const missing = gapDamage(log.gaps, (address) => replay.state.reclaimed.before(address));
  if (missing !== null) problems.push(missing.message);
  const sidecars = [
    ...(await listSidecars(disk)).map((base) => ({ base, path: sidecarPath(base) })),
    ...(await listSidecarCopies(disk)).map((base) => ({ base, path: sidecarCopyPath(base) })),
  ];
  for (const { base, path } of sidecars) {
    const damage = await checkSidecar(disk, hasher, base, path);
    if (damage !== undefined) problems.push(damage.message);
  }
  return { log, problems, stateHash: await hashState(replay.state) };
}
