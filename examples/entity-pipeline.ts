/** Events of accounts: in order within an account, side by side between accounts. */
import { LaneClient } from '@lanemq/client';

interface AccountEvent {
  readonly kind: 'opened' | 'deposited' | 'withdrawn';
  readonly cents: number;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const events = client.queue<AccountEvent>('account-events');

// The account is the partition. One push is one step: all of it is stored, in this order, or nothing.
for (const account of ['alice', 'bob', 'carol']) {
  await events.partition(account).push([
    { payload: { kind: 'opened', cents: 0 }, transactionId: `${account}-1` },
    { payload: { kind: 'deposited', cents: 500 }, transactionId: `${account}-2` },
    { payload: { kind: 'withdrawn', cents: 200 }, transactionId: `${account}-3` },
  ]);
}

// However many handlers run, an account is with one of them: no lock is needed around its balance.
const balances = new Map<string, number>();
await events
  .group('balances')
  .subscriptionMode('all')
  .concurrency(20)
  .limit(9)
  .idleMillis(3000)
  .each()
  .consume(({ partition, data }) => {
    const before = balances.get(partition) ?? 0;
    balances.set(partition, data.kind === 'withdrawn' ? before - data.cents : before + data.cents);
  });
for (const [account, cents] of [...balances].sort()) process.stdout.write(`${account}: ${cents}\n`);
