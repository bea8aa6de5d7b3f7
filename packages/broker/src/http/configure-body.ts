/** The body of configure: which queue, and what of it changes. Nothing is changed when anything in it is refused. */

import { type QueueOptionName, queueOptionTable, readQueueOption } from '@lanemq/protocol';
import type { ConfigureRequest } from '../runtime/mod.ts';
import { isObject, type JsonObject } from './small-body.ts';

export type ReadConfigure =
  | { readonly ok: true; readonly request: ConfigureRequest }
  | { readonly ok: false; readonly message: string };

class Refused extends Error {}

/** A value in a message; cut, because it is the client's. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 64 ? `${text.slice(0, 64)}…` : text;
}

function optionValue(name: QueueOptionName, value: unknown): number | boolean | string | null {
  if (value === null) return null;
  const read = readQueueOption(name, value);
  if (!read.ok) throw new Refused(read.message);
  return read.value;
}

/** `maxQueueSize` is another name of `maxSize`; clients that fill in defaults send both, and the one that says something counts. */
function maxSizeOf(source: { readonly maxSize?: unknown; readonly maxQueueSize?: unknown }): unknown {
  const { maxSize: first, maxQueueSize: second } = source;
  if (second === undefined) return first;
  if (first === undefined) return second;
  const chosen = first === queueOptionTable.maxSize.default || first === null ? second : first;
  const other = chosen === first ? second : first;
  if (other !== chosen && other !== queueOptionTable.maxSize.default && other !== null) {
    throw new Refused(`maxSize (${shown(first)}) and maxQueueSize (${shown(second)}) are two names of one option`);
  }
  return chosen;
}

function readOptions(source: JsonObject): ConfigureRequest['options'] {
  const options: Record<string, number | boolean | string | null> = {};
  for (const name of Object.keys(queueOptionTable) as QueueOptionName[]) {
    const value = name === 'maxSize' ? maxSizeOf(source) : source[name];
    if (value !== undefined) options[name] = optionValue(name, value);
  }
  return options as ConfigureRequest['options'];
}

/** null and empty leave the label as it is. */
function readLabel(name: string, value: unknown): string | null {
  if (value === undefined || value === null || value === '') return null;
  if (typeof value !== 'string') throw new Refused(`${name} must be a string`);
  return value;
}

function readMode(value: unknown): 'merge' | 'replace' {
  if (value === undefined || value === null || value === 'merge') return 'merge';
  if (value === 'replace') return 'replace';
  const got = typeof value === 'string' ? value : shown(value);
  throw new Refused(`mode must be "merge" or "replace", got ${got}`);
}

interface ConfigureBody {
  readonly queue?: unknown;
  readonly namespace?: unknown;
  readonly task?: unknown;
  readonly mode?: unknown;
  readonly options?: unknown;
}

function readRequest(body: unknown): ConfigureRequest {
  if (!isObject(body)) throw new Refused('the body must be a JSON object');
  const { queue, namespace, task, mode, options = null }: ConfigureBody = body;
  if (typeof queue !== 'string' || queue === '') throw new Refused('queue is required and must be a non-empty string');
  const source = options ?? body;
  if (!isObject(source)) throw new Refused('options must be an object');
  return {
    queue,
    namespace: readLabel('namespace', namespace),
    task: readLabel('task', task),
    mode: readMode(mode),
    options: readOptions(source),
  };
}

/** @param body the parsed JSON value; undefined when it was no JSON */
export function readConfigureBody(body: unknown): ReadConfigure {
  try {
    return { ok: true, request: readRequest(body) };
  } catch (error) {
    if (error instanceof Refused) return { ok: false, message: error.message };
    throw error;
  }
}
