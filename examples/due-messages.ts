/** Messages for later: delivered at a time of their own, moved, and cancelled. */
import { LaneClient } from '@lanemq/client';

interface Reminder {
  readonly text: string;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const reminders = client.queue<Reminder>('reminders');

// A message that waits holds up what is behind it in its lane: order comes first. So a lane per reminder.
const tomorrow = Date.now() + 24 * 3_600_000;
const [trip, party] = [`trip-${tomorrow}`, `party-${tomorrow}`];
await reminders.partition('tea').push({ payload: { text: 'the tea is ready' }, delayMs: 500 });
await reminders.partition('trip').push({ payload: { text: 'pack' }, transactionId: trip, dueAt: tomorrow });
await reminders.partition('party').push({ payload: { text: 'bake a cake' }, transactionId: party, dueAt: tomorrow });

const { messages } = await reminders.due();
process.stdout.write(`waiting: ${messages.map(({ partition }) => partition).join(', ')}\n`);

// With the partition named, the transactionId names the message; its message id does without.
await reminders.partition('trip').moveDue(trip, { delayMs: 800 });
await reminders.partition('party').cancelDue(party);

await reminders
  .group('phone')
  .subscriptionMode('all')
  .limit(2)
  .each()
  .consume(({ data }) => {
    process.stdout.write(`${data.text}\n`);
  });
