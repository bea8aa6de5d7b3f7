/**
 * A process that tries to lock the folder named by its argument, says `locked` or the code it was refused with, and keeps
 * the lock until it is told to release it (a line on standard input) or dies.
 */
import { NodeDisk } from '../../src/system/node-disk.ts';

const location = process.argv[2];
if (location === undefined) throw new Error('which folder?');
try {
  const lock = await new NodeDisk(location).lock();
  process.stdout.write('locked\n');
  process.stdin.once('data', () => {
    lock.release().then(
      () => process.stdout.write('released\n', () => process.exit(0)),
      () => process.exit(1),
    );
  });
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  process.stdout.write(`${code ?? message}\n`, () => process.exit(0));
}
