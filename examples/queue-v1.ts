/** Bookings by the number that the ledger gave them, whenever they arrive; two workers share the partitions. */
import { LaneClient } from '@lanemq/client';

interface Booking {
  readonly account: string;
  readonly cents: number;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const bookings = client.v1('bank').queue<Booking>('bookings');
await bookings.ensure({ partitions: 6 });

// The ledger counts in 64 bits; 9,007,199,254,740,993 is no double. The numbers arrive out of order.
const ledger = [
  { seq: 9_007_199_254_740_995n, account: 'alice', cents: -300 },
  { seq: 9_007_199_254_740_994n, account: 'bob', cents: 200 },
  { seq: 9_007_199_254_740_993n, account: 'alice', cents: 500 },
  { seq: 9_007_199_254_740_996n, account: 'bob', cents: -50 },
];
// Calls that are made at once travel in one request. With a dedupId each may be repeated after a lost answer.
await Promise.all(
  ledger.map(({ seq, ...value }) => bookings.enqueue({ key: value.account, seq, value, dedupId: `booking-${seq}` })),
);

// Two workers in one program; each would be a process of its own, told which one it is. Here they end with the last booking.
const stop = new AbortController();
const lines: string[] = [];
const work = (worker: number) =>
  bookings.consume(
    ({ seq, value: { account, cents } }) => {
      lines.push(`${account} #${seq}: ${cents}`);
      if (lines.length === ledger.length) stop.abort();
    },
    { share: { worker, of: 2 }, signal: stop.signal },
  );
await Promise.all([work(1), work(2)]);

// The accounts may be handled side by side; the bookings of one are in the order of the ledger.
for (const account of ['alice', 'bob']) {
  process.stdout.write(`${lines.filter((line) => line.startsWith(account)).join('\n')}\n`);
}
