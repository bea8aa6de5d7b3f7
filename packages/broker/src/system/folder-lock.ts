/**
 * One broker per data folder, without native modules: the folder `lock` of a data folder holds Unix domain sockets named
 * 1, 2, 3 … The holder is the process that listens on the one with the greatest number.
 *
 * The kernel stops the listening when a process ends, however it ends, so nothing is left to clean up by hand, and a
 * process that gets an old one's pid is not taken for it. A stopped process (SIGSTOP, a debugger) still holds the lock:
 * connections are accepted by the kernel.
 *
 * Taking it: look for the greatest number n and connect to it. If somebody answers, the folder is in use. Else listen on a
 * socket under a name of our own and link it, atomically, to n + 1. Two processes cannot both get n + 1. A slow process
 * that links to an n + 1 that was taken, and then cleaned up, meanwhile finds a greater number when it looks again, and
 * withdraws: the greatest number is never removed, not even by its holder on release, only smaller ones are, and only by
 * the holder of a greater one. (A single file, unlinked when it is stale, does not work: of two processes that find it
 * stale the slower one unlinks the lock of the faster.)
 *
 * Processes in different containers see each other if they share the file system and the kernel. On a network file
 * system brokers on different machines do not see each other; data folders belong on a local disk.
 */
import { randomBytes } from 'node:crypto';
import { link, mkdir, mkdtemp, readdir, realpath, rm, symlink, unlink } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FolderLock } from '../ports/mod.ts';

/** The longest path that every system takes for a socket; longer ones are reached through a symbolic link. */
const socketPathBytesMax = 100;
/** Each attempt ends because another process made progress; more than this is a fault of the file system. */
const attemptsMax = 100;

/** Another live process holds the folder. */
export class FolderInUse extends Error {
  readonly code = 'EDATALOCKED';

  constructor(location: string) {
    super(`data folder ${location} is in use by another running broker`);
    this.name = 'FolderInUse';
  }
}

/**
 * Takes the lock of the data folder, which is made if it is missing. Rejects with FolderInUse at once when another process
 * has it (also another part of this one), and with the system's error when the file system has no Unix sockets.
 */
export async function lockFolder(location: string): Promise<FolderLock> {
  await mkdir(join(location, 'lock'), { recursive: true });
  const folder = join(await realpath(location), 'lock');
  return withShortPath(folder, async (shortFolder) => {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const server = await tryLock(folder, shortFolder, location);
      if (server !== null) return { release: () => close(server) };
    }
    throw new Error(`the lock of data folder ${location} could not be taken in ${attemptsMax} attempts`);
  });
}

/** Null: another process was faster somewhere; look again. */
async function tryLock(folder: string, shortFolder: string, location: string): Promise<Server | null> {
  const greatest = await greatestNumber(folder);
  if (greatest > 0) {
    const state = await probe(join(shortFolder, String(greatest)));
    if (state === 'live') throw new FolderInUse(location);
    if (state === 'gone') return null;
  }
  const ownName = `${randomBytes(8).toString('hex')}.new`;
  const server = await listen(join(shortFolder, ownName));
  try {
    const mine = greatest + 1;
    const isLinked = await linkExclusively(join(folder, ownName), join(folder, String(mine)));
    await removeIfPresent(join(folder, ownName));
    if (isLinked) {
      if ((await greatestNumber(folder)) === mine) {
        await removeOlder(folder, shortFolder, mine);
        return server;
      }
      await removeIfPresent(join(folder, String(mine)));
    }
  } catch (error) {
    await close(server);
    throw error;
  }
  await close(server);
  return null;
}

async function greatestNumber(folder: string): Promise<number> {
  let greatest = 0;
  for (const name of await readdir(folder)) {
    if (/^[1-9]\d{0,14}$/.test(name)) greatest = Math.max(greatest, Number(name));
  }
  return greatest;
}

/** Sockets with smaller numbers, and those of processes that ended before they linked theirs. */
async function removeOlder(folder: string, shortFolder: string, mine: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const isOlder = /^\d+$/.test(name) && Number(name) < mine;
    // One that was just made and does not listen yet looks dead too: its maker then finds its link refused, and tries again.
    const isAbandoned = name.endsWith('.new') && (await probe(join(shortFolder, name))) === 'dead';
    if (isOlder || isAbandoned) await removeIfPresent(join(folder, name));
  }
}

function probe(path: string): Promise<'live' | 'dead' | 'gone'> {
  return new Promise((fulfil, reject) => {
    const socket = connect(path);
    socket.on('connect', () => {
      socket.destroy();
      fulfil('live');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') fulfil('dead');
      else if (error.code === 'ENOENT') fulfil('gone');
      // Its queue of connections is full, which takes a listener, or it ended this one.
      else if (error.code === 'EAGAIN' || error.code === 'ECONNRESET' || error.code === 'EPIPE') fulfil('live');
      else reject(error);
    });
  });
}

function listen(path: string): Promise<Server> {
  return new Promise((fulfil, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.unref();
    server.once('error', reject);
    server.listen({ path, backlog: 16 }, () => {
      server.removeListener('error', reject);
      // Connections that cannot be accepted, for want of descriptors, do not change who holds the lock.
      server.on('error', () => undefined);
      fulfil(server);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((fulfil) => {
    server.close(() => fulfil());
  });
}

/** False when the new name is taken, or the old one was removed by another process's cleaning. */
async function linkExclusively(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EEXIST' || code === 'ENOENT') return false;
    throw error;
  }
}

async function removeIfPresent(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Runs `use` with a name of the folder that is short enough for sockets in it. */
async function withShortPath<Result>(folder: string, use: (shortFolder: string) => Promise<Result>): Promise<Result> {
  const longestName = `${folder}/${'0'.repeat(20)}`;
  if (Buffer.byteLength(longestName) <= socketPathBytesMax) return use(folder);
  const scratch = await mkdtemp(join(tmpdir(), 'lanemq-'));
  try {
    const shortFolder = join(scratch, 'd');
    await symlink(folder, shortFolder);
    return await use(shortFolder);
  } finally {
    await rm(scratch, { recursive: true });
  }
}
