/** Reads a sidecar from end to end without taking it into use: to check it, or to copy it. */
import type { Disk, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { page, pageHolds, readSidecarHeader, SidecarDamage, sidecarPath, sidecarPlan } from './sidecar-format.ts';

/** Pages read in one piece. */
const pagesPerRead = 256;

/** Reads every page of the sidecar in a file; undefined when all of them hold. */
export async function checkSidecar(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
  path: string = sidecarPath(base),
): Promise<SidecarDamage | undefined> {
  try {
    await readSidecarPages(disk, checksum, base, path, async () => undefined);
    return undefined;
  } catch (error) {
    if (error instanceof SidecarDamage) return error;
    throw error;
  }
}

/** Hands out all pages of the sidecar of the segment at `base`, many at a time. Rejects with SidecarDamage when one does not hold. */
export async function readSidecarPages(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
  path: string,
  take: (bytes: Uint8Array, at: number) => Promise<void>,
): Promise<void> {
  const file = await disk.open(path, 'read');
  const damage = (reason: string): SidecarDamage => new SidecarDamage(base, reason, { path });
  try {
    const size = await file.size();
    const bytes = new Uint8Array(pagesPerRead * page.bytes);
    const view = new DataView(bytes.buffer);
    for (let number = 0; number * page.bytes < size; number += pagesPerRead) {
      const count = await file.read(bytes, number * page.bytes);
      if (count % page.bytes !== 0) throw damage(`its ${size} bytes are no whole number of pages`);
      for (let i = 0; i < count / page.bytes; i++) {
        if (!pageHolds(bytes, view, i * page.bytes, number + i, checksum)) {
          throw damage(`page ${number + i} is not what was written`);
        }
      }
      if (number === 0) {
        const { pages } = sidecarPlan(readSidecarHeader(view, base).counts);
        if (pages * page.bytes !== size) {
          throw damage(`it has ${size} bytes, its header announces ${pages * page.bytes}`);
        }
      }
      await take(bytes.subarray(0, count), number * page.bytes);
    }
    if (size === 0) throw damage('it is empty');
  } finally {
    await file.close();
  }
}
