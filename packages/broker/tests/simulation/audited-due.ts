/** Calls about due messages, as audited-engine.ts makes them: each decision is heard by the auditor. */
import type { ChangedDue, DueChangeRequest, DuePage } from '../../src/runtime/mod.ts';
import type { AuditedCalls, Result } from './audited-engine.ts';

/** A message that was pushed with a time, as its producer knows it. */
interface KnownDue {
  readonly queue: string;
  readonly partition: string;
  readonly id: string | null;
  readonly messageId: string;
}

const knownMax = 100;

export class AuditedDue {
  readonly #calls: AuditedCalls;
  /** What clients remember of what they pushed, the newest last. */
  readonly known: KnownDue[] = [];

  constructor(calls: AuditedCalls) {
    this.#calls = calls;
  }

  note(message: KnownDue): void {
    this.known.push(message);
    if (this.known.length > knownMax) this.known.shift();
  }

  change(request: DueChangeRequest, done: (result: Result<ChangedDue>) => void): void {
    const { host } = this.#calls;
    this.#calls.call<ChangedDue, ChangedDue>(
      `due ${JSON.stringify(request)}`,
      done,
      (shard, reply) => shard.due.change(request, reply),
      (outcome, moment) => {
        host.auditor.due.changed(moment, request, outcome);
        return outcome;
      },
      {
        refused: ({ code }) => {
          const nowUs = host.process()?.clock.nowUs() ?? 0;
          if (code === 'not_waiting' && request.partition === null) host.auditor.due.tooLate(request, nowUs);
        },
      },
    );
  }

  list(done: (result: Result<DuePage>) => void): void {
    const filter = {
      queue: null,
      partition: null,
      fromUs: 0,
      untilUs: Number.POSITIVE_INFINITY,
      limit: 1000,
      after: null,
    };
    this.#calls.call<DuePage, DuePage>(
      'list due',
      done,
      (shard, reply) => shard.due.list(filter, reply),
      (page) => {
        this.#calls.host.auditor.due.listed(page);
        return page;
      },
      { decidesWhenEncoded: false },
    );
  }
}
