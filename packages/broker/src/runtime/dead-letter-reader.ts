/** Turns dead letter rows into what the list route shows; payloads may have to be read from disk. */
import { limits } from '@lanemq/protocol';
import { type BlockReader, recordFlag } from '../codec/mod.ts';
import { type BrokerState, type DeadLetterRecord, idText } from '../core/mod.ts';
import type { PayloadCipher } from '../ports/mod.ts';
import type { ReadPace } from './read-pace.ts';
import type { StoreAccess } from './store-access.ts';
import { utf8Text } from './text.ts';
import type { DeadLetterView } from './views.ts';
import type { Walk } from './walk.ts';

export interface DeadLetterFilter {
  readonly queue: string | null;
  readonly group: string | null;
  readonly limit: number;
  readonly offset: number;
}

export interface FoundDeadLetters {
  readonly rows: readonly DeadLetterRecord[];
  readonly total: number;
}

/** A page of the rows that are asked for, newest first, and how many there are. */
export function* findDeadLetters(state: BrokerState, filter: DeadLetterFilter): Walk<FoundDeadLetters> {
  const queue = filter.queue === null ? null : state.queues.get(filter.queue);
  if (queue === undefined) return { rows: [], total: 0 };
  const selection = { queueNumber: queue?.number ?? null, group: filter.group };
  return yield* state.deadLetters.page(selection, filter.offset, filter.limit);
}

/** Rows of queues that were deleted meanwhile are left out; reading ends when the page is full of payload bytes. */
export async function readDeadLetters(
  state: BrokerState,
  access: StoreAccess,
  cipher: PayloadCipher | null,
  pace: ReadPace,
  rows: readonly DeadLetterRecord[],
): Promise<DeadLetterView[]> {
  const views: DeadLetterView[] = [];
  let bytes = 0;
  // Messages that failed together were often pushed together.
  let last: BlockReader | null = null;
  for (const row of rows) {
    if (bytes >= limits.deadLetterPageBytes) break;
    const lane = state.laneOf(row.pid);
    const queue = state.queueByNumber.get(row.queueNumber);
    if (lane < 0 || queue === undefined) continue;
    // Both are read before waiting: the queue can be deleted meanwhile.
    const partition = row.partition ?? state.partitions.nameText(lane);
    if (last === null || !holds(last, row)) {
      last = await access.readBlock(lane, row.pid, row.offset).catch((error: unknown) => {
        // With its queue, the block may have gone while it was looked for.
        if (state.laneOf(row.pid) === lane) throw error;
        return null;
      });
      await pace.read(last?.length ?? 0);
    }
    if (last === null) continue;
    const block = last;
    views.push(viewOf(state, cipher, row, queue.name, partition, block));
    bytes += block.payloadEnd - block.payloadStart;
  }
  return views;
}

function holds({ pid, firstOffset, count }: BlockReader, row: DeadLetterRecord): boolean {
  return pid === row.pid && row.offset >= firstOffset && row.offset < firstOffset + count;
}

function viewOf(
  state: BrokerState,
  cipher: PayloadCipher | null,
  row: DeadLetterRecord,
  queue: string,
  partition: string,
  block: BlockReader,
): DeadLetterView {
  const index = row.offset - block.firstOffset;
  block.select(index);
  const messageId = idText(state.identity, block.stampUs, row.pid, index);
  return {
    id: idText(state.identity, row.stampUs, row.pid, row.index),
    queue,
    partition,
    pid: row.pid,
    group: row.group,
    offset: row.offset,
    messageId,
    transactionId: block.idStart < 0 ? messageId : utf8Text(block.bytes.subarray(block.idStart, block.idEnd)),
    createdAtUs: block.stampUs,
    failedAtUs: row.stampUs,
    retryCount: row.retryCount,
    error: row.error,
    payload: clearPayload(block, cipher),
  };
}

function clearPayload(block: BlockReader, cipher: PayloadCipher | null): Uint8Array {
  if ((block.flags & recordFlag.encrypted) === 0) return block.bytes.subarray(block.payloadStart, block.payloadEnd);
  if (cipher === null) throw new Error('the payload is encrypted, and the broker was started without a key');
  return cipher.decrypt(block.bytes, block.payloadStart, block.payloadEnd);
}
