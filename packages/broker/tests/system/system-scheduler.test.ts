import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SystemRandom } from '../../src/system/system-random.ts';
import { SystemScheduler } from '../../src/system/system-scheduler.ts';

test('soon runs after the callbacks that are already due, after runs in order of delay', async () => {
  const scheduler = new SystemScheduler();
  const order: string[] = [];
  await new Promise<void>((done) => {
    scheduler.after(20, () => {
      order.push('later');
      done();
    });
    scheduler.after(1, () => order.push('earlier'));
    scheduler.soon(() => order.push('soon'));
    void Promise.resolve().then(() => order.push('promise'));
    // Timers of the scheduler do not keep a process alive.
    const alive = setTimeout(() => undefined, 1000);
    scheduler.after(30, () => clearTimeout(alive));
  });
  assert.deepEqual(
    order.filter((name) => name !== 'soon' && name !== 'promise'),
    ['earlier', 'later'],
  );
  assert.ok(order.indexOf('promise') < order.indexOf('soon'));
  assert.ok(order.includes('soon'));
});

test('a cancelled task does not run, and delays beyond what a host timer takes do not run at once', async () => {
  const scheduler = new SystemScheduler();
  const cancel = scheduler.after(1, () => assert.fail('was cancelled'));
  cancel();
  const cancelLong = scheduler.after(2 ** 40, () => assert.fail('is due in thirty years'));
  await new Promise((done) => setTimeout(done, 20));
  cancelLong();
});

test('chance fills arrays and stays below its bound', () => {
  const random = new SystemRandom();
  const bytes = new Uint8Array(64);
  random.fill(bytes);
  assert.ok(bytes.some((byte) => byte !== 0));
  for (let i = 0; i < 200; i++) assert.ok(random.integer(3) < 3);
  assert.equal(random.integer(1), 0);
});
