import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SimulatedDisk } from '../../simulation/simulated-disk.ts';
import { append, openLog } from './log-driver.ts';

describe('a log that cannot write its mark of a clean end', () => {
  it('says so by its close alone', async () => {
    const disk = new SimulatedDisk();
    const log = await openLog(disk);
    const failures: Error[] = [];
    log.onFailure = (error) => failures.push(error);
    const durable = new Promise<void>((resolve) => {
      log.onDurable = () => resolve();
    });
    append(log, 100);
    await durable;
    disk.setCapacity(0);
    await assert.rejects(log.close(), { code: 'ENOSPC' });
    assert.deepEqual(failures, []);
  });
});
