/** GET /health: 200 only while the broker commits what it is given. */

import type { Exchange } from './exchange.ts';

/** The version of the contract that clients know this API under. */
const contractVersion = '2.6.0';

export function answerHealth(exchange: Exchange): void {
  const { engine, options } = exchange.services;
  const report = engine.health();
  exchange.answerValue(report.state === 'healthy' ? 200 : 503, {
    status: report.state,
    // The word by which clients know a broker of this API; it says nothing about how this one replicates.
    engine: 'raft',
    version: contractVersion,
    lanemq: options.version,
    detail: report.detail,
    defaultSubscriptionMode: options.defaultSubscriptionMode,
    raft: {
      role: 'leader',
      leader: true,
      term: report.epoch,
      applied: report.sequence,
      commit: report.durableSequence,
      lag: Math.max(0, report.sequence - report.durableSequence),
      storageReady: report.storageReady,
      clusterVersion: 1,
    },
  });
}
