/**
 * The life of a pop:
 *
 *   queued ─▶ decided ──claimed something, or does not wait──▶ answered, held until durable ─▶ sent
 *                │  ▲
 *                │  └── woken, blocks loaded, or its collecting time over
 *                ├─▶ parked ──timeout──▶ answered empty
 *                └─▶ loading
 *
 * A pop whose client has gone hands back what it claimed. Shortly before its timeout a parked pop takes no more work:
 * a claim must not be granted to an answer that may come too late.
 */
import { decidePop, handBack, type PopCommand, type PopDecision, type PopOutcome, type Refusal } from '../core/mod.ts';
import type { PopRequest, Reply } from './engine.ts';
import { isRefusal, type Operation } from './operations.ts';
import type { PopHost } from './pop-host.ts';
import { FetchedFacts } from './store-access.ts';
import { utf8, utf8Length } from './text.ts';
import { Waiter } from './waiters.ts';

/** Before its end a parked pop stops taking work: this long, or a quarter of its wait if that is shorter. */
const closingMs = 100;

/** Reads that a pop which does not wait sits out, when they are for others and it found nothing else. */
const loadsAwaitedMax = 10;

type Phase = 'queued' | 'parked' | 'collecting' | 'loading' | 'answered' | 'sent';

export class PopOperation extends Waiter implements Operation {
  readonly facts = new FetchedFacts();
  readonly group: string;
  readonly queueName: string;
  readonly partition: string | null;
  readonly #host: PopHost;
  readonly #request: PopRequest;
  readonly #reply: Reply<PopOutcome>;
  #command: PopCommand | null = null;
  #phase: Phase = 'queued';
  #cancelled = false;
  /** Takes no work any more: its wait is over, or about to be. */
  #closing = false;
  /** Something may be claimable, and nobody else was told. */
  #woken = false;
  #timed = false;
  #collected = false;
  #loadsAwaited = 0;
  #cancelTimer: (() => void) | null = null;
  #cancelCollecting: (() => void) | null = null;
  #leaseStamp = 0;
  #refusal: Refusal | null = null;

  constructor(host: PopHost, request: PopRequest, reply: Reply<PopOutcome>) {
    super();
    this.#host = host;
    this.#request = request;
    this.#reply = reply;
    this.group = request.group;
    this.queueName = request.target.kind === 'discover' ? '' : request.target.queue;
    this.partition = request.target.kind === 'partition' ? request.target.partition : null;
  }

  /** The client is gone, or wants no answer any more. */
  cancel(): void {
    if (this.#cancelled || this.#phase === 'sent') return;
    this.#cancelled = true;
    if (this.#phase === 'parked') this.#host.waiters.remove(this);
    if (this.#phase === 'parked' || this.#phase === 'collecting') this.#finish();
  }

  #finish(): void {
    this.#phase = 'sent';
    this.#cancelTimer?.();
    this.#cancelCollecting?.();
  }

  #toCommand(nowUs: number): PopCommand {
    const { target } = this.#request;
    let coreTarget: PopCommand['target'];
    if (target.kind === 'partition') {
      const partitionBytes = utf8(target.partition);
      const { hasher } = this.#host;
      hasher.hash(partitionBytes, 0, partitionBytes.length);
      coreTarget = { ...target, partitionBytes, partitionHash: hasher.low };
    } else coreTarget = target;
    return {
      target: coreTarget,
      group: this.group,
      groupBytes: utf8Length(this.group),
      queueBytes: utf8Length(this.queueName),
      batch: this.#request.batch,
      partitions: this.#request.partitions,
      leaseSeconds: this.#request.leaseSeconds,
      subscriptionMode: this.#request.subscriptionMode,
      subscriptionFrom: this.#request.subscriptionFrom,
      commitOnDelivery: this.#request.commitOnDelivery,
      conflation: this.#request.conflation,
      autopilot: this.#request.autopilot,
      arrivedUs: nowUs,
    };
  }

  decide(): 'done' | 'later' | 'parked' {
    const wasWoken = this.#woken;
    this.#woken = false;
    if (wasWoken && (this.#cancelled || this.#closing)) {
      this.#host.waiters.passOn(this);
      this.#host.waiters.wakeForRoom(this.queueName, this.group);
    }
    if (this.#cancelled) {
      this.#finish();
      return 'parked';
    }
    const { context } = this.#host;
    this.#command ??= this.#toCommand(context.nowUs);
    if (this.#closing) return this.#answerEmpty();
    const waits = this.#request.wait && this.#request.target.kind !== 'discover';
    if (waits && !this.#timed) this.#startTimer();
    if (waits && !this.#collected && this.#collects()) return 'parked';
    const decision = decidePop(context, this.#command);
    if (isRefusal(decision)) {
      this.#refusal = decision;
      this.#phase = 'answered';
      return 'done';
    }
    // Room that this pop leaves is the next one's.
    if (!decision.isLimited) this.#host.waiters.wakeForRoom(this.queueName, this.group);
    const claimed = decision.outcome.runs.length > 0;
    if (decision.missing.length > 0) this.#host.loadRows(decision.missing, claimed ? null : this);
    if (claimed) return this.#answer(decision);
    if (decision.missing.length > 0) {
      this.#phase = 'loading';
      return 'parked';
    }
    if (decision.unfinished) return 'later';
    if (!waits) {
      // Partitions that are being read from disk are about to be claimable: nothing is not the answer yet.
      if (this.#loadsAwaited < loadsAwaitedMax && this.#host.awaitLoads(this)) {
        this.#loadsAwaited++;
        this.#phase = 'loading';
        return 'parked';
      }
      return this.#answer(decision);
    }
    this.#phase = 'parked';
    this.facts.blocks.clear();
    if (decision.isLimited) this.#host.waiters.parkForRoom(this);
    else this.#host.waiters.park(this);
    return 'parked';
  }

  #answer(decision: PopDecision): 'done' {
    this.#leaseStamp = decision.outcome.leaseStamp;
    this.#phase = 'answered';
    this.#host.countDelivered(decision.outcome);
    this.#reply.encode(decision.outcome);
    return 'done';
  }

  #answerEmpty(): 'done' {
    this.#phase = 'answered';
    this.#reply.encode({
      ok: true,
      queue: this.queueName,
      group: this.group,
      leaseStamp: 0,
      runs: [],
      conflation: this.#host.isConflated(this.queueName, this.group),
      conflationConflict: this.#request.conflation && !this.#host.isConflated(this.queueName, this.group),
      autopilot: null,
    });
    return 'done';
  }

  #startTimer(): void {
    this.#timed = true;
    const { timeoutMs } = this.#request;
    const marginMs = Math.min(closingMs, timeoutMs / 4);
    const { scheduler } = this.#host;
    this.#cancelTimer = scheduler.after(timeoutMs - marginMs, () => {
      this.#closing = true;
      if (this.#phase === 'parked') this.#host.waiters.remove(this);
      this.#cancelTimer = scheduler.after(marginMs, () => this.end());
    });
  }

  /** minPopWaitTime: a waiting pop that arrives before its batch is there gives others time to push. */
  #collects(): boolean {
    this.#collected = true;
    const waitMs = Math.min(this.#host.collectMs(this.#request), this.#request.timeoutMs / 2);
    if (waitMs <= 0) return false;
    this.#phase = 'collecting';
    this.#cancelCollecting = this.#host.scheduler.after(waitMs, () => {
      if (this.#phase === 'collecting') this.wake();
    });
    return true;
  }

  wake(): void {
    this.#woken = true;
    this.#phase = 'queued';
    this.#host.submit(this);
  }

  end(): void {
    if (this.#phase === 'queued') return;
    if (this.#phase === 'answered' || this.#phase === 'sent' || this.#phase === 'loading') return;
    if (this.#phase === 'parked') this.#host.waiters.remove(this);
    this.#closing = true;
    this.wake();
  }

  release(failure: Refusal | null): void {
    if (this.#phase === 'sent') return;
    this.#finish();
    const outcome = failure ?? this.#refusal;
    if (!this.#cancelled) this.#reply.send(outcome);
    else if (outcome === null && this.#leaseStamp > 0) this.#host.handBack(this.#leaseStamp);
  }
}

/** The operation that hands a claim back. */
export class HandBackOperation implements Operation {
  readonly facts = new FetchedFacts();
  readonly #host: PopHost;
  readonly #leaseStamp: number;

  constructor(host: PopHost, leaseStamp: number) {
    this.#host = host;
    this.#leaseStamp = leaseStamp;
  }

  decide(): 'done' {
    handBack(this.#host.context, this.#leaseStamp);
    return 'done';
  }

  release(): void {
    // Nobody waits for it.
  }
}
