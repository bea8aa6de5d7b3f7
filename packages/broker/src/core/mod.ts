export { type AckItems, type AckStatus, ackStatus, type PushItems, pushHash, pushSlice } from './commands.ts';
export { type BrokerIdentity, type IdParts, idIndexMax, idText, idTextLength, parseId, writeId } from './ids.ts';
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
