import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Admission, type Admitted } from '../../src/http/admission.ts';

class Request implements Admitted {
  state: 'waiting' | 'in' | 'refused' | 'left' = 'waiting';
  readonly bytes: number;
  readonly #events: string[];
  readonly #onRefused: () => void;

  constructor(bytes: number, events: string[] = [], onRefused: () => void = () => undefined) {
    this.bytes = bytes;
    this.#events = events;
    this.#onRefused = onRefused;
  }

  admitted(): void {
    this.state = 'in';
    this.#events.push(`in ${this.bytes}`);
  }

  refused(): void {
    this.state = 'refused';
    this.#events.push(`refused ${this.bytes}`);
    this.#onRefused();
  }
}

const longMs = 60_000;

describe('admission', () => {
  it('lets requests in while there is room, and the others in order of arrival as it comes back', () => {
    const events: string[] = [];
    const admission = new Admission({ bytesMax: 100, waitMs: longMs });
    for (const bytes of [60, 40, 50, 1]) admission.enter(new Request(bytes, events), bytes);
    assert.deepEqual(events, ['in 60', 'in 40']);
    assert.equal(admission.waiting, 2);
    admission.leave(40);
    assert.deepEqual(events, ['in 60', 'in 40'], 'the small one must not overtake');
    admission.leave(60);
    assert.deepEqual(events, ['in 60', 'in 40', 'in 50', 'in 1']);
    assert.equal(admission.bytesInUse, 51);
  });

  it('lets a request in that is larger than the budget when it is alone', () => {
    const admission = new Admission({ bytesMax: 100, waitMs: longMs });
    const small = new Request(1);
    const giant = new Request(1000);
    admission.enter(small, 1);
    admission.enter(giant, 1000);
    assert.equal(giant.state, 'waiting');
    admission.leave(1);
    assert.equal(giant.state, 'in');
    admission.leave(1000);
    assert.equal(admission.bytesInUse, 0);
  });

  it('refuses after the wait time, give or take a quarter, and lets in what waits behind', async () => {
    const waitMs = 400;
    // The one that waits first is the first to give up.
    const draws = [0, 0.9];
    const admission = new Admission({
      bytesMax: 100,
      waitMs,
      random: () => draws.shift() ?? assert.fail('a third wait'),
    });
    admission.enter(new Request(90), 90);
    const startedAt = performance.now();
    let behind: Request | undefined;
    // The timer of the server must not keep a process alive, so the test has to.
    const awake = setInterval(() => undefined, 1000);
    await new Promise<void>((resolve) => {
      admission.enter(new Request(50, [], resolve), 50);
      behind = new Request(10);
      admission.enter(behind, 10);
    });
    clearInterval(awake);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= waitMs * 0.74 && tookMs < waitMs * 1.25 + 1000, `${tookMs} ms`);
    assert.equal(behind?.state, 'in');
  });

  it('forgets a request that gives up', () => {
    const admission = new Admission({ bytesMax: 100, waitMs: longMs });
    admission.enter(new Request(90), 90);
    const gone = new Request(50);
    const behind = new Request(10);
    admission.enter(gone, 50);
    admission.enter(behind, 10);
    admission.giveUp(gone);
    admission.giveUp(gone);
    assert.deepEqual([gone.state, behind.state, admission.waiting], ['waiting', 'in', 0]);
  });

  it('lets a request grow only into room that is there, or when it is alone', () => {
    const admission = new Admission({ bytesMax: 100, waitMs: longMs });
    admission.enter(new Request(10), 10);
    assert.equal(admission.grow(10, 500), true);
    admission.leave(510);
    admission.enter(new Request(10), 10);
    admission.enter(new Request(80), 80);
    assert.equal(admission.grow(10, 10), true);
    assert.equal(admission.grow(20, 1), false);
    assert.equal(admission.bytesInUse, 100);
  });

  it('never exceeds its budget but for one request alone, starves nobody, and ends empty', () => {
    const step = fc.oneof(
      fc.record({ enter: fc.integer({ min: 0, max: 150 }) }),
      fc.record({ leave: fc.nat(20) }),
      fc.record({ giveUp: fc.nat(20) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const admission = new Admission({ bytesMax: 100, waitMs: longMs });
        const requests: Request[] = [];
        const inside = () => requests.filter(({ state }) => state === 'in');
        const leave = (request: Request) => {
          request.state = 'left';
          admission.leave(request.bytes);
        };
        for (const each of steps) {
          if ('enter' in each) {
            const request = new Request(each.enter);
            requests.push(request);
            admission.enter(request, each.enter);
          } else if ('leave' in each) {
            const request = inside()[each.leave];
            if (request !== undefined) leave(request);
          } else {
            const request = requests.filter(({ state }) => state === 'waiting')[each.giveUp];
            if (request !== undefined) {
              request.state = 'left';
              admission.giveUp(request);
            }
          }
          const bytes = inside().reduce((sum, request) => sum + request.bytes, 0);
          assert.equal(admission.bytesInUse, bytes);
          assert.ok(bytes <= 100 || inside().filter((request) => request.bytes > 0).length === 1);
        }
        for (let [first] = inside(); first !== undefined; [first] = inside()) leave(first);
        assert.deepEqual([admission.bytesInUse, admission.waiting], [0, 0]);
      }),
    );
  });
});
