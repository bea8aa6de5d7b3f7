/**
 * Which sidecars may hold a key: the filter that stays in memory when a segment's index has moved to its file.
 *
 * One filter per segment would have to be asked once per segment, and a busy broker keeps a thousand segments within a
 * dedup window of an hour: 100 µs per pushed record. So the keys of many segments lie together in one run, each with the
 * segment it came from, and a question costs two cache misses per run, however many segments the run covers.
 *
 * A run is the sorted list of the 32-bit keys of up to 256 members, cut into 65,536 buckets by their upper halves:
 *
 *   starts  u32 × 65,537   where a bucket begins
 *   tags    u16 per key    lower halves, ascending within a bucket
 *   owners  u8 per key     index of the member
 *
 * That is 3 bytes per key and 256 KiB per run. Members come in one at a time; like the digits of a binary counter, the
 * two newest runs are merged while the newer one is at least half as long as the older, up to `runKeysMax`. A key is
 * copied about log2(runKeysMax / keys per segment) times, 3 ns each, and there are few runs at any time.
 *
 * Never a false "no". A false "yes" for a key that is in no member has probability keys / 2^32: 0.02 % per million.
 */

import { assertStorage } from './index-assert.ts';

const bucketBits = 16;
const bucketCount = 1 << bucketBits;
const tagMask = 0xffff;
const membersPerRunMax = 256;
/** Keys of one run. 48 MiB. */
const runKeysMax = 16 * 1024 * 1024;
/** Keys that are copied between two pauses: about 0.3 ms. */
const keysPerSlice = 64 * 1024;

/** What the directory knows of a member. */
export interface DirectoryMember {
  /** Stamp of the newest record in it. */
  readonly maxStampUs: number;
}

class Run<Member extends DirectoryMember> {
  /** Undefined where a member was removed. */
  members: (Member | undefined)[];
  maxStampUs: number;
  readonly starts: Uint32Array;
  readonly tags: Uint16Array;
  readonly owners: Uint8Array;

  constructor(members: (Member | undefined)[], keyCount: number) {
    this.members = members;
    this.maxStampUs = newestOf(members);
    this.starts = new Uint32Array(bucketCount + 1);
    this.tags = new Uint16Array(keyCount);
    this.owners = new Uint8Array(keyCount);
  }

  get bytes(): number {
    return this.starts.byteLength + this.tags.byteLength + this.owners.byteLength;
  }

  /** Index of the first key that is not below `key`; compare its tag and the bucket's end before using it. */
  position(key: number): number {
    const bucket = key >>> bucketBits;
    const tag = key & tagMask;
    const tags = this.tags;
    let low = this.starts[bucket];
    let high = this.starts[bucket + 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (tags[middle] < tag) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export class FilterDirectory<Member extends DirectoryMember> {
  private runs: Run<Member>[] = [];
  private readonly pause: () => Promise<void>;

  /** @param pause resolves when other work has had its turn; called between slices of long work. */
  constructor(pause: () => Promise<void>) {
    this.pause = pause;
  }

  /** Bytes of all runs. */
  get bytes(): number {
    let bytes = 0;
    for (const run of this.runs) bytes += run.bytes;
    return bytes;
  }

  get runCount(): number {
    return this.runs.length;
  }

  /**
   * Makes a member known by its keys, ascending and each once. It is known as soon as the promise resolves, not halfway.
   * Additions, merges and removals must follow each other; questions may be asked at any time.
   */
  async add(member: Member, keys: Uint32Array): Promise<void> {
    if (keys.length === 0) return;
    const run = new Run<Member>([member], keys.length);
    let bucket = 0;
    for (let from = 0; from < keys.length; from += keysPerSlice) {
      if (from > 0) await this.pause();
      const to = Math.min(keys.length, from + keysPerSlice);
      for (let i = from; i < to; i++) {
        const key = keys[i];
        while (bucket < key >>> bucketBits) run.starts[++bucket] = i;
        run.tags[i] = key & tagMask;
      }
    }
    while (bucket < bucketCount) run.starts[++bucket] = keys.length;
    this.runs.push(run);
  }

  /** Joins runs until few are left. Questions asked meanwhile see the runs as they were. */
  async merge(): Promise<void> {
    while (this.runs.length >= 2) {
      const older = this.runs[this.runs.length - 2];
      const newer = this.runs[this.runs.length - 1];
      if (newer.tags.length * 2 < older.tags.length) return;
      if (newer.tags.length + older.tags.length > runKeysMax) return;
      if (newer.members.length + older.members.length > membersPerRunMax) return;
      const merged = await this.mergeTwo(older, newer);
      this.runs.splice(-2, 2, merged);
    }
  }

  /**
   * Takes a member out. The memory of its keys comes back when half of its run belongs to nobody, or with the last
   * member of the run.
   */
  async remove(member: Member): Promise<void> {
    for (let r = 0; r < this.runs.length; r++) {
      const run = this.runs[r];
      const index = run.members.indexOf(member);
      if (index < 0) continue;
      run.members[index] = undefined;
      run.maxStampUs = newestOf(run.members);
      let living = 0;
      for (const other of run.members) if (other !== undefined) living++;
      if (living === 0) this.runs.splice(r, 1);
      else if (living * 2 <= run.members.length) this.runs[r] = await this.withoutTheGone(run);
      return;
    }
  }

  /** True when a member with records as new as `sinceUs` may hold the key. */
  mayHold(key: number, sinceUs: number): boolean {
    const tag = key & tagMask;
    for (let r = this.runs.length - 1; r >= 0; r--) {
      const run = this.runs[r];
      if (run.maxStampUs < sinceUs) continue;
      const end = run.starts[(key >>> bucketBits) + 1];
      for (let i = run.position(key); i < end && run.tags[i] === tag; i++) {
        const member = run.members[run.owners[i]];
        if (member !== undefined && member.maxStampUs >= sinceUs) return true;
      }
    }
    return false;
  }

  /** All members with records as new as `sinceUs` that may hold the key, in no particular order. */
  candidates(key: number, sinceUs: number): Member[] {
    const tag = key & tagMask;
    const found: Member[] = [];
    for (const run of this.runs) {
      if (run.maxStampUs < sinceUs) continue;
      const end = run.starts[(key >>> bucketBits) + 1];
      for (let i = run.position(key); i < end && run.tags[i] === tag; i++) {
        const member = run.members[run.owners[i]];
        if (member !== undefined && member.maxStampUs >= sinceUs) found.push(member);
      }
    }
    return found;
  }

  private async mergeTwo(a: Run<Member>, b: Run<Member>): Promise<Run<Member>> {
    const shift = a.members.length;
    const merged = new Run<Member>([...a.members, ...b.members], a.tags.length + b.tags.length);
    let at = 0;
    let sliceEnd = keysPerSlice;
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      if (at >= sliceEnd) {
        await this.pause();
        sliceEnd = at + keysPerSlice;
      }
      at = mergeBucket(a, b, bucket, shift, merged, at);
      merged.starts[bucket + 1] = at;
    }
    assertStorage(at === merged.tags.length, 'a merge keeps every key');
    return merged;
  }

  private async withoutTheGone(run: Run<Member>): Promise<Run<Member>> {
    const living: Member[] = [];
    const numbers = run.members.map((member) => (member === undefined ? -1 : living.push(member) - 1));
    let keyCount = 0;
    for (let from = 0; from < run.owners.length; from += keysPerSlice) {
      if (from > 0) await this.pause();
      const to = Math.min(run.owners.length, from + keysPerSlice);
      for (let i = from; i < to; i++) if (numbers[run.owners[i]] >= 0) keyCount++;
    }
    const kept = new Run<Member>(living, keyCount);
    let at = 0;
    let sliceEnd = keysPerSlice;
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      const end = run.starts[bucket + 1];
      if (end >= sliceEnd) {
        await this.pause();
        sliceEnd = end + keysPerSlice;
      }
      for (let i = run.starts[bucket]; i < end; i++) {
        const owner = numbers[run.owners[i]];
        if (owner < 0) continue;
        kept.tags[at] = run.tags[i];
        kept.owners[at] = owner;
        at++;
      }
      kept.starts[bucket + 1] = at;
    }
    return kept;
  }
}

/** Merges one bucket of two runs into `into` from position `at`; returns the position behind it. */
function mergeBucket<Member extends DirectoryMember>(
  a: Run<Member>,
  b: Run<Member>,
  bucket: number,
  shift: number,
  into: Run<Member>,
  at: number,
): number {
  let i = a.starts[bucket];
  let j = b.starts[bucket];
  const iEnd = a.starts[bucket + 1];
  const jEnd = b.starts[bucket + 1];
  let p = at;
  while (i < iEnd || j < jEnd) {
    if (j >= jEnd || (i < iEnd && a.tags[i] <= b.tags[j])) {
      into.tags[p] = a.tags[i];
      into.owners[p] = a.owners[i];
      i++;
    } else {
      into.tags[p] = b.tags[j];
      into.owners[p] = b.owners[j] + shift;
      j++;
    }
    p++;
  }
  return p;
}

function newestOf(members: readonly (DirectoryMember | undefined)[]): number {
  let newest = Number.NEGATIVE_INFINITY;
  for (const member of members) if (member !== undefined) newest = Math.max(newest, member.maxStampUs);
  return newest;
}
