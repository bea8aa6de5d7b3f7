export { decideAck } from './ack.ts';
export { assert, InvariantBroken } from './assert.ts';
export { BrokerState, type StateObserver } from './broker-state.ts';
export { type AckItems, type AckStatus, ackStatus, type PushItems, pushHash, pushSlice } from './commands.ts';
export { type ConfigureCommand, decideConfigure, decideDeleteQueue } from './configure.ts';
export { cursorBit } from './cursor-table.ts';
export type { LetterPlace, LetterSelection } from './dead-letters.ts';
export {
  type Blocks,
  type BlockView,
  type DecisionContext,
  type Ids,
  idLookup,
  type NeedsLoad,
  nameRefusal,
  needsLoad,
} from './decision.ts';
export { type DueChange, decideDueChange, type RecordName } from './due.ts';
export type { EdgeContext } from './edges/edge-context.ts';
export {
  decideChangeDatabase,
  decideChangeTable,
  decideCreateDatabase,
  decideCreateTable,
  decideDeleteDatabase,
  decideDeleteTable,
  findDatabase,
  findTable,
  listTables,
} from './edges/edge-metadata.ts';
export {
  decideCommit,
  decideCreateEdgeQueue,
  decideDeleteEdgeQueue,
  decideEnqueue,
  decidePoll,
  decidePurge,
  decideSetEdgeQueueActive,
  type EnqueueOutcome,
  edgePartitionOf,
  edgeQueueLimits,
  listQueueDepths,
  type PartitionDepth,
  type PollCommand,
  type PollOutcome,
  type QueueDepth,
  type Seq,
  showEdgeQueue,
  showQueueDepth,
} from './edges/edge-queue.ts';
export type {
  EdgeDatabaseDeletedRecord,
  EdgeDatabaseRecord,
  EdgeItems,
  EdgeJournal,
  EdgePut,
  EdgeRecordHandlers,
  EdgeTableDeletedRecord,
  EdgeTableMode,
  EdgeTableRecord,
  StoredEdgeValue,
} from './edges/edge-records.ts';
export { type EdgeBound, type EdgePage, EdgeRows, edgeRow } from './edges/edge-rows.ts';
export { edgeTableLimits } from './edges/edge-schema.ts';
export {
  decideInsertEdges,
  decideScan,
  decideScanDelete,
  edgeLimits,
  type InsertOutcome,
  type ScanCommand,
  type ScanOutcome,
} from './edges/edge-table.ts';
export { type JsonNode, readJsonNode } from './edges/json-node.ts';
export { type KeyedRow, KeyedRows, type KeyRange } from './edges/keyed-rows.ts';
export { Expiry } from './expiry.ts';
export { hasLimits, rateAllowance } from './group-limits.ts';
export {
  decideDeleteGroup,
  decidePauseGroup,
  decidePausePartition,
  decidePauseQueue,
  decideSeek,
  decideStartFrom,
  ensureSubscription,
  type SeekTarget,
} from './groups.ts';
export {
  type BrokerIdentity,
  type IdParts,
  idIndexMax,
  idText,
  idTextLength,
  parseId,
  partitionIdIndex,
  queueIdIndex,
  redriveIdIndex,
  traceIdIndex,
  writeId,
} from './ids.ts';
export { decideExtend } from './lease.ts';
export {
  type AckOutcome,
  ackError,
  type DeliveredPiece,
  type DeliveredRun,
  type ExtendOutcome,
  itemStatus,
  type PopOutcome,
  type PushOutcome,
  type Refusal,
} from './outcomes.ts';
export { decidePop, handBack, type MissingRow, type PopCommand, type PopDecision, type PopTarget } from './pop.ts';
export { PushDecider } from './push.ts';
export { defaultGroup, type Queue, type Subscription } from './queue.ts';
export { type LogRange, ReclaimedRanges } from './reclaimed.ts';
export {
  CursorRecord,
  type DeadLetterRecord,
  type DeadLetterRemovedRecord,
  type GenesisRecord,
  type Journal,
  type LogStartRecord,
  type PartitionPausedRecord,
  type QueueDeletedRecord,
  type QueueRecord,
  type RecordHandlers,
  type SubscriptionDeletedRecord,
  type SubscriptionMode,
  type SubscriptionRecord,
  type TraceRecord,
} from './records.ts';
export {
  decideCleanup,
  decideTrim,
  decideTrimWhole,
  type ExpiryRule,
  expiryRule,
  isAbandoned,
  isExpired,
  isLive,
  isWhollyExpired,
  type Trim,
} from './retention.ts';
export { type BlockPlaces, type ReadyListener, Schedule } from './schedule.ts';
export { StateLoader, type StatePiece, saveState, stateFormat } from './state-snapshot.ts';
export { decideTrace, type TraceCommand, type TraceOutcome, Traces } from './traces.ts';
