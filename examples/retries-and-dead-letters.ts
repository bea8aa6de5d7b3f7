/** A message that fails: retried, filed as a dead letter, looked at, and sent through again. */
import { LaneClient } from '@lanemq/client';

interface Payment {
  readonly cents: number;
  readonly currency: string;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const payments = client.queue<Payment>('payments');

// Two retries, 100 ms apart; then the message becomes a dead letter and its lane goes on.
await payments.config({ retryLimit: 2, retryDelay: 100 }).create();
await payments.partition('customer-42').push([
  { payload: { cents: 500, currency: 'EUR' }, transactionId: 'payment-1' },
  { payload: { cents: 700, currency: 'DKK' }, transactionId: 'payment-2' },
  { payload: { cents: 900, currency: 'EUR' }, transactionId: 'payment-3' },
]);

// A handler that throws fails its message. The text of the error is kept.
const known = new Set(['EUR']);
const settle = async (messages: number): Promise<void> => {
  await payments
    .group('settlement')
    .subscriptionMode('all')
    .idleMillis(1000)
    .limit(messages)
    .each()
    .consume(({ data, deliveryAttempt }) => {
      process.stdout.write(`${data.cents} ${data.currency}, attempt ${deliveryAttempt}\n`);
      if (!known.has(data.currency)) throw new Error(`unknown currency ${data.currency}`);
    });
};
await settle(5);

// What was given up, and why.
const dlq = payments.dlq('settlement');
const { messages } = await dlq.get();
for (const { transactionId, errorMessage } of messages)
  process.stdout.write(`dead: ${transactionId}, ${errorMessage}\n`);

// The handler was mended: the broker pushes the dead letters again, each in one step with its removal.
known.add('DKK');
await dlq.redrive({ error: 'unknown currency' });
await settle(1);
process.stdout.write(`${(await dlq.get()).total} dead letters\n`);
