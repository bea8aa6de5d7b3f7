/** Files of one data folder. Paths are relative to it and use `/`. Every failure rejects with an Error that has `code`. */
export interface Disk {
  /** The folder, for messages to people. */
  readonly location: string;
  /** `create` makes the file, or empties it; the other modes need it to exist (else code ENOENT). */
  open(path: string, mode: 'read' | 'write' | 'create', writes?: WriteMode): Promise<DiskFile>;
  /** Names in a sub-folder ('' = the data folder itself), sorted; empty when it does not exist. */
  list(folder: string): Promise<string[]>;
  remove(path: string): Promise<void>;
  /** Atomic replace. */
  rename(from: string, to: string): Promise<void>;
  makeFolder(path: string): Promise<void>;
  /** Makes creations, renames and removals in the folder durable. */
  syncFolder(path: string): Promise<void>;
  space(): Promise<DiskSpace>;
  /** Refuses with code `EDATALOCKED` when another live process holds the folder. Released by a crash by itself. */
  lock(): Promise<FolderLock>;
}

/** `durable`: each write of the file is on disk when it resolves, at less cost than with a sync behind it. Default `cached`. */
export type WriteMode = 'cached' | 'durable';

export interface DiskFile {
  size(): Promise<number>;
  /** Reads up to target.length bytes at `position`; the result is how many, 0 at the end. */
  read(target: Uint8Array, position: number): Promise<number>;
  /** Writes all of `source` at `position`. Durable only after `sync`, unless the file was opened for durable writes. */
  write(source: Uint8Array, position: number): Promise<void>;
  /** fdatasync: what was written before is on disk when it resolves. */
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  close(): Promise<void>;
}

export interface DiskSpace {
  readonly freeBytes: number;
  /** 0..1, as `df` shows it. */
  readonly usedShare: number;
}

export interface FolderLock {
  release(): Promise<void>;
}
