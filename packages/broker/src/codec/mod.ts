export { hashAckItems, type ScannedAck, scanAckBody } from './ack-items.ts';
export { BlockReader, recordBytes } from './block-reader.ts';
export {
  writeEdgeRangeDeleted,
  writeEdgeRows,
  writeEdgesDeleted,
  writeEdgesPut,
  writeEdgeValueMoved,
} from './edge-records.ts';
export { type EnqueueLimits, readSeq, type ScannedEnqueue, scanEnqueueBody, seqText } from './enqueue-items.ts';
export {
  block,
  blockFlag,
  entryHeader,
  readU64,
  recordFlag,
  recordHeaderBytes,
  recordType,
  relocated,
  writeU64,
} from './format.ts';
export { createHasher, type Hasher } from './hasher.ts';
export { checkJson, JsonError, JsonScanner } from './json-scanner.ts';
export { asciiBytes, ByteWriter, keptBytesMax } from './json-writer.ts';
export { isBinaryPush, scanBinaryPush } from './push-binary.ts';
export { hashPushItems, type ScannedPush, scanPushBody } from './push-items.ts';
export {
  blockCount,
  isWholeBlock,
  type RecordSpace,
  readRecords,
  writeBlock,
  writeCursor,
  writeDeadLetter,
  writeDeadLetterRemoved,
  writeDueChanged,
  writeGenesis,
  writeJsonRecord,
  writeLogStart,
  writePartition,
  writePartitionPaused,
  writePartitionsDeleted,
  writeQueue,
  writeQueueDeleted,
  writeRelocatedBlock,
  writeSegmentReclaimed,
  writeSubscription,
  writeSubscriptionDeleted,
  writeTrace,
} from './records.ts';
