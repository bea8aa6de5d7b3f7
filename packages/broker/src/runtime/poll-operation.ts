/**
 * A poll of a partition, which may wait: an empty page is not answered before the time it may wait is over, a message
 * enters its range, or the queue is not there any more.
 */
import { decidePoll, type EdgePage, edgeRow, type PollCommand, type PollOutcome, type Refusal } from '../core/mod.ts';
import type { EdgeHost } from './edge-host.ts';
import { EdgeReadOperation, type ReadReply, type RowValues, type ValuePlace } from './edge-read.ts';

export interface PolledPage extends PollOutcome, RowValues {}

/** Polls that wait, by table and partition. */
export class PollWaiters {
  readonly #byTable = new Map<number, Map<number, Set<PollOperation>>>();
  count = 0;
  /** The broker stops: nobody waits any more. */
  isClosed = false;

  park(operation: PollOperation, table: number, partition: number): void {
    let partitions = this.#byTable.get(table);
    if (partitions === undefined) {
      partitions = new Map();
      this.#byTable.set(table, partitions);
    }
    const waiting = partitions.get(partition);
    if (waiting === undefined) partitions.set(partition, new Set([operation]));
    else waiting.add(operation);
    this.count++;
  }

  remove(operation: PollOperation, table: number, partition: number): void {
    const partitions = this.#byTable.get(table);
    const waiting = partitions?.get(partition);
    if (waiting?.delete(operation) !== true) return;
    this.count--;
    if (waiting.size > 0) return;
    partitions?.delete(partition);
    if (partitions?.size === 0) this.#byTable.delete(table);
  }

  /** Messages came into these partitions. */
  wake(table: number, partitions: Iterable<number>): void {
    const waiting = this.#byTable.get(table);
    if (waiting === undefined) return;
    for (const partition of new Set(partitions)) {
      for (const operation of [...(waiting.get(partition) ?? [])]) operation.wake();
    }
  }

  /** The queue was changed. */
  wakeTable(table: number): void {
    this.wake(table, [...(this.#byTable.get(table)?.keys() ?? [])]);
  }

  all(): PollOperation[] {
    return [...this.#byTable.values()].flatMap((partitions) => [...partitions.values()].flatMap((each) => [...each]));
  }
}

export class PollOperation extends EdgeReadOperation<PollOutcome> {
  readonly #waiters: PollWaiters;
  readonly #partition: number;
  /** When it is answered even if empty. */
  #deadlineUs: number;
  #parkedAt = -1;
  #cancelTimer: (() => void) | null = null;

  constructor(
    host: EdgeHost,
    waiters: PollWaiters,
    command: PollCommand,
    waitMs: number,
    reply: ReadReply<PolledPage>,
  ) {
    super(host, () => decidePoll(host.context(), command), placesOf, reply);
    this.#waiters = waiters;
    this.#partition = command.partition;
    this.#deadlineUs = waitMs === 0 ? 0 : host.nowUs() + waitMs * 1000;
  }

  protected override putsAside({ page, table, dueMs }: PollOutcome): boolean {
    const { nowUs } = this.host.context();
    if (page.count > 0 || nowUs >= this.#deadlineUs || this.#waiters.isClosed) return false;
    if (this.#waiters.count >= this.host.parkedPollsMax) return false;
    this.#waiters.park(this, table, this.#partition);
    this.#parkedAt = table;
    const untilUs = Math.min(this.#deadlineUs, dueMs * 1000);
    this.#cancelTimer = this.host.scheduler.after(Math.max(0, Math.ceil((untilUs - nowUs) / 1000)), () => this.wake());
    return true;
  }

  #unpark(): boolean {
    if (this.#parkedAt < 0) return false;
    this.#waiters.remove(this, this.#parkedAt, this.#partition);
    this.#parkedAt = -1;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    return true;
  }

  /** It is decided again. */
  wake(): void {
    if (this.#unpark()) this.host.submit(this);
  }

  /** It waits no longer. */
  end(): void {
    this.#deadlineUs = 0;
    this.wake();
  }

  /** The client has gone: it waits no longer, and if it is about to be decided it will not wait again. */
  cancel(): void {
    this.#deadlineUs = 0;
    this.#unpark();
  }

  /** Refused while it waits. */
  drop(refusal: Refusal): void {
    if (this.#unpark()) this.release(refusal);
  }
}

function placesOf({ page }: { readonly page: EdgePage }): ValuePlace[] {
  return Array.from({ length: page.count }, (_, i) => ({
    address: page.numbers[i * edgeRow.numbers + edgeRow.addressAt],
    length: page.words[i * edgeRow.words + edgeRow.lengthAt],
    checksum: page.words[i * edgeRow.words + edgeRow.checksumAt],
  }));
}
