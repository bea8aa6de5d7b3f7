/** Creating, configuring and deleting queues. */
import { type QueueOptionName, type QueueOptions, queueOptionTable } from '@lanemq/protocol';
import { type DecisionContext, nameRefusal } from './decision.ts';
import type { Refusal } from './outcomes.ts';
import { defaultOptions, type Queue } from './queue.ts';

export interface ConfigureCommand {
  readonly queue: string;
  readonly queueBytes: number;
  /** null or '' = leave as it is. */
  readonly namespace: string | null;
  readonly task: string | null;
  readonly mode: 'merge' | 'replace';
  /** null = back to its default; a missing key keeps (merge) or resets (replace). */
  readonly options: { readonly [K in keyof QueueOptions]?: QueueOptions[K] | null };
}

const sinkNamePattern = /^[A-Za-z0-9._-]{0,64}$/;

export function decideConfigure(context: DecisionContext, command: ConfigureCommand): Queue | Refusal {
  if (command.queue === '') return { ok: false, code: 'bad_request', message: 'queue is required' };
  const tooLong = nameRefusal(command.queueBytes, 0, 'partition');
  if (tooLong !== null) return tooLong;
  const { state, journal, nowUs } = context;
  const existing = state.queues.get(command.queue);
  const defaults = defaultOptions(false);
  const options = existing !== undefined && command.mode === 'merge' ? { ...existing.options } : { ...defaults };
  for (const name of Object.keys(queueOptionTable) as QueueOptionName[]) {
    const value = command.options[name];
    if (value === undefined) continue;
    const refusal = setOption(options, defaults, name, value);
    if (refusal !== null) return refusal;
  }
  journal.queue({
    number: existing?.number ?? state.nextQueueNumber,
    name: command.queue,
    namespace: command.namespace || (existing?.namespace ?? ''),
    task: command.task || (existing?.task ?? ''),
    options,
    createdAtUs: existing?.createdAtUs ?? nowUs,
  });
  return state.queues.get(command.queue) as Queue;
}

/** Checks one option against the table and sets it; returns why it is refused. */
function setOption(
  options: QueueOptions,
  defaults: QueueOptions,
  name: QueueOptionName,
  value: number | boolean | string | null,
): Refusal | null {
  const refuse = (what: string): Refusal => ({ ok: false, code: 'bad_request', message: `${name} ${what}` });
  const facts = queueOptionTable[name];
  const target = options as unknown as Record<string, number | boolean | string>;
  if (value === null) {
    target[name] = defaults[name];
    return null;
  }
  switch (facts.type) {
    case 'boolean':
      if (typeof value !== 'boolean') return refuse('must be a boolean');
      break;
    case 'text':
      if (typeof value !== 'string') return refuse('must be a string');
      if (!sinkNamePattern.test(value)) return refuse('must be at most 64 of A-Z a-z 0-9 . _ -');
      break;
    case 'integer': {
      if (typeof value !== 'number' || !Number.isSafeInteger(value)) return refuse('must be an integer');
      if (name === 'minPopWaitTime') {
        target[name] = Math.min(Math.max(facts.min, value), facts.max);
        return null;
      }
      if (value < facts.min || value > facts.max) return refuse(`must be between ${facts.min} and ${facts.max}`);
      if (name === 'retentionSinkHoldMaxSeconds' && value !== 0 && value < 60)
        return refuse('must be 0, or 60 or more');
      break;
    }
  }
  target[name] = value;
  return null;
}

/** True when the queue existed. */
export function decideDeleteQueue(context: DecisionContext, name: string): boolean {
  const queue = context.state.queues.get(name);
  if (queue === undefined) return false;
  context.journal.queueDeleted({ number: queue.number });
  return true;
}
