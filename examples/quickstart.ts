/** Orders of two customers: pushed, handled in order by the group "billing"; one payment is declined once. */
import { LaneClient } from '@lanemq/client';

interface OrderEvent {
  readonly order: string;
  readonly event: 'created' | 'paid' | 'shipped';
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
const client = new LaneClient(LANEMQ_URL);
const orders = client.queue<OrderEvent>('orders-quickstart');
const say = (text: string) => process.stdout.write(`${text}\n`);

// A partition per customer. A transactionId makes a repeated push harmless.
const run = Date.now();
for (const customer of ['customer-42', 'customer-7']) {
  const order = `${run}-${customer}`;
  await orders.partition(customer).push([
    { payload: { order, event: 'created' }, transactionId: `${order}-created` },
    { payload: { order, event: 'paid' }, transactionId: `${order}-paid` },
    { payload: { order, event: 'shipped' }, transactionId: `${order}-shipped` },
  ]);
}

// The handler returns: the message is settled. It throws: the message comes again, and its lane waits for it.
const stop = new AbortController();
const declined = new Set<string>();
let shipped = 0;
const billing = orders.group('billing').subscriptionMode('all').each();
await billing.consume(
  ({ partition, offset, data }) => {
    if (data.event === 'paid' && partition === 'customer-42' && !declined.has(data.order)) {
      declined.add(data.order);
      say(`${partition} #${offset} ${data.event}: declined, try again`);
      throw new Error('card declined');
    }
    say(`${partition} #${offset} ${data.event}: done`);
    if (data.order.startsWith(`${run}-`) && data.event === 'shipped') shipped += 1;
    if (shipped === 2) stop.abort();
  },
  { signal: stop.signal },
);
