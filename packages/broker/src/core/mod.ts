export { decideAck } from './ack.ts';
export { assert, InvariantBroken } from './assert.ts';
export { BrokerState, type StateObserver } from './broker-state.ts';
export { type AckItems, type AckStatus, ackStatus, type PushItems, pushHash, pushSlice } from './commands.ts';
export { type ConfigureCommand, decideConfigure, decideDeleteQueue } from './configure.ts';
export { cursorBit } from './cursor-table.ts';
export {
  type Blocks,
  type BlockView,
  type DecisionContext,
  type Ids,
  idLookup,
  type NeedsLoad,
  needsLoad,
} from './decision.ts';
export {
  decideCommit,
  decideCreateDatabase,
  decideCreateEdgeQueue,
  decideDeleteEdgeQueue,
  decideEnqueue,
  decidePoll,
  decideSetEdgeQueueActive,
  type EdgeContext,
  type EnqueueOutcome,
  edgePartitionOf,
  edgeQueueLimits,
  findEdgeQueue,
  type PollCommand,
  type PollOutcome,
  type Seq,
} from './edges/edge-queue.ts';
export type {
  EdgeDatabaseRecord,
  EdgeItems,
  EdgeJournal,
  EdgeRecordHandlers,
  EdgeTableDeletedRecord,
  EdgeTableRecord,
} from './edges/edge-records.ts';
export { type EdgePage, EdgeRows, edgeRow } from './edges/edge-rows.ts';
export {
  type BrokerIdentity,
  type IdParts,
  idIndexMax,
  idText,
  idTextLength,
  parseId,
  partitionIdIndex,
  queueIdIndex,
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
export {
  CursorRecord,
  type DeadLetterRecord,
  type GenesisRecord,
  type Journal,
  type QueueDeletedRecord,
  type QueueRecord,
  type RecordHandlers,
  type SubscriptionMode,
  type SubscriptionRecord,
} from './records.ts';
export { type BlockPlaces, type ReadyListener, Schedule } from './schedule.ts';
export { StateLoader, type StatePiece, saveState, stateFormat } from './state-snapshot.ts';
