/** What a message is to the groups of its queue, and where a message lies that is asked for by its id. */
import { limits } from '@lanemq/protocol';
import type { BlockReader } from '../codec/mod.ts';
import {
  type BrokerState,
  type DeadLetterRecord,
  defaultGroup,
  type IdParts,
  idIndexMax,
  idText,
  parseId,
  type Queue,
} from '../core/mod.ts';
import type { PayloadCipher } from '../ports/mod.ts';
import type {
  ConsumptionMode,
  DueFacts,
  MessageDetail,
  MessageStatus,
  MessageView,
  PeekGroup,
  PeekRecord,
  PeekRequest,
  PeekState,
  PeekView,
  RecordView,
} from './browse-views.ts';
import { type Block, blocksOf, type GroupStanding, standingOf } from './group-standing.ts';
import { partitionId, type Sight } from './queue-views.ts';
import type { ReadPace } from './read-pace.ts';
import { viewRecord } from './record-view.ts';
import type { StoreAccess } from './store-access.ts';
import { utf8 } from './text.ts';
import { type Walk, walkStepRows } from './walk.ts';

export type DeadByRecord = ReadonlyMap<string, DeadLetterRecord>;

function recordKey(pid: number, offset: number): string {
  return `${pid}:${offset}`;
}

/** The newest dead letter of each of these records. */
export function* deadLettersOf(
  state: BrokerState,
  records: readonly RecordView[],
): Generator<number, DeadByRecord, undefined> {
  const found = new Map<string, DeadLetterRecord>();
  const pids = new Set(records.map(({ pid }) => pid));
  let mayBeThere = false;
  for (const pid of pids) {
    const lane = state.laneOf(pid);
    if (lane >= 0 && state.queueOfLane(lane).deadLetterCount > 0) mayBeThere = true;
  }
  if (!mayBeThere) return found;
  const wanted = new Set(records.map(({ pid, offset }) => recordKey(pid, offset)));
  let looked = 0;
  for (const row of state.deadLetters.all()) {
    if (pids.has(row.pid)) {
      const key = recordKey(row.pid, row.offset);
      if (wanted.has(key)) found.set(key, row);
    }
    if (++looked % walkStepRows === 0) yield walkStepRows;
  }
  return found;
}

function dueOf(state: BrokerState, pid: number, offset: number, nowUs: number): DueFacts {
  const { due } = state;
  const row = due.size === 0 ? -1 : due.find(pid, offset);
  if (row < 0) return { dueUs: 0, isCancelled: false };
  return { dueUs: due.isWaiting(row, nowUs) ? due.dueUsOf(row) : 0, isCancelled: due.isCancelled(row) };
}

export function modeOf(queue: Queue): ConsumptionMode {
  const hasQueueMode = queue.subscription(defaultGroup) !== undefined;
  return { hasQueueMode, busGroupsCount: queue.subscriptions.length - (hasQueueMode ? 1 : 0) };
}

/** The message that a record is; null when its partition is gone, or it lies before the start of the log by now. */
export function viewMessage(sight: Sight, record: RecordView, dead: DeadByRecord): MessageView | null {
  const { state, schedule } = sight;
  const lane = state.laneOf(record.pid);
  if (lane < 0 || record.offset < state.partitions.logStart[lane]) return null;
  const queue = state.queueOfLane(lane);
  const { cursors } = state;
  let queueCommitted = -1;
  let hasQueueMode = false;
  let consumedBy = 0;
  let leaseExpiresAtUs = 0;
  let queueLeaseEnds = 0;
  for (const subscription of queue.subscriptions) {
    const row = cursors.find(state.partitions.firstCursor[lane], subscription.number);
    const committed = row < 0 ? -1 : cursors.committed[row];
    let expiresAtUs = 0;
    if (row >= 0 && cursors.hasLiveLease(row, schedule.nowUs)) {
      const claim = cursors.claim[row];
      if (record.offset > committed && record.offset <= cursors.leaseEnd[claim])
        expiresAtUs = cursors.expiresAtUs[claim];
    }
    leaseExpiresAtUs = Math.max(leaseExpiresAtUs, expiresAtUs);
    if (subscription.group === defaultGroup) {
      hasQueueMode = true;
      queueCommitted = committed;
      queueLeaseEnds = expiresAtUs;
    } else if (committed >= record.offset) consumedBy++;
  }
  const isDead = dead.has(recordKey(record.pid, record.offset));
  const isCompleted = queueCommitted >= record.offset;
  const statusWith = (leasedUntilUs: number): MessageStatus =>
    isDead ? 'dead_letter' : isCompleted ? 'completed' : leasedUntilUs > 0 ? 'processing' : 'pending';
  return {
    ...record,
    ...dueOf(state, record.pid, record.offset, schedule.nowUs),
    queue: queue.name,
    partition: state.partitions.nameText(lane),
    partitionId: partitionId(state, lane),
    namespace: queue.namespace,
    task: queue.task,
    priority: queue.options.priority,
    status: statusWith(leaseExpiresAtUs),
    queueStatus: hasQueueMode ? statusWith(queueLeaseEnds) : null,
    consumedBy,
    totalGroups: queue.subscriptions.length - (hasQueueMode ? 1 : 0),
    leaseExpiresAtUs,
  };
}

export function* viewMessages(sight: Sight, records: readonly RecordView[]): Walk<{ rows: MessageView[] }> {
  const dead = yield* deadLettersOf(sight.state, records);
  const rows: MessageView[] = [];
  for (const [place, record] of records.entries()) {
    const view = viewMessage(sight, record, dead);
    if (view !== null) rows.push(view);
    if (place % walkStepRows === walkStepRows - 1) yield walkStepRows * 4;
  }
  return { rows };
}

export function* viewDetail(sight: Sight, record: RecordView): Walk<MessageDetail | null> {
  const { state, schedule } = sight;
  const dead = yield* deadLettersOf(state, [record]);
  const view = viewMessage(sight, record, dead);
  if (view === null) return null;
  const lane = state.laneOf(record.pid);
  const queue = state.queueOfLane(lane);
  const letter = dead.get(recordKey(record.pid, record.offset));
  return {
    ...view,
    errorMessage: letter?.error ?? null,
    retryCount: letter?.retryCount ?? 0,
    options: queue.options,
    mode: modeOf(queue),
    groups: queue.subscriptions.map((subscription) => {
      const { committed, lease } = standingOf(state, schedule.nowUs, () => 0, queue, subscription, lane);
      const isLeased = lease !== null && record.offset > committed && record.offset <= lease.end;
      return {
        name: subscription.group,
        committed,
        consumed: committed >= record.offset,
        leaseExpiresAtUs: isLeased ? lease.expiresAtUs : 0,
      };
    }),
  };
}

/** Where a message of a partition is looked for. */
export interface Address {
  readonly lane: number;
  readonly pid: number;
  readonly logStart: number;
  readonly end: number;
}

const parts: IdParts = { stampUs: 0, number: 0, index: 0 };

/**
 * The record of a partition with this transactionId, the newest when there are several, or with this message id. Ids are
 * indexed as long as deduplication needs them; for older ones the newest `messagesScannedMax` records are searched.
 */
export async function findRecord(
  state: BrokerState,
  access: StoreAccess,
  cipher: PayloadCipher | null,
  pace: ReadPace,
  hash: (text: Uint8Array) => { high: number; low: number },
  address: Address,
  transactionId: string,
): Promise<RecordView | null> {
  const id = utf8(transactionId);
  const { lane, pid } = address;
  const { high, low } = hash(id);
  const isInRange = (offset: number): boolean => offset >= address.logStart && offset < address.end;
  const isIt = (record: RecordView): boolean => record.transactionId === transactionId || record.id === transactionId;
  const recordAt = async (offset: number): Promise<RecordView | null> => {
    if (state.laneOf(pid) !== lane) return null;
    const block = await access.readBlockIfKept(state, lane, pid, offset);
    if (block === null) return null;
    const record = viewRecord(state.identity, cipher, block, offset - block.firstOffset);
    return isIt(record) ? record : null;
  };
  const known = await access.findId(pid, high, low);
  if (known !== undefined && isInRange(known)) {
    const record = await recordAt(known);
    if (record !== null) return record;
  }
  if (parseId(state.identity, id, 0, id.length, parts) && parts.number === pid && parts.index <= idIndexMax) {
    const { stampUs, index } = parts;
    const first = await access.firstOffsetFrom(lane, pid, stampUs);
    if (first !== undefined && isInRange(first + index)) {
      const record = await recordAt(first + index);
      if (record !== null) return record;
    }
  }
  let bytes = 0;
  const oldest = Math.max(address.logStart, address.end - limits.messagesScannedMax);
  for (let offset = address.end - 1; offset >= oldest && bytes < limits.messagesScannedBytes; ) {
    if (state.laneOf(pid) !== lane) return null;
    const block = await access.readBlockIfKept(state, lane, pid, offset);
    if (block === null) return null;
    for (let index = Math.min(block.count - 1, offset - block.firstOffset); index >= 0; index--) {
      if (block.hashHigh(index) !== high || block.hashLow(index) !== low) continue;
      const record = viewRecord(state.identity, cipher, block, index);
      if (record.offset >= address.logStart && isIt(record)) return record;
    }
    bytes += block.length;
    offset = block.firstOffset - 1;
    await pace.read(block.length);
  }
  return null;
}

/** The records of a partition from an offset on, up to a number and to the payload bytes of a page. */
export async function readFrom(
  state: BrokerState,
  access: StoreAccess,
  cipher: PayloadCipher | null,
  pace: ReadPace,
  address: Address,
  from: number,
  limit: number,
): Promise<RecordView[]> {
  const records: RecordView[] = [];
  const { lane, pid } = address;
  let bytes = 0;
  let block: BlockReader | null;
  for (let offset = from; offset < address.end && records.length < limit && bytes < limits.messagesPageBytes; ) {
    if (state.laneOf(pid) !== lane) break;
    block = await access.readBlockIfKept(state, lane, pid, offset);
    if (block === null) break;
    const end = Math.min(block.firstOffset + block.count, address.end, offset + limit - records.length);
    for (; offset < end && bytes < limits.messagesPageBytes; offset++) {
      const record = viewRecord(state.identity, cipher, block, offset - block.firstOffset);
      records.push(record);
      bytes += record.payload?.length ?? 0;
    }
    await pace.read(block.length);
  }
  return records;
}

/** Null when the partition is gone. */
export function* viewPeek(
  sight: Sight,
  stampOf: (lane: number, offset: number) => number,
  request: PeekRequest,
  pid: number,
  from: number,
  read: readonly RecordView[],
): Walk<PeekView | null> {
  const { state, schedule } = sight;
  const dead = yield* deadLettersOf(state, read);
  const lane = state.laneOf(pid);
  if (lane < 0) return null;
  const queue = state.queueOfLane(lane);
  const { nowUs } = schedule;
  const shown = queue.subscriptions
    .filter(({ group }) => request.group === null || group === request.group)
    .slice(0, limits.peekGroupsMax)
    .map((subscription) => ({
      group: subscription.group,
      standing: standingOf(state, nowUs, stampOf, queue, subscription, lane),
      blockedBy: blocksOf(state, queue, subscription, pid, nowUs),
    }));
  const logStart = state.partitions.logStart[lane];
  const records: PeekRecord[] = [];
  for (const record of read) {
    if (record.offset < logStart) continue;
    const due = dueOf(state, pid, record.offset, nowUs);
    records.push({
      ...record,
      ...due,
      isDeadLetter: dead.has(recordKey(pid, record.offset)),
      states: shown.map(({ standing }) => {
        const waits = record.offset < standing.waitsFrom ? null : dueOf(state, pid, standing.waitsFrom, nowUs);
        return stateOf(queue, standing, { ...record, ...due }, waits, nowUs);
      }),
    });
    yield shown.length;
  }
  const nextOffset = state.partitions.nextOffset[lane];
  const last = read[read.length - 1];
  const behind = last === undefined ? from : last.offset + 1;
  return {
    queue: queue.name,
    partition: request.partition,
    pid,
    partitionId: partitionId(state, lane),
    logStart,
    nextOffset,
    groups: shown.map(({ group, standing, blockedBy }) => viewGroup(state, group, standing, blockedBy)),
    records,
    next: behind < nextOffset ? behind : null,
  };
}

function viewGroup(state: BrokerState, group: string, standing: GroupStanding, blockedBy: readonly Block[]): PeekGroup {
  const { lease, committed } = standing;
  return {
    group,
    committed,
    lease:
      lease === null
        ? null
        : {
            id: idText(state.identity, lease.stampUs, 0, 0),
            sinceUs: lease.stampUs,
            from: committed + 1,
            to: lease.end,
            expiresAtUs: lease.expiresAtUs,
          },
    retryCount: standing.retryCount,
    attemptCount: standing.attemptCount,
    heldUntilUs: standing.heldUntilUs,
    delayedUntilUs: standing.delayedUntilUs,
    blockedBy,
  };
}

/** @param waits the first record up to this one that waits for a time of its own */
function stateOf(
  queue: Queue,
  standing: GroupStanding,
  record: RecordView & DueFacts,
  waits: DueFacts | null,
  nowUs: number,
): { readonly state: PeekState; readonly untilUs: number } {
  if (record.offset <= standing.committed) return { state: 'consumed', untilUs: 0 };
  const { lease } = standing;
  if (lease !== null && record.offset <= lease.end) return { state: 'leased', untilUs: lease.expiresAtUs };
  if (record.isCancelled) return { state: 'cancelled', untilUs: 0 };
  if (standing.heldUntilUs > 0) return { state: 'held', untilUs: standing.heldUntilUs };
  const dueUs = Math.max(waits?.dueUs ?? 0, record.dueUs);
  const delayedUntilUs = Math.max(standing.delayedUntilUs, record.createdAtUs + queue.delayUs, dueUs);
  if (delayedUntilUs > nowUs) return { state: 'delayed', untilUs: delayedUntilUs };
  return { state: 'ready', untilUs: 0 };
}
