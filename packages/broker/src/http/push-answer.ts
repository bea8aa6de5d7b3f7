/** The answer of a push: one element per item, in input order. The casing of its names is the contract's. */

import { asciiBytes, type ByteWriter } from '../codec/mod.ts';
import { type BrokerIdentity, itemStatus, type PushItems, type PushOutcome, pushSlice } from '../core/mod.ts';
import { isoTime } from './iso-time.ts';

const indexIs = asciiBytes('{"index":');
const messageIdIs = asciiBytes(',"message_id":"');
const transactionIdIs = asciiBytes('","transaction_id":');
const queueNameIs = asciiBytes(',"queueName":');
const quote = 34;
const comma = 44;

/** What follows the queue's name, by status; the offset and a brace follow where one is known. */
const queuedAt = asciiBytes(',"status":"queued","offset":');
const duplicateOf = asciiBytes(',"status":"duplicate","offset":');
const dueAtIs = asciiBytes(',"dueAt":"');
const failed = asciiBytes(',"status":"error"');

const openBracket = 91;
const closeBracket = 93;
const closeBrace = 125;

/** Writes the whole answer. An item without a transactionId of its own has its message id for one. */
export function writePushAnswer(
  writer: ByteWriter,
  identity: BrokerIdentity,
  items: PushItems,
  outcome: PushOutcome,
): void {
  const { bytes, slices } = items;
  const { statuses, offsets, pids, stamps, indexes, dues } = outcome;
  writer.byte(openBracket);
  for (let i = 0; i < outcome.count; i++) {
    if (i > 0) writer.byte(comma);
    const row = i * pushSlice.stride;
    writer.raw(indexIs);
    writer.integer(i);
    writer.raw(messageIdIs);
    writer.id(identity, stamps[i], pids[i], indexes[i]);
    writer.raw(transactionIdIs);
    const idStart = slices[row + pushSlice.idStart];
    if (idStart >= 0) {
      writer.jsonBytes(bytes, idStart, slices[row + pushSlice.idEnd]);
    } else {
      writer.byte(quote);
      writer.id(identity, stamps[i], pids[i], indexes[i]);
      writer.byte(quote);
    }
    writer.raw(queueNameIs);
    writer.jsonBytes(bytes, slices[row + pushSlice.queueStart], slices[row + pushSlice.queueEnd]);
    const status = statuses[i];
    if (status === itemStatus.error) {
      writer.raw(failed);
    } else {
      writer.raw(status === itemStatus.queued ? queuedAt : duplicateOf);
      writer.integer(offsets[i]);
      if (dues !== null && dues[i] > 0) {
        writer.raw(dueAtIs);
        writer.raw(asciiBytes(isoTime(dues[i])));
        writer.byte(quote);
      }
    }
    writer.byte(closeBrace);
  }
  writer.byte(closeBracket);
}
