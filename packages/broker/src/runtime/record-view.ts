/** A stored record as browsing shows it. */
import { type BlockReader, recordFlag } from '../codec/mod.ts';
import { type BrokerIdentity, idText } from '../core/mod.ts';
import type { PayloadCipher } from '../ports/mod.ts';
import type { RecordView } from './browse-views.ts';
import { utf8Text } from './text.ts';

/** The text form of 16 stored bytes. */
function uuidText(bytes: Uint8Array, at: number): string {
  let text = '';
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
    text += hex(bytes[at + i], 2);
  }
  return text;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** @param block a copy of the block; it is put on record `index` */
export function viewRecord(
  identity: BrokerIdentity,
  cipher: PayloadCipher | null,
  block: BlockReader,
  index: number,
): RecordView {
  block.select(index);
  const id =
    block.messageIdStart >= 0
      ? uuidText(block.bytes, block.messageIdStart)
      : idText(identity, block.stampUs, block.pid, index);
  const isEncrypted = (block.flags & recordFlag.encrypted) !== 0;
  return {
    pid: block.pid,
    offset: block.firstOffset + index,
    id,
    transactionId: block.idStart < 0 ? id : utf8Text(block.bytes.subarray(block.idStart, block.idEnd)),
    fingerprint: hex(block.hashHigh(index), 8) + hex(block.hashLow(index), 8),
    traceId: block.traceStart < 0 ? null : uuidText(block.bytes, block.traceStart),
    producerSub: block.subjectStart < 0 ? null : utf8Text(block.bytes.subarray(block.subjectStart, block.subjectEnd)),
    createdAtUs: block.stampUs,
    isEncrypted,
    payload: isEncrypted ? decrypted(block, cipher) : block.bytes.subarray(block.payloadStart, block.payloadEnd),
    appendOffset: block.firstOffset,
    appendIndex: index,
  };
}

/** Null without a key, and with another than the one it was encrypted with: the rest of the record can be shown. */
function decrypted(block: BlockReader, cipher: PayloadCipher | null): Uint8Array | null {
  if (cipher === null) return null;
  try {
    return cipher.decrypt(block.bytes, block.payloadStart, block.payloadEnd);
  } catch {
    return null;
  }
}
