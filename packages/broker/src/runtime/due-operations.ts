/** Operations on messages that wait for their time: list, move, cancel. */
import {
  decideDueChange,
  type IdParts,
  idText,
  type NeedsLoad,
  parseId,
  type Queue,
  type Refusal,
} from '../core/mod.ts';
import type {
  ChangedDue,
  DueChangeRequest,
  DueEngine,
  DueFilter,
  DueMessage,
  DuePage,
  DuePlace,
} from './due-engine.ts';
import type { Reply } from './engine.ts';
import { type GroupHost, laneOfName } from './group-host.ts';
import { SimpleOperation } from './operations.ts';
import { laneOfRef } from './partition-ref.ts';
import type { ViewHost } from './shard-views.ts';
import { SlicedOperation, type Unfinished, unfinished } from './sliced-operation.ts';
import { utf8, utf8Text } from './text.ts';

/** Waiting messages that one slice looks at: about two milliseconds. */
const rowsPerSlice = 20_000;

/** What the operations need from the shard they run in. */
export type DueHost = GroupHost & Pick<ViewHost, 'readFailed'>;

export class DueOperations implements DueEngine {
  readonly #host: DueHost;

  constructor(host: DueHost) {
    this.#host = host;
  }

  change(request: DueChangeRequest, reply: Reply<ChangedDue>): void {
    const bytes = utf8(request.name);
    this.#host.submit(new SimpleOperation(() => this.#change(request, bytes), reply));
  }

  #change(request: DueChangeRequest, bytes: Uint8Array): ChangedDue | Refusal | NeedsLoad {
    const { hasher, context } = this.#host;
    const pid = this.#pidOf(request.partition, bytes);
    if (typeof pid !== 'number') return pid;
    hasher.hash(bytes, 0, bytes.length);
    const name = { bytes, hashHigh: hasher.high, hashLow: hasher.low };
    const outcome = decideDueChange(context, pid, name, request.due);
    return 'ok' in outcome ? outcome : { ...outcome, pid };
  }

  #pidOf(partition: DueChangeRequest['partition'], id: Uint8Array): number | Refusal {
    const { state } = this.#host.context;
    if (partition === null) {
      if (parseId(state.identity, id, 0, id.length, idParts) && state.laneOf(idParts.number) >= 0)
        return idParts.number;
      return notFound('no message has this id; with a transactionId name its partition, too');
    }
    if ('pid' in partition) {
      return laneOfRef(state, partition) < 0 ? notFound('there is no partition with this id') : partition.pid;
    }
    const queue = state.queues.get(partition.queue);
    if (queue === undefined) return notFound(`there is no queue ${partition.queue}`);
    const lane = laneOfName(this.#host, queue, partition.partition);
    if (lane < 0) return notFound(`queue ${partition.queue} has no partition ${partition.partition}`);
    return state.partitions.pid[lane];
  }

  list(filter: DueFilter, reply: Reply<DuePage>): void {
    const host = this.#host;
    let found: FoundPage = { rows: [], next: null, waiting: 0 };
    const operation = new ListOperation(host, filter, {
      encode: (page) => {
        found = page;
      },
      send: (failure) => {
        if (failure !== null) {
          reply.send(failure);
          return;
        }
        const { access } = host;
        readRows(host, found.rows).then(
          (rows) => {
            reply.encode({ rows, next: found.next, waiting: found.waiting });
            reply.send(null);
          },
          (error: unknown) => reply.send(host.readFailed('messages that wait', error, access)),
        );
      },
    });
    host.submit(operation);
  }
}

const idParts: IdParts = { stampUs: 0, number: 0, index: 0 };

function notFound(message: string): Refusal {
  return { ok: false, code: 'not_found', message };
}

interface FoundPage {
  readonly rows: readonly DuePlace[];
  readonly next: DuePlace | null;
  readonly waiting: number;
}

const nowhere: FoundPage = { rows: [], next: null, waiting: 0 };

/** Walks the waiting messages in the order of their times, and gathers those that are asked for. */
class ListOperation extends SlicedOperation<FoundPage> {
  readonly #host: DueHost;
  readonly #filter: DueFilter;
  readonly #rows: DuePlace[] = [];
  /** The last message that was looked at. */
  #at: DuePlace | null;

  constructor(host: DueHost, filter: DueFilter, reply: Reply<FoundPage>) {
    super(host, reply);
    this.#host = host;
    this.#filter = filter;
    this.#at = filter.after;
  }

  protected slice(): FoundPage | Unfinished {
    const { state } = this.#host.context;
    const filter = this.#filter;
    const { waiting } = state.due;
    const queue = filter.queue === null ? null : (state.queues.get(filter.queue) ?? undefined);
    if (queue === undefined) return { ...nowhere, waiting };
    const lane = queue === null || filter.partition === null ? null : laneOfName(this.#host, queue, filter.partition);
    if (lane === -1) return { ...nowhere, waiting };
    const outcome = this.#walk(queue, lane);
    if (outcome === 'more') return unfinished;
    return { rows: this.#rows, next: outcome === 'full' ? (this.#rows.at(-1) ?? null) : null, waiting };
  }

  #walk(queue: Queue | null, wantedLane: number | null): 'more' | 'full' | 'end' {
    const { state, nowUs } = this.#host.context;
    const { due, partitions } = state;
    const filter = this.#filter;
    let steps = 0;
    let outcome: 'more' | 'full' | 'end' = 'end';
    const start = this.#start(nowUs);
    due.forEachByTime(start.dueUs, start.pid, start.offset, (row) => {
      const dueUs = due.dueUsOf(row);
      if (dueUs >= filter.untilUs) return false;
      const lane = state.laneOf(due.pidOf(row));
      const isKept = lane >= 0 && due.offsetOf(row) >= partitions.logStart[lane];
      const isWanted =
        isKept &&
        (wantedLane === null ? queue === null || partitions.queueNumber[lane] === queue.number : lane === wantedLane);
      if (isWanted && this.#rows.length === filter.limit) {
        outcome = 'full';
        return false;
      }
      this.#at = { dueUs, pid: due.pidOf(row), offset: due.offsetOf(row) };
      if (isWanted) this.#rows.push(this.#at);
      if (++steps < rowsPerSlice) return true;
      outcome = 'more';
      return false;
    });
    return outcome;
  }

  /** Where the walk goes on; what is due by now does not wait. */
  #start(nowUs: number): DuePlace {
    const at = this.#at;
    const fromUs = Math.max(this.#filter.fromUs, nowUs + 1);
    return at === null || at.dueUs < fromUs ? { dueUs: fromUs, pid: 0, offset: 0 } : { ...at, offset: at.offset + 1 };
  }
}

/** Ids are in the stored records. What was removed meanwhile is left out. */
async function readRows(host: DueHost, places: readonly DuePlace[]): Promise<DueMessage[]> {
  const { state } = host.context;
  const { access } = host;
  const rows: DueMessage[] = [];
  for (const place of places) {
    const { pid, offset } = place;
    if (!isKept(host, pid, offset)) continue;
    const lane = state.laneOf(pid);
    // Both are read before waiting: the queue can be deleted meanwhile.
    const queue = state.queueOfLane(lane).name;
    const partition = state.partitions.nameText(lane);
    const block = await access.readBlock(lane, pid, offset).catch((error: unknown) => {
      if (isKept(host, pid, offset)) throw error;
      return null;
    });
    if (block === null) continue;
    const index = offset - block.firstOffset;
    block.select(index);
    const messageId = idText(state.identity, block.stampUs, pid, index);
    const { bytes, idStart, idEnd } = block;
    const transactionId = idStart < 0 ? messageId : utf8Text(bytes.subarray(idStart, idEnd));
    rows.push({ ...place, queue, partition, messageId, transactionId, createdAtUs: block.stampUs });
  }
  return rows;
}

function isKept(host: DueHost, pid: number, offset: number): boolean {
  const { state } = host.context;
  const lane = state.laneOf(pid);
  return lane >= 0 && offset >= state.partitions.logStart[lane];
}
