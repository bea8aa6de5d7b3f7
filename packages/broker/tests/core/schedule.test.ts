/**
 * The schedule against its slow twin: which partitions a group may claim now, said by looking at everything each time.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import fc from 'fast-check';
import { BrokerState, CursorRecord, cursorBit, Schedule, type Subscription } from '../../src/core/mod.ts';
import { taken } from '../../src/core/schedule.ts';
import { noPlaces, quietListener } from './quiet-schedule.ts';

const defaults = Object.fromEntries(
  Object.entries(queueOptionTable).map(([name, facts]) => [name, facts.default]),
) as unknown as QueueOptions;
const second = 1_000_000;
const noBytes = new Uint8Array(0);
const noView = new DataView(noBytes.buffer);

/** One queue, its groups, and a schedule that is driven as the shard drives it. */
class Bench {
  readonly state = new BrokerState(1);
  readonly schedule: Schedule;
  /** Stamp of each record, by lane. */
  readonly #stamps = new Map<number, number[]>();
  /** Groups that found nothing and were not told since that there may be something. */
  readonly waiting = new Set<number>();
  /** Rows that somebody is reading blocks for. */
  readonly loading = new Set<number>();
  nowUs = 1000;

  constructor() {
    const tell = (subscription: Subscription): void => void this.waiting.delete(subscription.number);
    this.schedule = new Schedule(
      this.state,
      { ...noPlaces, stampOf: (lane, _pid, offset) => this.#stamps.get(lane)?.[offset] ?? 0 },
      { ...quietListener, rowReady: tell, subscriptionReady: tell, manyReady: tell },
    );
    this.state.genesis({ saltHigh: 1, saltLow: 2, seedHigh: 3, seedLow: 4, createdAtUs: 1 });
    this.state.observer = this.schedule;
    this.configure(0, 0);
  }

  /** Time goes on, and what is due happens, as before each decision. */
  begin(us: number): void {
    this.nowUs += us;
    if (this.schedule.deadlines.nextUs <= this.nowUs) this.schedule.advance(this.nowUs, 1000);
    else this.schedule.nowUs = this.nowUs;
  }

  configure(delayedProcessing: number, windowBuffer: number): void {
    const options = { ...defaults, delayedProcessing, windowBuffer };
    this.state.queue({ number: 1, name: 'q', namespace: '', task: '', options, createdAtUs: 1 });
  }

  addPartition(): void {
    const pid = this.state.nextPid;
    const name = Buffer.from(`p${pid}`);
    this.state.partition(pid, 1, this.nowUs, pid, name, 0, name.length);
  }

  append(number: number, count: number): void {
    const { partitions } = this.state;
    const lane = number % Math.max(1, partitions.count);
    if (partitions.count === 0) return;
    const stamps = this.#stamps.get(lane) ?? [];
    this.#stamps.set(lane, stamps);
    // The block is known to the index before the schedule hears of it.
    const first = partitions.nextOffset[lane];
    for (let i = 0; i < count; i++) stamps.push(this.nowUs);
    this.state.block(partitions.pid[lane], first, this.nowUs, count, 64, noBytes, noView, 0);
  }

  subscribe(mode: 'all' | 'new' | 'timestamp', sinceUs: number): void {
    const number = this.state.nextSubscriptionNumber;
    if (number > 6) return;
    this.state.subscription({
      number,
      queueNumber: 1,
      group: `group-${number}`,
      mode,
      sinceUs: mode === 'all' ? 0 : sinceUs,
      conflation: false,
      registered: true,
      createdAtUs: this.nowUs,
    });
  }

  /** Its rows are there until garbage is collected. */
  unsubscribe(number: number): void {
    const subscription = this.subscription(number);
    if (subscription === undefined) return;
    const { cursors } = this.state;
    for (const row of [...this.loading]) {
      if (cursors.subscription[row] === subscription.number) this.loading.delete(row);
    }
    this.state.subscriptionDeleted({ number: subscription.number });
  }

  /** Removes the oldest records of a lane. */
  trim(number: number, count: number): void {
    const { partitions } = this.state;
    if (partitions.count === 0) return;
    const lane = number % partitions.count;
    const from = partitions.logStart[lane];
    const logStart = Math.min(from + count, partitions.nextOffset[lane]);
    if (logStart === from) return;
    const keptSinceUs = this.#stamps.get(lane)?.[logStart] ?? 0;
    this.state.logStart({ pid: partitions.pid[lane], logStart, records: logStart - from, bytes: 0, keptSinceUs });
  }

  subscription(number: number): Subscription | undefined {
    const all = [...this.state.subscriptions.values()];
    return all.length === 0 ? undefined : all[number % all.length];
  }

  /** Leases, commits, gives back, holds or begins to load a row that was taken. */
  use(row: number, how: string, us: number): void {
    if (how === 'give back' || how === 'load') {
      if (how === 'load') this.loading.add(row);
      if (how === 'load') this.schedule.setLoading(row);
      else this.schedule.giveBack(row);
      return;
    }
    const record = this.#read(row);
    const lane = this.state.cursors.lane[row];
    const last = this.state.partitions.nextOffset[lane] - 1;
    if (how === 'commit') record.committed = last;
    else
      Object.assign(record, { leaseStamp: this.nowUs, leaseEnd: last, expiresAtUs: this.nowUs + us, attemptCount: 1 });
    this.state.cursor(record);
  }

  /** Ends a lease: commits it, or holds the row back for a while. */
  release(number: number, commits: boolean, heldUs: number): void {
    const { cursors } = this.state;
    const leased = this.#rows().filter(
      (row) =>
        this.state.subscriptionOf(row) !== undefined &&
        cursors.claim[row] >= 0 &&
        cursors.leaseStamp[cursors.claim[row]] !== 0,
    );
    if (leased.length === 0) return;
    const record = this.#read(leased[number % leased.length]);
    if (commits) record.committed = record.leaseEnd;
    record.leaseStamp = 0;
    record.heldUntilUs = heldUs === 0 ? 0 : this.nowUs + heldUs;
    this.state.cursor(record);
  }

  loaded(number: number): void {
    const row = [...this.loading][number % Math.max(1, this.loading.size)];
    if (row === undefined) return;
    this.loading.delete(row);
    this.schedule.giveBack(row);
  }

  #read(row: number): CursorRecord {
    const { cursors, partitions } = this.state;
    const record = cursors.read(row, partitions.pid[cursors.lane[row]], new CursorRecord());
    if ((cursors.flags[row] & cursorBit.placed) === 0) record.committed = -1;
    return record;
  }

  #rows(): number[] {
    return Array.from({ length: this.state.cursors.rowLimit }, (_, row) => row);
  }

  /**
   * The twin: lanes the group may claim now. Those that somebody reads blocks for are left out: they are not given out
   * until they are given back, unless something else has happened to them meanwhile.
   */
  ready(subscription: Subscription, withLoading = false): Set<number> {
    const { partitions, cursors } = this.state;
    const ready = new Set<number>();
    for (let lane = 0; lane < partitions.count; lane++) {
      const row = cursors.find(partitions.firstCursor[lane], subscription.number);
      if (!withLoading && this.loading.has(row)) continue;
      const placed = row >= 0 && (cursors.flags[row] & cursorBit.placed) !== 0;
      const wanted = Math.max(placed ? cursors.committed[row] + 1 : 0, partitions.logStart[lane]);
      const stamps = this.#stamps.get(lane) ?? [];
      if (wanted >= stamps.length) continue;
      const newestUs = stamps[stamps.length - 1];
      if (!placed && subscription.mode !== 'all' && newestUs < subscription.sinceUs) continue;
      const claim = row < 0 ? -1 : cursors.claim[row];
      if (claim >= 0 && cursors.leaseStamp[claim] !== 0 && cursors.expiresAtUs[claim] >= this.nowUs) continue;
      if (claim >= 0 && cursors.heldUntilUs[claim] > this.nowUs) continue;
      const { delayUs, windowUs } = subscription.queue;
      if (stamps[wanted] + delayUs > this.nowUs) continue;
      if (windowUs > 0 && newestUs + windowUs > this.nowUs) continue;
      ready.add(lane);
    }
    return ready;
  }
}

/** Short times, so that things fall together, and those of the options. */
const us = fc.constantFrom(1, 2, 3, 5, 10, second - 1, second, second + 1);
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('partition' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      lane: fc.nat(9),
      count: fc.integer({ min: 1, max: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('subscribe' as const),
      mode: fc.constantFrom('all' as const, 'new' as const, 'timestamp' as const),
      offsetUs: fc.integer({ min: -second, max: second }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('take' as const),
      group: fc.nat(9),
      how: fc.constantFrom('lease', 'lease', 'commit', 'give back', 'load'),
      us,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('release' as const),
      number: fc.nat(9),
      commits: fc.boolean(),
      heldUs: fc.constantFrom(0, 0, 3, second),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('loaded' as const), number: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('unsubscribe' as const), group: fc.nat(9) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('trim' as const),
      lane: fc.nat(9),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'collect' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('time' as const), us }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('configure' as const),
      delay: fc.constantFrom(0, 1, 2),
      quiet: fc.constantFrom(0, 1),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function run(bench: Bench, action: Step): void {
  switch (action.kind) {
    case 'partition':
      bench.addPartition();
      break;
    case 'append':
      bench.append(action.lane, action.count);
      break;
    case 'subscribe':
      bench.subscribe(action.mode, action.mode === 'new' ? bench.nowUs : bench.nowUs + action.offsetUs);
      break;
    case 'take': {
      const subscription = bench.subscription(action.group);
      if (subscription === undefined) return;
      const expected = bench.ready(subscription);
      const allowed = bench.ready(subscription, true);
      const row = bench.schedule.take(subscription);
      if (row === taken.none) {
        assert.equal(expected.size, 0, `nothing is taken, but lanes ${[...expected]} are ready`);
        bench.waiting.add(subscription.number);
        return;
      }
      assert.ok(allowed.has(bench.state.cursors.lane[row]), 'what is taken is ready');
      bench.use(row, action.how, action.us);
      break;
    }
    case 'release':
      bench.release(action.number, action.commits, action.heldUs);
      break;
    case 'loaded':
      bench.loaded(action.number);
      break;
    case 'unsubscribe':
      bench.unsubscribe(action.group);
      break;
    case 'trim':
      bench.trim(action.lane, action.count);
      break;
    case 'collect':
      bench.state.collectGarbage(2);
      break;
    case 'time':
      break;
    case 'configure':
      bench.configure(action.delay, action.quiet);
      break;
  }
}

describe('the schedule', () => {
  it('gives out exactly the partitions that may be claimed, and tells whoever found none when there is one', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 80, size: 'max' }), (steps) => {
        const bench = new Bench();
        for (const action of steps) {
          bench.begin(action.kind === 'time' ? action.us : 1);
          run(bench, action);
          for (const subscription of bench.state.subscriptions.values()) {
            if (!bench.waiting.has(subscription.number)) continue;
            assert.equal(bench.ready(subscription).size, 0, `${action.kind} makes ready, and who waits is told`);
          }
        }
        for (const subscription of bench.state.subscriptions.values()) {
          const expected = bench.ready(subscription);
          const allowed = bench.ready(subscription, true);
          for (let row = bench.schedule.take(subscription); row >= 0; row = bench.schedule.take(subscription)) {
            assert.ok(allowed.delete(bench.state.cursors.lane[row]), 'each ready partition is taken once');
            expected.delete(bench.state.cursors.lane[row]);
          }
          assert.equal(expected.size, 0, 'and all of them');
        }
      }),
      { numRuns: 800, includeErrorInReport: true },
    );
  });

  it('built again from the state gives out the same partitions', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }), (steps) => {
        const bench = new Bench();
        for (const action of steps) {
          bench.begin(action.kind === 'time' ? action.us : 1);
          run(bench, action);
        }
        bench.loading.clear();
        bench.state.cursors.readiness.fill(0);
        bench.state.cursors.deadlineAt.fill(0);
        const again = new Schedule(bench.state, noPlaces, quietListener);
        again.rebuild(bench.nowUs);
        for (const subscription of bench.state.subscriptions.values()) {
          const got = new Set<number>();
          for (let row = again.take(subscription); row >= 0; row = again.take(subscription)) {
            got.add(bench.state.cursors.lane[row]);
          }
          // Nothing is known of stamps that lie on disk: a delay is then found out when the partition is claimed.
          for (const lane of bench.ready(subscription))
            assert.ok(got.has(lane), `lane ${lane} is ready after a restart`);
        }
      }),
      { numRuns: 150, includeErrorInReport: true },
    );
  });

  it('holds back what its claim found too young, without asking again before it is due', () => {
    const bench = new Bench();
    bench.addPartition();
    bench.append(0, 1);
    bench.subscribe('all', 0);
    const subscription = bench.subscription(0) as Subscription;
    bench.begin(1);
    const row = bench.schedule.take(subscription);
    bench.schedule.hold(row, bench.nowUs + second);
    assert.equal(bench.schedule.take(subscription), taken.none);
    bench.begin(second - 1);
    assert.equal(bench.schedule.take(subscription), taken.none);
    bench.begin(1);
    assert.equal(bench.schedule.take(subscription), row);
  });
});
