/** Reading again: a group that is moved back, and a view that is built from offsets without any group. */
import { LaneClient } from '@lanemq/client';

interface PriceChanged {
  readonly cents: number;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const prices = client.queue<PriceChanged>('prices');

await prices.partition('apple').push([{ cents: 30 }, { cents: 35 }]);
await prices.partition('pear').push([{ cents: 50 }]);

const handled: string[] = [];
const group = prices.group('catalogue').subscriptionMode('all').limit(3).each();
const handle = group.consume.bind(group, ({ partition, data }) => {
  handled.push(`${partition} ${data.cents}`);
});
await handle();
// Everything once more: to the beginning, to an offset, or to a time. Leases of the group are void after it.
await group.seek({ toBeginning: true });
await handle();
process.stdout.write(`${handled.sort().join(', ')}\n`);

// A view needs no group: read what there is, keep the offsets and the time up to which everything was counted.
const view = new Map<string, number>();
const offsets: Record<string, number> = {};
const catchUp = async (since?: string): Promise<string> => {
  const { partitions, safeTime } = await prices.changedSince(since);
  const read = await prices.fetch(
    partitions.map(({ name }) => name),
    { offsets },
  );
  for (const { partition, records, nextOffset } of read.values()) {
    offsets[partition] = nextOffset;
    for (const { payload } of records) view.set(partition, payload.cents);
  }
  return safeTime;
};
const safeTime = await catchUp();
await prices.partition('pear').push([{ cents: 55 }]);
await catchUp(safeTime);
process.stdout.write(
  `${[...view]
    .sort()
    .map(([name, cents]) => `${name}: ${cents}`)
    .join(', ')}\n`,
);
