/**
 * Second copies of sidecars: `segments/<base, 16 hex digits>.idx.copy`. A sidecar can be built again as long as its segment
 * is there. Before a segment is given up its sidecar is copied, page by page checked, so that the ids in it outlive damage
 * to either of the two files.
 */
import type { Disk, LogAddress } from '../ports/mod.ts';
import type { Checksum } from './log-checksum.ts';
import { segmentFolder } from './segment-format.ts';
import { readSidecarPages } from './sidecar-check.ts';
import { SidecarDamage, sidecarCopyPath, sidecarCopyTemporaryPath, sidecarPath } from './sidecar-format.ts';

/** Copies the sidecar of the segment at `base`. Rejects with SidecarDamage when it is not whole, or with the disk's error. */
export function copySidecar(disk: Disk, checksum: Checksum, base: LogAddress): Promise<void> {
  return copyFile(disk, checksum, base, sidecarPath(base), sidecarCopyPath(base));
}

/** Puts the copy in the place of the sidecar; false when there is none, or none that is whole. */
export async function restoreSidecar(disk: Disk, checksum: Checksum, base: LogAddress): Promise<boolean> {
  try {
    await copyFile(disk, checksum, base, sidecarCopyPath(base), sidecarPath(base));
    return true;
  } catch (error) {
    if (error instanceof SidecarDamage || isMissing(error)) return false;
    throw error;
  }
}

/** Removes a sidecar and its copy, as far as they are there. */
export async function removeSidecar(disk: Disk, base: LogAddress): Promise<void> {
  for (const path of [sidecarCopyPath(base), sidecarPath(base)]) {
    await disk.remove(path).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
  }
  await disk.syncFolder(segmentFolder);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && (error as { code?: unknown }).code === 'ENOENT';
}

async function copyFile(disk: Disk, checksum: Checksum, base: LogAddress, from: string, to: string): Promise<void> {
  const temporary = sidecarCopyTemporaryPath(base);
  const target = await disk.open(temporary, 'create');
  try {
    await readSidecarPages(disk, checksum, base, from, (bytes, at) => target.write(bytes, at));
    await target.sync();
  } finally {
    await target.close();
  }
  await disk.rename(temporary, to);
  await disk.syncFolder(segmentFolder);
}
