/** Jobs without an order among them: each lane of its own, ten at a time, each job done by one worker. */
import { LaneClient } from '@lanemq/client';

interface ThumbnailJob {
  readonly image: string;
  readonly width: number;
}

const { LANEMQ_URL = 'http://127.0.0.1:6632' } = process.env;
await using client = new LaneClient(LANEMQ_URL);
const jobs = client.queue<ThumbnailJob>('thumbnails');

// A worker that dies loses its lease after 30 s, and the job comes to another one.
await jobs.config({ leaseTime: 30, retryLimit: 3 }).create();

// A partition per job: a job that fails holds up nobody.
const images = ['beach.jpg', 'forest.jpg', 'city.jpg'];
for (const image of images) {
  await jobs.partition(image).push({ payload: { image, width: 320 }, transactionId: `${image}-320` });
}

// In a worker this runs until the process is told to end; here it ends after a second without work.
const done: string[] = [];
await jobs
  .concurrency(10)
  .batch(1)
  .renewLease()
  .idleMillis(1000)
  .each()
  .consume(async ({ data }) => {
    done.push(`${data.image} at ${data.width}`);
  });
process.stdout.write(`${done.sort().join('\n')}\n`);
