/**
 * `npm run demo`: real webhook deliveries through a real broker, with the accidents that a broker is for.
 *
 * A broker is started on a fresh data folder. Each delivery is pushed to the partition of its repository, while two
 * groups of worker processes consume everything, each at its own pace. One handler throws for one message until that
 * becomes a dead letter; one worker is killed while it holds a lease, and its messages come back. An auditor then
 * checks, from what the handlers did and when, that every group handled every partition in order and missed nothing.
 * Exit code 1 when it finds anything else.
 */
import { LaneClient } from '@lanemq/client';
import { type BrokerChild, startBrokerChild } from '../lib/broker-child.ts';
import { type AuditedEvent, audit, type GroupVerdict } from './audit.ts';
import { type DemoOptions, parseDemoOptions, prepareDataFolder, usage } from './options.ts';
import { laneOf, loadDeliveries, type WebhookDelivery } from './payloads.ts';
import { ProgressLine, print, printNextSteps, printVerdicts } from './report.ts';
import { startWorker, type Worker } from './workers.ts';

const queueName = 'github-webhooks';
const groups = ['search-index', 'chat-notify'] as const;
const poisonedGroup = 'chat-notify';
const bereavedGroup = 'search-index';
const retryLimit = 3;
const workerBatch = 50;
const workerLeaseSeconds = 60;
const victimLeaseSeconds = 3;
/** A run that handles nothing for so long has lost something. */
const stallMsMax = 30_000;

interface Lane {
  readonly partition: string;
  readonly deliveries: readonly WebhookDelivery[];
}

/** Everything that is learnt while the demo runs. */
class Observations {
  readonly events: AuditedEvent[] = [];
  readonly stored = new Map<string, string[]>();
  readonly troubles: string[] = [];
  readonly #settled = new Map<string, Set<string>>(groups.map((group) => [group, new Set<string>()]));
  #poisonFailures = 0;
  lastNewsAtMs = performance.now();

  onEvents(events: readonly AuditedEvent[]): void {
    this.lastNewsAtMs = performance.now();
    for (const event of events) {
      this.events.push(event);
      if (event.kind === 'failed') this.#poisonFailures += 1;
      if (event.kind === 'completed' || (event.kind === 'failed' && this.#poisonFailures > retryLimit)) {
        this.#settled.get(event.group)?.add(`${event.offset}:${event.partition}`);
      }
    }
  }

  onTrouble(worker: string, text: string): void {
    this.troubles.push(`${worker}: ${text}`);
  }

  settledCount(group: string): number {
    return this.#settled.get(group)?.size ?? 0;
  }

  storedCount(): number {
    let count = 0;
    for (const ids of this.stored.values()) count += ids.length;
    return count;
  }
}

async function main(): Promise<number> {
  const options = parseDemoOptions(process.argv.slice(2));
  if (options === null) {
    print(usage);
    return 0;
  }
  prepareDataFolder(options.dataFolder);
  const lanes = lanesOf(loadDeliveries());
  const poison = poisonOf(lanes);
  const broker = await startBrokerChild({ dataFolder: options.dataFolder, port: options.keep ? options.port : 0 });
  print(`broker ready at ${broker.url} after ${Math.round(broker.readyAfterMs)} ms, data in ${options.dataFolder}`);
  const verdict = await play(broker, options, lanes, poison);
  print('');
  printNextSteps({
    dataFolder: options.dataFolder,
    port: options.port,
    running: options.keep,
    queue: queueName,
    partition: poison.partition,
    group: poisonedGroup,
  });
  if (options.keep) await interrupted();
  await broker.stop();
  return verdict ? 0 : 1;
}

/** Runs the whole play; true when the auditor is content. */
async function play(
  broker: BrokerChild,
  options: DemoOptions,
  lanes: readonly Lane[],
  poison: { partition: string; transactionId: string },
): Promise<boolean> {
  const client = new LaneClient(broker.url);
  await client.queue(queueName).configure({ retryLimit, leaseTime: workerLeaseSeconds });
  const seen = new Observations();
  const { workers, victim } = startWorkers(broker.url, options.workers, poison.transactionId, seen);
  await Promise.all([...workers, victim].map((worker) => worker.ready));
  print(`${workers.length + 1} worker processes in the groups ${groups.join(' and ')} wait for messages`);

  const expected = options.rounds * lanes.reduce((sum, lane) => sum + lane.deliveries.length, 0);
  const acts = Promise.all([pushRounds(client, lanes, options.rounds, seen), killVictim(victim, seen)]);
  let hasFailed = false;
  acts.catch(() => {
    hasFailed = true;
  });
  const progress = new ProgressLine();
  const isDone = () => groups.every((group) => seen.settledCount(group) === expected);
  while (!isDone() && !hasFailed && performance.now() - seen.lastNewsAtMs < stallMsMax) {
    const counts = groups.map((group) => `${group} ${seen.settledCount(group)}`).join(', ');
    progress.show(`of ${expected}: pushed ${seen.storedCount()}, ${counts}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  progress.end();
  const [pushMs, killedAtNs] = await acts;
  const words = await Promise.all(workers.map((worker) => worker.stop()));

  const bytes = options.rounds * lanes.reduce((sum, lane) => sum + JSON.stringify(lane.deliveries).length, 0);
  print(
    `${seen.storedCount()} deliveries (${(bytes / 1e6).toFixed(1)} MB) in ${lanes.length} partitions, ` +
      `pushed at ${Math.round((seen.storedCount() / pushMs) * 1000)} messages/s; ` +
      `handlers read ${words.reduce((sum, count) => sum + count, 0)} words`,
  );
  return judge(client, expected, seen, killedAtNs, poison);
}

function startWorkers(url: string, count: number, poisonTransactionId: string, seen: Observations) {
  const start = (group: string, index: number, hangs: boolean): Worker =>
    startWorker(
      {
        url,
        queue: queueName,
        group,
        worker: hangs ? `${group}-victim` : `${group}-${index}`,
        batch: workerBatch,
        leaseSeconds: hangs ? victimLeaseSeconds : workerLeaseSeconds,
        poisonTransactionId: group === poisonedGroup ? poisonTransactionId : null,
        hangs,
      },
      seen,
    );
  const victim = start(bereavedGroup, 0, true);
  const workers = groups.flatMap((group) => {
    const alive = group === bereavedGroup ? count - 1 : count;
    return Array.from({ length: alive }, (_, index) => start(group, index, false));
  });
  return { workers, victim };
}

/** Pushes lane by lane, the lanes of a round side by side; a round waits for the one before. Resolves with the time. */
async function pushRounds(
  client: LaneClient,
  lanes: readonly Lane[],
  rounds: number,
  seen: Observations,
): Promise<number> {
  const startedAtMs = performance.now();
  const queue = client.queue<WebhookDelivery>(queueName);
  for (let round = 0; round < rounds; round++) {
    await Promise.all(
      lanes.map(async ({ partition, deliveries }) => {
        const items = deliveries.map((payload, index) => ({
          payload,
          transactionId: transactionIdOf(partition, round, index),
        }));
        const results = await queue.partition(partition).push(items);
        const stored = seen.stored.get(partition) ?? [];
        for (const { offset, transaction_id } of results) if (offset !== undefined) stored[offset] = transaction_id;
        seen.stored.set(partition, stored);
        seen.lastNewsAtMs = performance.now();
      }),
    );
  }
  return performance.now() - startedAtMs;
}

/** Kills the worker as soon as it hangs in a handler, lease in hand. Resolves with the moment. */
async function killVictim(victim: Worker, seen: Observations): Promise<number> {
  await victim.holding;
  const killedAtNs = await victim.kill();
  const held = seen.events.find((event) => event.kind === 'started' && event.worker === victim.name);
  const where = held?.kind === 'started' ? ` (${held.partition} at ${held.offset})` : '';
  print(`killed ${victim.name} (SIGKILL) in the middle of a message${where}, with a lease of ${victimLeaseSeconds} s`);
  return killedAtNs;
}

async function judge(
  client: LaneClient,
  expected: number,
  seen: Observations,
  killedAtNs: number,
  poison: { partition: string; transactionId: string },
): Promise<boolean> {
  const { messages } = await client.queue(queueName).dlq().get();
  const verdicts = audit({
    stored: seen.stored,
    groups,
    events: seen.events,
    deadLetters: messages.map((letter) => ({ ...letter, group: letter.consumerGroup })),
    failuresUntilDead: retryLimit + 1,
  });
  const comeback = comebackMs(seen.events, killedAtNs);
  print(
    comeback === null
      ? 'what the killed worker held did not come back'
      : `what the killed worker held came back ${(comeback / 1000).toFixed(1)} s later`,
  );
  for (const letter of messages) {
    print(`dead letter of ${letter.consumerGroup}: ${letter.partition} at ${letter.offset}: ${letter.errorMessage}`);
  }
  for (const trouble of seen.troubles) print(`trouble: ${trouble}`);
  print('');
  printVerdicts(verdicts);
  const isPoisonFiled = messages.length === 1 && messages[0].transactionId === poison.transactionId;
  const faults = [
    ...(seen.storedCount() === expected ? [] : [`${seen.storedCount()} of ${expected} messages were stored`]),
    ...(isPoisonFiled ? [] : [`${messages.length} dead letters where the one poisoned message was expected`]),
    ...(comeback === null ? ['the messages of the killed worker did not come back'] : []),
    ...verdicts.flatMap(faultsOf),
  ];
  print('');
  for (const fault of faults) print(`FAILED: ${fault}`);
  if (faults.length === 0) print('Every group handled every partition in order, and nothing was lost.');
  return faults.length === 0;
}

function faultsOf(verdict: GroupVerdict): string[] {
  const faults: string[] = [];
  if (verdict.violations.length > 0) faults.push(`${verdict.group}: ${verdict.violations.length} order violations`);
  if (verdict.lost > 0) faults.push(`${verdict.group}: ${verdict.lost} messages lost`);
  return faults;
}

/** Milliseconds from the kill until another worker started the message that the victim was handling; null = never. */
function comebackMs(events: readonly AuditedEvent[], killedAtNs: number): number | null {
  const held = events.find((event) => event.kind === 'started' && event.worker === `${bereavedGroup}-victim`);
  if (held?.kind !== 'started') return null;
  const again = events.find(
    (event) =>
      event.kind === 'started' &&
      event.group === held.group &&
      event.worker !== held.worker &&
      event.partition === held.partition &&
      event.offset === held.offset,
  );
  return again === undefined ? null : (again.atNs - killedAtNs) / 1e6;
}

function lanesOf(deliveries: readonly WebhookDelivery[]): Lane[] {
  const lanes = new Map<string, WebhookDelivery[]>();
  for (const delivery of deliveries) {
    const partition = laneOf(delivery);
    const lane = lanes.get(partition);
    if (lane === undefined) lanes.set(partition, [delivery]);
    else lane.push(delivery);
  }
  return Array.from(lanes, ([partition, list]) => ({ partition, deliveries: list }));
}

/** A message in the middle of the second longest lane, so that others of its lane wait behind it. */
function poisonOf(lanes: readonly Lane[]): { partition: string; transactionId: string } {
  const byLength = [...lanes].sort((a, b) => b.deliveries.length - a.deliveries.length);
  const { partition, deliveries } = byLength[1];
  return { partition, transactionId: transactionIdOf(partition, 0, deliveries.length >>> 1) };
}

function transactionIdOf(partition: string, round: number, index: number): string {
  return `delivery-${round}-${index}-${partition}`;
}

function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
