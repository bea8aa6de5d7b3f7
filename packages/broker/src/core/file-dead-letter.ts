/** Filing dead letters: one row per (record, group), the newest failure. */
import type { BrokerState } from './broker-state.ts';
import type { DeadLetterRecord, Journal } from './records.ts';

/** Files a row. A group that gives a record up again, after its position was moved back, has its earlier row replaced. */
export function fileDeadLetter(state: BrokerState, journal: Journal, row: DeadLetterRecord): void {
  for (const earlier of state.deadLetters.rowsAt(row.pid, row.offset)) {
    if (earlier.group !== row.group) continue;
    journal.deadLetterRemoved({ stampUs: earlier.stampUs, index: earlier.index, pid: earlier.pid });
  }
  journal.deadLetter(row);
}
