import assert from 'node:assert/strict';
import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { NodeDisk } from '../../src/system/node-disk.ts';
import { append, durable, openLog, readAll, smallOptions } from '../storage/log/log-driver.ts';

const root = await mkdtemp(join(tmpdir(), 'lanemq-disk-'));
after(() => rm(root, { recursive: true }));
let folders = 0;
const newDisk = (): NodeDisk => new NodeDisk(join(root, `d${folders++}`, 'x', 'y'));

const isLinux = process.platform === 'linux';

/** Where a descriptor of this process leads; one that is closed meanwhile leads nowhere. */
function linkOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return '';
  }
}

const hasCode = (code: string) => (error: NodeJS.ErrnoException) => error.code === code;

test('files are made, written anywhere, read, shortened, renamed and removed', async () => {
  const disk = newDisk();
  assert.deepEqual(await disk.list(''), []);
  await disk.makeFolder('a/b');
  await disk.makeFolder('a/b');
  const file = await disk.open('a/b/one', 'create');
  await file.write(new Uint8Array([1, 2, 3]), 5);
  await file.write(new Uint8Array(0), 50);
  await file.sync();
  assert.equal(await file.size(), 8);
  const target = new Uint8Array(10).fill(9);
  assert.equal(await file.read(target, 4), 4);
  assert.deepEqual([...target], [0, 1, 2, 3, 9, 9, 9, 9, 9, 9]);
  assert.equal(await file.read(target, 8), 0);
  assert.equal(await file.read(new Uint8Array(0), 0), 0);
  await file.truncate(6);
  assert.equal(await file.size(), 6);
  await disk.rename('a/b/one', 'a/two');
  await disk.syncFolder('a');
  assert.deepEqual(await disk.list('a'), ['b', 'two']);
  assert.deepEqual(await disk.list('a/b'), []);
  await file.close();
  const again = await disk.open('a/two', 'write');
  assert.equal(await again.size(), 6);
  await again.close();
  const emptied = await disk.open('a/two', 'create');
  assert.equal(await emptied.size(), 0);
  await emptied.close();
  await disk.remove('a/two');
  assert.deepEqual(await disk.list('a'), ['b']);
});

test('failures have codes and name the file', async () => {
  const disk = newDisk();
  await disk.makeFolder('');
  await assert.rejects(disk.open('none', 'read'), hasCode('ENOENT'));
  await assert.rejects(disk.open('none', 'write'), hasCode('ENOENT'));
  await assert.rejects(disk.remove('none'), hasCode('ENOENT'));
  await assert.rejects(disk.rename('none', 'other'), hasCode('ENOENT'));
  await assert.rejects(disk.syncFolder('none'), hasCode('ENOENT'));
  const made = await disk.open('some', 'create');
  await made.close();
  const readOnly = await disk.open('some', 'read');
  await assert.rejects(readOnly.write(new Uint8Array(1), 0), /EBADF.*'some'/);
  await readOnly.close();
  await readOnly.close();
  await assert.rejects(readOnly.read(new Uint8Array(1), 0), hasCode('EBADF'));
  await assert.rejects(disk.open('../outside', 'create'), /no path inside/);
  await assert.rejects(disk.open('/etc/passwd', 'read'), /no path inside/);
});

test('closing waits for what is on its way', async () => {
  const disk = newDisk();
  await disk.makeFolder('');
  const file = await disk.open('f', 'create');
  const writes = Array.from({ length: 20 }, (_, i) => file.write(new Uint8Array(100_000).fill(i), i * 100_000));
  const closed = file.close();
  await Promise.all([...writes, closed]);
  const again = await disk.open('f', 'read');
  assert.equal(await again.size(), 2_000_000);
  await again.close();
});

test('a file for durable writes is one whose writes wait for the disk', { skip: !isLinux }, async () => {
  const disk = newDisk();
  await disk.makeFolder('');
  const file = await disk.open('f', 'create', 'durable');
  await file.write(new Uint8Array(3).fill(7), 1);
  const links = readdirSync('/proc/self/fd').filter((name) => linkOf(name) === join(disk.location, 'f'));
  assert.equal(links.length, 1);
  const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${links[0]}`, 'utf8'))?.[1] ?? '';
  assert.equal(Number.parseInt(flags, 8) & constants.O_DSYNC, constants.O_DSYNC);
  await file.close();
  assert.deepEqual([...readFileSync(join(disk.location, 'f'))], [0, 7, 7, 7]);
});

test('space is told in bytes and as a share', async () => {
  const space = await new NodeDisk(root).space();
  assert.ok(space.freeBytes > 0);
  assert.ok(space.usedShare >= 0 && space.usedShare <= 1);
});

test('a log on a real disk is read back after a restart', async () => {
  const disk = newDisk();
  const log = await openLog(disk, { ...smallOptions, segmentBytes: 100_000 });
  for (let i = 0; i < 300; i++) append(log, (i * 31) % 3000);
  await durable(log, 300);
  await log.close();
  const again = await openLog(disk);
  assert.equal((await readAll(again)).size, 301);
  assert.ok(again.segments().length > 3);
  await again.close();
});

test('a folder that cannot be made is refused with the reason of the system, and not tried for ever', async () => {
  const none = new NodeDisk('/proc/no-such-folder/data');
  await assert.rejects(none.makeFolder(''), { code: 'ENOENT' });
  const belowFile = new NodeDisk(join(process.execPath, 'data'));
  await assert.rejects(belowFile.makeFolder(''), { code: 'ENOTDIR' });
});
