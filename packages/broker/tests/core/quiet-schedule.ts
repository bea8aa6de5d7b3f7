/** What a schedule stands between, for tests in which nobody listens and nothing lies anywhere. */
import type { BlockPlaces, ReadyListener } from '../../src/core/mod.ts';

const nothing = (): void => undefined;

export const noPlaces: BlockPlaces = {
  stampOf: () => 0,
  blockAppended: nothing,
  blockRelocated: nothing,
  partitionRemoved: nothing,
};

export const quietListener: ReadyListener = {
  rowReady: nothing,
  subscriptionReady: nothing,
  laneAppended: nothing,
  queueRemoved: nothing,
  manyReady: nothing,
  subscriptionRemoved: nothing,
  roomAgain: nothing,
};
