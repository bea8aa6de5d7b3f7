import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { NodeDisk } from '../../src/system/node-disk.ts';

const root = await mkdtemp(join(tmpdir(), 'lanemq-lock-'));
const children = new Set<ChildProcess>();
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(root, { recursive: true });
});
let folders = 0;
const newFolder = (): string => join(root, `d${folders++}`);
const holderPath = fileURLToPath(new URL('./lock-holder.js', import.meta.url));

interface Holder {
  readonly child: ChildProcess;
  /** `locked`, or the code of the refusal. */
  readonly answer: string;
  readonly nextLine: () => Promise<string>;
}

async function startHolder(location: string): Promise<Holder> {
  const child = spawn(process.execPath, [holderPath, location], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  child.once('exit', () => children.delete(child));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => String((await lines.next()).value);
  return { child, answer: await nextLine(), nextLine };
}

async function kill(holder: Holder): Promise<void> {
  const exit = once(holder.child, 'exit');
  holder.child.kill('SIGKILL');
  await exit;
}

const isInUse = (location: string) => (error: NodeJS.ErrnoException) => {
  assert.equal(error.code, 'EDATALOCKED');
  assert.equal(error.message, `data folder ${location} is in use by another running broker`);
  return true;
};

test('a folder is locked once, in one process and across processes, until it is released', async () => {
  const location = newFolder();
  const disk = new NodeDisk(location);
  const lock = await disk.lock();
  await assert.rejects(disk.lock(), isInUse(location));
  await assert.rejects(new NodeDisk(location).lock(), isInUse(location));
  assert.equal((await startHolder(location)).answer, 'EDATALOCKED');
  await lock.release();
  const holder = await startHolder(location);
  assert.equal(holder.answer, 'locked');
  await assert.rejects(disk.lock(), isInUse(location));
  holder.child.stdin?.write('release\n');
  assert.equal(await holder.nextLine(), 'released');
  await (await disk.lock()).release();
});

test('a process that is killed gives the lock back at once, and a stopped one keeps it', async () => {
  const location = newFolder();
  const disk = new NodeDisk(location);
  for (let i = 0; i < 3; i++) {
    const holder = await startHolder(location);
    assert.equal(holder.answer, 'locked');
    holder.child.kill('SIGSTOP');
    // More than its queue of connections takes.
    for (let j = 0; j < 40; j++) await assert.rejects(disk.lock(), isInUse(location));
    await kill(holder);
    await (await disk.lock()).release();
  }
  const names = await readdir(join(location, 'lock'));
  assert.ok(names.length <= 2, `old sockets are cleaned up: ${names}`);
});

test('of many that start at once after a crash exactly one gets the lock', async () => {
  const location = newFolder();
  for (let round = 0; round < 3; round++) {
    const holders = await Promise.all(Array.from({ length: 6 }, () => startHolder(location)));
    const winners = holders.filter(({ answer }) => answer === 'locked');
    assert.equal(winners.length, 1, holders.map(({ answer }) => answer).join(' '));
    assert.ok(holders.every(({ answer }) => answer === 'locked' || answer === 'EDATALOCKED'));
    await kill(winners[0]);
  }
});

test('within one process too exactly one of many attempts succeeds, again and again', async () => {
  const location = newFolder();
  for (let round = 0; round < 30; round++) {
    const attempts = await Promise.allSettled(Array.from({ length: 8 }, () => new NodeDisk(location).lock()));
    const locks = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []));
    assert.equal(locks.length, 1);
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') isInUse(location)(attempt.reason);
    }
    await locks[0].release();
  }
});

test('a folder whose path is longer than a socket name may be is locked all the same', async () => {
  const location = join(root, 'p'.repeat(90), 'q'.repeat(90));
  const holder = await startHolder(location);
  assert.equal(holder.answer, 'locked');
  await assert.rejects(new NodeDisk(location).lock(), isInUse(location));
  await kill(holder);
  await (await new NodeDisk(location).lock()).release();
});

test('one folder under two names has one lock', async () => {
  const location = newFolder();
  const lock = await new NodeDisk(location).lock();
  await symlink(location, `${location}-link`);
  await assert.rejects(new NodeDisk(`${location}-link`).lock(), isInUse(`${location}-link`));
  await lock.release();
});

test('a copied data folder is not locked by the original, whatever the copy made of the sockets', async () => {
  const location = newFolder();
  const lock = await new NodeDisk(location).lock();
  const copy = newFolder();
  await cp(location, copy, { recursive: true, filter: (path) => !/lock\/\d+$/.test(path) });
  await mkdir(join(copy, 'lock'), { recursive: true });
  await writeFile(join(copy, 'lock', '7'), '');
  await (await new NodeDisk(copy).lock()).release();
  await lock.release();
});
