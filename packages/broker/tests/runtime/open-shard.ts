/** A shard on a real folder, for tests of one that does no background work and never fails. */
import { openDataFolder } from '../../src/data-folder.ts';
import { Shard, type Store } from '../../src/runtime/mod.ts';
import type { LogOptions } from '../../src/storage/log-options.ts';
import { NodeDisk } from '../../src/system/node-disk.ts';
import { SystemClock } from '../../src/system/system-clock.ts';
import { SystemRandom } from '../../src/system/system-random.ts';
import { SystemScheduler } from '../../src/system/system-scheduler.ts';

function refuse(): never {
  throw new Error('no background work is expected here');
}

/** Opens the folder. `around` may replace parts of the store before the shard gets it. */
export async function openShard(
  folder: string,
  around: (store: Store) => Store = (store) => store,
  logOptions: Partial<LogOptions> = {},
): Promise<Shard> {
  const scheduler = new SystemScheduler();
  const clock = new SystemClock();
  const open = async (): Promise<Store> =>
    around(
      await openDataFolder({
        disk: new NodeDisk(folder),
        scheduler,
        clock,
        random: new SystemRandom(),
        background: {
          buildSegmentIndex: refuse,
          buildSnapshot: refuse,
          cancel: async () => undefined,
          close: async () => undefined,
        },
        logOptions,
        log: () => undefined,
      }),
    );
  const host = {
    clock,
    scheduler,
    cipher: null,
    reopen: open,
    isDiskFull: () => false,
    log: () => undefined,
    fatal: (error: Error) => {
      throw error;
    },
  };
  return new Shard(await open(), host, { snapshotLogBytes: 2 ** 40, parkedPopsMax: 10 });
}
