/** What decisions about edge tables share. */
import type { Refusal } from '../outcomes.ts';
import type { EdgeJournal } from './edge-records.ts';
import type { EdgeState } from './edge-state.ts';

export interface EdgeContext {
  readonly edges: EdgeState;
  readonly journal: EdgeJournal;
  readonly nowUs: number;
}

export function refusal(code: Refusal['code'], message: string): Refusal {
  return { ok: false, code, message };
}

export const edgeNameRule = /^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/;
export const storageRule = /^datastore:\/\/[a-z0-9_]+\/[a-zA-Z0-9_-]+$/;
