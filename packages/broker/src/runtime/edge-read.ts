/**
 * A decision that shows rows, and the values of the rows. Values that this process wrote and still has are taken at once;
 * otherwise all are read after the release, because a read must not hold up those who do not need it.
 */
import type { Refusal } from '../core/mod.ts';
import type { EdgeHost } from './edge-host.ts';
import type { Reply } from './engine.ts';
import { failedRead } from './failed-read.ts';
import { isRefusal, type Operation } from './operations.ts';
import { FetchedFacts, type PlacedValue, valueRuns } from './store-access.ts';

/** Row `i` has values[ends[i − 1], ends[i]). */
export interface RowValues {
  readonly values: Uint8Array;
  readonly ends: Uint32Array;
}

/** A row's value in the log. */
export interface ValuePlace {
  readonly address: number;
  readonly length: number;
  readonly checksum: number;
}

/** A reply that may have no memory for the values of an outcome. */
export interface ReadReply<Outcome> extends Reply<Outcome> {
  /** Called before so many bytes are read, each time in place of the time before. Not null: it is refused for that. */
  reserve?(bytes: number): Refusal | null;
}

export class EdgeReadOperation<Outcome extends object> implements Operation {
  readonly facts = new FetchedFacts();
  protected readonly host: EdgeHost;
  protected readonly reply: ReadReply<Outcome & RowValues>;
  readonly #decide: () => Outcome | Refusal;
  readonly #placesOf: (outcome: Outcome) => readonly ValuePlace[];
  #refusal: Refusal | null = null;
  /** What was decided, while its values must be read. */
  #cold: { readonly outcome: Outcome; readonly places: readonly PlacedValue[]; readonly room: RowValues } | null = null;
  #wasRepeated = false;

  /** @param placesOf where the values are of the rows that an outcome shows. */
  constructor(
    host: EdgeHost,
    decide: () => Outcome | Refusal,
    placesOf: (outcome: Outcome) => readonly ValuePlace[],
    reply: ReadReply<Outcome & RowValues>,
  ) {
    this.host = host;
    this.#decide = decide;
    this.#placesOf = placesOf;
    this.reply = reply;
  }

  /** True when what was decided is not answered now: the operation was put aside. */
  protected putsAside(_outcome: Outcome): boolean {
    return false;
  }

  decide(): 'done' | 'parked' {
    const outcome = this.#decide();
    this.#refusal = null;
    this.#cold = null;
    if (isRefusal(outcome)) {
      this.#refusal = outcome;
      return 'done';
    }
    if (this.putsAside(outcome)) return 'parked';
    const places = placed(this.#placesOf(outcome));
    this.#refusal = this.reply.reserve?.(bytesOf(places)) ?? null;
    if (this.#refusal !== null) return 'done';
    const room = roomFor(places);
    if (this.#copyRecent(places, room.values)) this.reply.encode({ ...outcome, ...room });
    else this.#cold = { outcome, places, room };
    return 'done';
  }

  #copyRecent(places: readonly PlacedValue[], target: Uint8Array): boolean {
    const { log } = this.host.store();
    for (const { address, length, at } of valueRuns(places)) {
      const found = log.recent(address, length);
      if (found === undefined) return false;
      target.set(new Uint8Array(found.bytes.buffer, found.bytes.byteOffset + found.at, length), at);
    }
    return true;
  }

  release(failure: Refusal | null): void {
    if (failure !== null || this.#refusal !== null || this.#cold === null) {
      this.reply.send(failure ?? this.#refusal);
      return;
    }
    const { outcome, places, room } = this.#cold;
    this.host.readingBegan(this);
    this.host
      .access()
      .readValues(places, room.values)
      .then(
        () => {
          if (!this.host.readingEnded(this)) return;
          this.reply.encode({ ...outcome, ...room });
          this.reply.send(null);
        },
        (error: unknown) => {
          if (this.host.readingEnded(this)) this.#readFailed(error);
        },
      );
  }

  #readFailed(error: unknown): void {
    if (!this.#wasRepeated) {
      // The values may have been moved, or deleted, since the decision.
      this.#wasRepeated = true;
      this.host.submit(this);
      return;
    }
    this.reply.send(failedRead(this.host, 'values could not be read', error));
  }
}

function placed(places: readonly ValuePlace[]): PlacedValue[] {
  let at = 0;
  return places.map(({ address, length, checksum }) => {
    const value = { address, length, checksum, at };
    at += length;
    return value;
  });
}

function bytesOf(places: readonly PlacedValue[]): number {
  const last = places[places.length - 1];
  return last === undefined ? 0 : last.at + last.length;
}

function roomFor(places: readonly PlacedValue[]): RowValues {
  const ends = Uint32Array.from(places, ({ at, length }) => at + length);
  return { values: new Uint8Array(bytesOf(places)), ends };
}
