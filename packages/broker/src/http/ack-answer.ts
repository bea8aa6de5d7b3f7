/** The answer of an ack: one element per item, in input order. */

import { asciiBytes, type ByteWriter } from '../codec/mod.ts';
import { type AckItems, type AckOutcome, ackError } from '../core/mod.ts';

const indexIs = asciiBytes('{"index":');
const transactionIdIs = asciiBytes(',"transactionId":');
const leaseReleasedIs = asciiBytes(',"leaseReleased":');
const dlqIs = asciiBytes(',"dlq":');
const noopIs = asciiBytes(',"noop":');
const no = asciiBytes('false');
const yes = asciiBytes('true');

/** What became of the item, by error; the texts are the contract's. */
const verdicts: Uint8Array[] = [];
verdicts[ackError.none] = asciiBytes(',"success":true,"error":null');
verdicts[ackError.notAPartitionId] = asciiBytes(',"success":false,"error":"partitionId is not a partition id"');
verdicts[ackError.noPartition] = asciiBytes(',"success":false,"error":"no partition"');
verdicts[ackError.lease] = asciiBytes(',"success":false,"error":"invalid or expired lease"');
verdicts[ackError.stale] = asciiBytes(
  ',"success":false,"error":"transaction is unresolvable, already committed, or acknowledgment is stale"',
);

const openBracket = 91;
const closeBracket = 93;
const comma = 44;
const closeBrace = 125;

/** Writes the whole answer. */
export function writeAckAnswer(writer: ByteWriter, items: AckItems, outcome: AckOutcome): void {
  const { bytes, ends } = items;
  const { errors, leaseReleased, deadLettered, noop } = outcome;
  writer.byte(openBracket);
  for (let i = 0; i < outcome.count; i++) {
    if (i > 0) writer.byte(comma);
    writer.raw(indexIs);
    writer.integer(i);
    writer.raw(transactionIdIs);
    writer.jsonBytes(bytes, ends[i], ends[i + 1]);
    writer.raw(verdicts[errors[i]]);
    writer.raw(leaseReleasedIs);
    writer.raw(leaseReleased[i] === 0 ? no : yes);
    writer.raw(dlqIs);
    writer.raw(deadLettered[i] === 0 ? no : yes);
    writer.raw(noopIs);
    writer.raw(noop[i] === 0 ? no : yes);
    writer.byte(closeBrace);
  }
  writer.byte(closeBracket);
}
