import type { Refusal } from '../core/mod.ts';
import { StoreDamage } from './store-access.ts';

/** Who is told of reads that failed. */
export interface ReadFailureHost {
  noteDamage(error: StoreDamage): void;
  log(level: 'error', text: string): void;
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Notes that a read failed, with what could not be done, and says what to answer. */
export function failedRead(host: ReadFailureHost, what: string, error: unknown): Refusal {
  const { message } = asError(error);
  if (error instanceof StoreDamage) host.noteDamage(error);
  else host.log('error', `${what}: ${message}`);
  return { ok: false, code: 'internal', message };
}
