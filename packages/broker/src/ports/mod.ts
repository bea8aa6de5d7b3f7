/**
 * What the runtime and the storage need from the host, as interfaces only.
 * Adapters: `system/` (real host), `storage/` and `log/` (our segments), `tests/simulation` (virtual host).
 */
export type { Background, BuiltSnapshot, SegmentRows } from './background.ts';
export type { PayloadCipher } from './cipher.ts';
export type { Disk, DiskFile, DiskSpace, FolderLock, WriteMode } from './disk.ts';
export type { Clock, Random, Scheduler } from './host.ts';
export type { EntryDraft, EntryHeader, Log, LogAddress, ResidentBytes } from './log.ts';
export type { BlockLocation, FoundId, RecordIndex } from './record-index.ts';
