/** A step from one queue to another that takes effect once, although its messages may be delivered twice. */
import { LaneClient } from '@lanemq/client';

interface Order {
  readonly cents: number;
}

interface Invoice {
  readonly order: string;
  readonly total: number;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const orders = client.queue<Order>('paid-orders');
const invoices = client.queue<Invoice>('invoices');

await orders.partition('customer-42').push({ payload: { cents: 500 }, transactionId: 'order-9137' });

// The id of what the step makes follows from the id of what it was given. If the worker dies between its push and its
// ack, the order comes again, and the second push of the invoice stores nothing.
const step = orders.group('invoicing').subscriptionMode('all').leaseSeconds(1).each();
let crashes = 1;
await step
  .autoAck(false)
  .limit(2)
  .idleMillis(3000)
  .consume(async (order) => {
    const pushed = await invoices.partition(order.partition).push({
      payload: { order: order.transactionId, total: order.data.cents },
      transactionId: `invoice-of-${order.transactionId}`,
    });
    process.stdout.write(`attempt ${order.deliveryAttempt}: ${pushed[0].status}\n`);
    if (crashes-- > 0) return; // As a crash would: pushed, and not acked. The lease ends after a second.
    await client.ack(order);
  });

const read = await invoices.fetch('customer-42');
process.stdout.write(`${read.get('customer-42')?.records.length} invoice\n`);
