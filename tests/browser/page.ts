/**
 * What a program in a web page does with the client; loaded by a browser, not by node. Tells its test by a request to
 * /result how it ended.
 */
import { LaneClient, LaneError } from '@lanemq/client';

interface Click {
  readonly n: number;
}

async function use(client: LaneClient): Promise<string[]> {
  const queue = client.queue<Click>('clicks').group('page').subscriptionMode('all');
  const pushed = await queue.partition('visitor-1').push([
    { payload: { n: 0 }, transactionId: 'click-0' },
    { payload: { n: 1 }, transactionId: 'click-1' },
  ]);
  const again = await queue.partition('visitor-1').push({ payload: { n: 0 }, transactionId: 'click-0' });
  const handled: string[] = [];
  const late = new Promise((resolve) => setTimeout(resolve, 200)).then(() =>
    queue.partition('visitor-1').buffer({ timeMillis: 50 }).push({ n: 2 }),
  );
  await queue
    .concurrency(4)
    .limit(3)
    .each()
    .consume(({ partition, offset, data }) => {
      handled.push(`${partition} #${offset}: ${data.n}`);
    });
  await late;
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 100);
  await queue.consume(() => {}, { signal: stop.signal });
  const refused = await client.admin.getQueue('nobody-wrote-it').catch((error: unknown) => error);
  const read = await queue.fetch('visitor-1');
  await client.close();
  return [
    `pushed ${pushed.map(({ status }) => status).join(', ')}, then ${again[0].status}`,
    ...handled,
    `refused ${refused instanceof LaneError ? refused.code : String(refused)}`,
    `read ${read.get('visitor-1')?.records.length}`,
  ];
}

const result = await use(new LaneClient(location.origin)).catch((error: unknown) => [String(error)]);
await fetch('/result', { method: 'POST', body: JSON.stringify(result) });
