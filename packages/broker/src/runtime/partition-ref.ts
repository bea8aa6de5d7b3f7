/** A partition as clients name it outside of its queue: by its number in decimal, or by its UUID. */
import { type BrokerIdentity, type BrokerState, type IdParts, parseId, partitionIdIndex } from '../core/mod.ts';
import { utf8 } from './text.ts';

export interface PartitionRef {
  readonly pid: number;
  /** Creation of the partition that the UUID names; 0 = it was named by its number. */
  readonly createdAtUs: number;
}

const parts: IdParts = { stampUs: 0, number: 0, index: 0 };

/** Null when the text is neither. */
export function readPartitionRef(identity: BrokerIdentity, text: string): PartitionRef | null {
  if (/^[1-9]\d{0,15}$/.test(text)) return { pid: Number(text), createdAtUs: 0 };
  const bytes = utf8(text.toLowerCase());
  if (!parseId(identity, bytes, 0, bytes.length, parts) || parts.index !== partitionIdIndex) return null;
  return { pid: parts.number, createdAtUs: parts.stampUs };
}

/** The lane of the partition, or −1. */
export function laneOfRef(state: BrokerState, ref: PartitionRef): number {
  const lane = state.laneOf(ref.pid);
  if (lane >= 0 && ref.createdAtUs !== 0 && state.partitions.createdAtUs[lane] !== ref.createdAtUs) return -1;
  return lane;
}
