/**
 * Takes a pop answer apart by searching for its keys, in the order in which the contract lists them, and makes the
 * ack of everything in it. Parsing the JSON properly would cost more than the broker's own work.
 */
import { partitionDigits } from './push-request.ts';
import { type RawAnswer, requestHead } from './raw-connection.ts';

const idKey = '"transactionId":"';
const timeKey = '"t":"';
const numberKey = '"n":"';
const pidKey = '"partitionId":"';
const partitionKey = '"partition":"p';
const leaseKey = '"leaseId":"';
const offsetKey = '"offset":';

/** The messages of one answer, as columns. Reused: `read` overwrites what was there. */
export class PopAnswer {
  count = 0;
  partitions = new Int32Array(1024);
  offsets = new Float64Array(1024);
  /** Microseconds at which the message was pushed, from its payload. */
  timesUs = new Float64Array(1024);
  /** The number in the payload. */
  numbers = new Float64Array(1024);
  /** The request that completes all of them. */
  ackRequest: Uint8Array = new Uint8Array(0);

  readonly #group: string;
  #ackBuffer = Buffer.alloc(256 * 1024);

  constructor(group: string) {
    this.#group = group;
  }

  /** Reads an answer with status 200, or 204 as no messages. */
  read(answer: RawAnswer): void {
    this.count = 0;
    if (answer.status === 204) return;
    if (answer.status !== 200) throw new Error(`a pop answered ${answer.status}`);
    const text = answer.bytes.toString('latin1', answer.bodyStart, answer.bodyEnd);
    const lease = valueBehind(text, leaseKey, 0);
    let acks = '{"acknowledgments":[';
    let at = text.indexOf('"messages":');
    for (;;) {
      const idAt = text.indexOf(idKey, at);
      if (idAt < 0) break;
      this.#makeRoom();
      const i = this.count++;
      const id = quotedAt(text, idAt + idKey.length);
      const timeAt = text.indexOf(timeKey, idAt) + timeKey.length;
      this.timesUs[i] = Number(text.slice(timeAt, timeAt + 16));
      const numberAt = text.indexOf(numberKey, timeAt) + numberKey.length;
      this.numbers[i] = Number(text.slice(numberAt, numberAt + 10));
      const pidAt = text.indexOf(pidKey, numberAt) + pidKey.length;
      const pid = quotedAt(text, pidAt);
      const partitionAt = text.indexOf(partitionKey, pidAt) + partitionKey.length;
      this.partitions[i] = Number(text.slice(partitionAt, partitionAt + partitionDigits));
      at = text.indexOf(offsetKey, partitionAt) + offsetKey.length;
      this.offsets[i] = Number.parseInt(text.slice(at, at + 16), 10);
      acks += `${i === 0 ? '' : ','}{"transactionId":"${id}","partitionId":"${pid}","leaseId":"${lease}","status":"completed"}`;
    }
    if (this.count > 0) this.#makeAck(`${acks}],"consumerGroup":"${this.#group}"}`);
  }

  /** A copy of the ack request, for sending it later. */
  copyAck(): Uint8Array {
    return Buffer.from(this.ackRequest);
  }

  #makeAck(body: string): void {
    const request = requestHead('POST', '/api/v1/ack/batch', body.length) + body;
    if (request.length > this.#ackBuffer.length) this.#ackBuffer = Buffer.alloc(request.length * 2);
    const length = this.#ackBuffer.write(request, 0, 'latin1');
    this.ackRequest = this.#ackBuffer.subarray(0, length);
  }

  #makeRoom(): void {
    if (this.count < this.partitions.length) return;
    const size = this.partitions.length * 2;
    this.partitions = grown(this.partitions, new Int32Array(size));
    this.offsets = grown(this.offsets, new Float64Array(size));
    this.timesUs = grown(this.timesUs, new Float64Array(size));
    this.numbers = grown(this.numbers, new Float64Array(size));
  }
}

/** How many items of an ack answer were confirmed. */
export function confirmedCount(answer: RawAnswer): number {
  if (answer.status !== 200) throw new Error(`an ack answered ${answer.status}`);
  return countOf(answer, '"success":true');
}

/** How many items of a push answer were stored anew. */
export function queuedCount(answer: RawAnswer): number {
  if (answer.status !== 201) throw new Error(`a push answered ${answer.status}`);
  return countOf(answer, '"status":"queued"');
}

function countOf(answer: RawAnswer, word: string): number {
  const text = answer.bytes.toString('latin1', answer.bodyStart, answer.bodyEnd);
  let count = 0;
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) count += 1;
  return count;
}

function valueBehind(text: string, key: string, from: number): string {
  return quotedAt(text, text.indexOf(key, from) + key.length);
}

function quotedAt(text: string, start: number): string {
  return text.slice(start, text.indexOf('"', start));
}

function grown<Column extends Int32Array | Float64Array>(from: Column, to: Column): Column {
  to.set(from);
  return to;
}
