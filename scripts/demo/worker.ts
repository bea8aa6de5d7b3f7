/**
 * A worker process of the demo: consumes one group with the SDK, and tells its parent what its handlers did and when.
 * Started by workers.ts with a WorkerTask as its argument.
 */
import { LaneClient, type Message, type WireMessage } from '@lanemq/client';
import { type HandlingEvent, nowNs, type ParentMessage, type WorkerMessage, type WorkerTask } from './events.ts';
import { laneOf, type WebhookDelivery } from './payloads.ts';

const task: WorkerTask = JSON.parse(process.argv[2] ?? 'null');
const reportEveryMs = 50;
const reportedEventsMax = 500;

const stop = new AbortController();
let events: HandlingEvent[] = [];
let handledWords = 0;

function tell(message: WorkerMessage): void {
  process.send?.(message);
}

function report(): void {
  if (events.length === 0) return;
  tell({ type: 'events', events });
  events = [];
}

function note(kind: HandlingEvent['kind'], message: Message): void {
  const { partition, offset, transactionId } = message;
  events.push({ kind, atNs: nowNs(), partition, offset, transactionId });
  if (events.length >= reportedEventsMax) report();
}

async function handle(message: Message<WebhookDelivery>): Promise<void> {
  note('started', message);
  if (task.hangs) {
    report();
    tell({ type: 'holding' });
    await new Promise<never>(() => {});
  }
  if (message.transactionId === task.poisonTransactionId) {
    note('failed', message);
    throw new Error(`${task.group} cannot digest a "${message.data.event}" of ${laneOf(message.data)}`);
  }
  handledWords += JSON.stringify(message.data.body).match(/\w+/g)?.length ?? 0;
  note('completed', message);
}

/** A thrown handler is part of the play; a refused ack or a broker out of reach is not. */
function onTrouble(error: unknown, messages: readonly WireMessage[]): void {
  if (messages.length === 1 && messages[0].transactionId === task.poisonTransactionId) return;
  tell({ type: 'trouble', text: String(error) });
}

process.on('message', (message: ParentMessage) => {
  if (message.type === 'stop') stop.abort();
});
// A worker without its parent would run for ever.
process.on('disconnect', () => process.exit(0));

const reporting = setInterval(report, reportEveryMs);
tell({ type: 'ready' });
await new LaneClient(task.url)
  .queue<WebhookDelivery>(task.queue)
  .group(task.group)
  .subscriptionMode('all')
  .batch(task.batch)
  .partitions(4)
  .leaseSeconds(task.leaseSeconds)
  .each()
  .consume(handle, { signal: stop.signal, onTrouble });
clearInterval(reporting);
report();
const finished: WorkerMessage = { type: 'finished', words: handledWords };
process.send?.(finished, () => process.disconnect?.());
