/** Calls about groups, as audited-engine.ts makes them: each decision is heard by the auditor. */
import type { DeleteGroupOutcome, GroupRow, PauseOutcome, PauseRequest, SeekOutcome } from '../../src/runtime/mod.ts';
import type { AuditedCalls, Result } from './audited-engine.ts';
import type { OpenSeek, SentGroupDelete, SentSeek } from './group-audit.ts';

export class AuditedGroups {
  readonly #calls: AuditedCalls;

  constructor(calls: AuditedCalls) {
    this.#calls = calls;
  }

  seek(request: SentSeek, done: (result: Result<SeekOutcome>) => void): void {
    const { auditor } = this.#calls.host;
    let seek: OpenSeek | null = null;
    const ended = (): void => {
      if (seek !== null) auditor.groups.seekEnded(seek);
    };
    this.#calls.call<SeekOutcome, SeekOutcome>(
      `seek ${JSON.stringify(request)}`,
      done,
      (shard, reply) => {
        seek = auditor.groups.seekSubmitted(request, this.#calls.host.process()?.clock.nowUs() ?? 0);
        shard.groups.seek(request, reply);
      },
      (outcome, moment) => {
        if (seek !== null) auditor.groups.seekDecided(moment, seek, outcome);
        return outcome;
      },
      {
        left: ended,
        refused: ({ code }) => {
          if (seek !== null && code === 'outcome_unknown') auditor.groups.seekFailed(seek);
          else ended();
        },
      },
    );
  }

  delete(request: SentGroupDelete, done: (result: Result<DeleteGroupOutcome>) => void): void {
    this.#calls.call<DeleteGroupOutcome, DeleteGroupOutcome>(
      `delete group ${JSON.stringify(request)}`,
      done,
      (shard, reply) => shard.groups.delete(request, reply),
      (outcome, moment) => {
        this.#calls.host.auditor.groups.deleteDecided(moment, request, outcome);
        this.#calls.host.auditor.groupDeleted();
        return outcome;
      },
    );
  }

  startFrom(group: string, sinceUs: number, done: (result: Result<number>) => void): void {
    this.#calls.call<{ readonly changed: number }, number>(
      `start ${group} from ${sinceUs}`,
      done,
      (shard, reply) => shard.groups.startFrom(group, sinceUs, reply),
      ({ changed }, moment) => {
        this.#calls.host.auditor.groups.startMoved(moment, group, sinceUs, changed);
        return changed;
      },
    );
  }

  pause(request: PauseRequest, done: (result: Result<PauseOutcome>) => void): void {
    this.#calls.call<PauseOutcome, PauseOutcome>(
      `pause ${JSON.stringify(request)}`,
      done,
      (shard, reply) => shard.groups.pause(request, reply),
      (outcome, moment) => {
        this.#calls.host.auditor.groups.pauseDecided(moment, request, outcome);
        return outcome;
      },
    );
  }

  list(done: (result: Result<null>) => void): void {
    const { host } = this.#calls;
    this.#calls.call<object, null>(
      'list groups',
      done,
      (shard, reply) => {
        const process = host.process();
        shard.groups.list(
          { limit: 1000, offset: 0 },
          {
            rows: (rows: readonly GroupRow[]) => {
              const moment = process?.isAlive === true ? this.#calls.momentOf(process, shard) : null;
              if (moment !== null) this.#calls.guarded(() => host.auditor.groups.rowsListed(moment, rows));
            },
            encode: (end) => reply.encode(end),
            send: (failure) => reply.send(failure),
          },
        );
      },
      () => null,
    );
  }
}
