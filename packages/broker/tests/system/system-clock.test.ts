import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SystemClock } from '../../src/system/system-clock.ts';

const second = 1_000_000;

/** A host whose clocks a test turns by hand. */
class Host {
  wall = 1_700_000_000 * second;
  monotonic = 5 * second;
  boot = 90 * second;
  readonly clock = new SystemClock({
    wallUs: () => Math.floor(this.wall / 1000) * 1000,
    monotonicUs: () => this.monotonic,
    uptimeUs: () => Math.floor(this.boot / 10_000) * 10_000,
  });

  pass(us: number): void {
    this.wall += us;
    this.monotonic += us;
    this.boot += us;
  }

  sleep(us: number): void {
    this.wall += us;
    this.boot += us;
  }
}

test('broker time starts at the wall clock and follows elapsed time to the microsecond', () => {
  const host = new Host();
  const start = host.clock.nowUs();
  assert.equal(start, 1_700_000_000 * second);
  host.pass(123);
  assert.equal(host.clock.nowUs(), start + 123);
  for (let i = 0; i < 3600; i++) {
    host.pass(second);
    host.clock.nowUs();
  }
  assert.equal(host.clock.nowUs(), start + 123 + 3600 * second);
});

for (const jump of [-3600 * second, -3 * second, 3 * second, 3600 * second]) {
  test(`a wall clock that jumps by ${jump / second} s is approached by at most 0.05 % and never backwards`, () => {
    const host = new Host();
    let last = host.clock.nowUs();
    host.wall += jump;
    const steps = 2 * Math.min(Math.abs(jump) / (0.0005 * second), 20_000);
    for (let i = 0; i < steps; i++) {
      host.pass(second);
      const now = host.clock.nowUs();
      assert.ok(Math.abs(now - last - second) <= 0.0005 * second + 1, `${now - last}`);
      last = now;
    }
    const left = Math.abs(host.wall - last);
    if (Math.abs(jump) === 3 * second) assert.ok(left < 3000, `${left} µs are left`);
    else assert.ok(left < Math.abs(jump));
  });
}

test('a correction ends when nobody asks for the time', () => {
  const host = new Host();
  host.wall += 3000;
  host.pass(second);
  host.clock.nowUs();
  host.pass(86_400 * second);
  assert.ok(Math.abs(host.clock.nowUs() - host.wall) < 3000);
});

test('time that the machine slept counts', () => {
  const host = new Host();
  const start = host.clock.nowUs();
  host.pass(10 * second);
  host.sleep(8 * 3600 * second);
  host.pass(second);
  const slept = host.clock.nowUs() - start - 8 * 3600 * second - 11 * second;
  assert.ok(Math.abs(slept) <= 20_000, `${slept}`);
});

test('time goes on from the last stamp of the log when the wall clock is behind it', () => {
  const host = new Host();
  const stamp = host.clock.nowUs() + 100 * second;
  host.clock.startAt(stamp);
  assert.ok(host.clock.nowUs() >= stamp);
  host.pass(1000);
  assert.ok(host.clock.nowUs() >= stamp + 1000);
  host.clock.startAt(5);
  assert.ok(host.clock.nowUs() >= stamp + 1000);
});

test('a start that took seconds leaves the clock right, at once and later', () => {
  const host = new Host();
  host.pass(5 * second);
  host.clock.startAt(1_000);
  for (let i = 0; i < 20; i++) {
    assert.ok(Math.abs(host.clock.nowUs() - host.wall) <= 1000, `off by ${host.clock.nowUs() - host.wall} µs`);
    host.pass(second / 3);
  }
});

test('whatever the clocks do, time is an integer and never runs backwards', () => {
  const step = fc.record({ pass: fc.integer({ min: 0, max: 5 * second }), jump: fc.integer({ min: -1e9, max: 1e9 }) });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const host = new Host();
      let last = host.clock.nowUs();
      for (const { pass, jump } of steps) {
        host.pass(pass);
        host.wall += jump;
        const now = host.clock.nowUs();
        assert.ok(Number.isSafeInteger(now) && now >= last);
        last = now;
      }
    }),
  );
});

test('the clock of this host shows about the time of day', () => {
  const clock = new SystemClock();
  assert.ok(Math.abs(clock.nowUs() / 1000 - Date.now()) < 100);
});
