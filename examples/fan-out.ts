/** One stream of events, several groups: each gets all of it, at its own pace. */
import { LaneClient } from '@lanemq/client';

interface OrderPlaced {
  readonly order: string;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const placed = client.queue<OrderPlaced>('orders-placed');

await placed.partition('customer-42').push([{ order: '9137' }, { order: '9138' }]);

// Groups know nothing of each other. `subscriptionMode` says where a new one begins: with everything that is kept,
// or ('new') with what comes from now on.
const seen: string[] = [];
await Promise.all(
  ['billing', 'search', 'mail'].map((group) =>
    placed
      .group(group)
      .subscriptionMode('all')
      .limit(2)
      .each()
      .consume(({ data }) => {
        seen.push(`${group} got ${data.order}`);
      }),
  ),
);
process.stdout.write(`${seen.sort().join('\n')}\n`);

// How far each one is:
for (const { name, queueName, totalLag } of await client.admin.listConsumerGroups()) {
  if (queueName === placed.name) process.stdout.write(`${name} has ${totalLag} before it\n`);
}
