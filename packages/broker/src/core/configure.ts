/** Creating, configuring and deleting queues. */
import { type QueueOptionName, type QueueOptions, queueOptionTable, readQueueOption } from '@lanemq/protocol';
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

export function decideConfigure(context: DecisionContext, command: ConfigureCommand): Queue | Refusal {
  if (command.queue === '') return { ok: false, code: 'bad_request', message: 'queue is required' };
  const tooLong = nameRefusal(command.queueBytes, 0, 'partition');
  if (tooLong !== null) return tooLong;
  const { state, journal, nowUs } = context;
  const existing = state.queues.get(command.queue);
  const defaults = defaultOptions(false);
  const isMerged = existing !== undefined && command.mode === 'merge';
  const options: Record<string, number | boolean | string> = {
    ...defaults,
    ...(isMerged ? existing.options : null),
  };
  for (const name of Object.keys(queueOptionTable) as QueueOptionName[]) {
    const value = command.options[name];
    if (value === undefined) continue;
    const read = value === null ? { ok: true as const, value: defaults[name] } : readQueueOption(name, value);
    if (!read.ok) return { ok: false, code: 'bad_request', message: read.message };
    options[name] = read.value;
  }
  journal.queue({
    number: existing?.number ?? state.nextQueueNumber,
    name: command.queue,
    namespace: command.namespace || (existing?.namespace ?? ''),
    task: command.task || (existing?.task ?? ''),
    options: options as unknown as QueueOptions,
    createdAtUs: existing?.createdAtUs ?? nowUs,
  });
  return state.queues.get(command.queue) as Queue;
}

/** True when the queue existed. */
export function decideDeleteQueue(context: DecisionContext, name: string): boolean {
  const queue = context.state.queues.get(name);
  if (queue === undefined) return false;
  context.journal.queueDeleted({ number: queue.number });
  return true;
}
