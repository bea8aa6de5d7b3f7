/** Checks a sidecar from end to end without taking it into use: what `lanemq verify` needs. */
import type { Disk, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { page, pageHolds, readSidecarHeader, SidecarDamage, sidecarPath, sidecarPlan } from './sidecar-format.ts';

/** Pages read in one piece. */
const pagesPerRead = 256;

/** Reads every page of the sidecar of the segment at `base`; undefined when all of them hold. */
export async function checkSidecar(
  disk: Disk,
  checksum: Checksum,
  base: LogAddress,
): Promise<SidecarDamage | undefined> {
  const file = await disk.open(sidecarPath(base), 'read');
  try {
    const size = await file.size();
    const bytes = new Uint8Array(pagesPerRead * page.bytes);
    const view = new DataView(bytes.buffer);
    for (let number = 0; number * page.bytes < size; number += pagesPerRead) {
      const count = await file.read(bytes, number * page.bytes);
      if (count % page.bytes !== 0) return new SidecarDamage(base, `its ${size} bytes are no whole number of pages`);
      for (let i = 0; i < count / page.bytes; i++) {
        if (!pageHolds(bytes, view, i * page.bytes, number + i, checksum)) {
          return new SidecarDamage(base, `page ${number + i} is not what was written`);
        }
      }
      if (number === 0) {
        const { pages } = sidecarPlan(readSidecarHeader(view, base).counts);
        if (pages * page.bytes !== size) {
          return new SidecarDamage(base, `it has ${size} bytes, its header announces ${pages * page.bytes}`);
        }
      }
    }
    return size === 0 ? new SidecarDamage(base, 'it is empty') : undefined;
  } catch (error) {
    if (error instanceof SidecarDamage) return error;
    throw error;
  } finally {
    await file.close();
  }
}
