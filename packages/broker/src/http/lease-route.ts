/** POST /api/v1/lease/{leaseId}/extend */

import { limits } from '@lanemq/protocol';
import { type BrokerIdentity, type ExtendOutcome, type IdParts, parseId, type Refusal } from '../core/mod.ts';
import type { Reply } from '../runtime/mod.ts';
import { isoTime } from './iso-time.ts';
import { isObject, parseJson, SmallBodyExchange } from './small-body.ts';

const parts: IdParts = { stampUs: 0, number: 0, index: 0 };

/** The stamp of a lease id; −1 when the text is no lease id of this broker. */
function leaseStampOf(identity: BrokerIdentity, leaseId: string): number {
  const bytes = Buffer.from(leaseId);
  if (!parseId(identity, bytes, 0, bytes.length, parts)) return -1;
  return parts.number === 0 && parts.index === 0 ? parts.stampUs : -1;
}

/** A body that is missing or cannot be read asks for the default. */
function secondsOf(body: Uint8Array): number {
  const value = parseJson(body);
  const { seconds } = isObject(value) ? (value as { seconds?: unknown }) : {};
  if (typeof seconds !== 'number' || !Number.isInteger(seconds)) return limits.leaseSecondsDefault;
  return Math.min(Math.max(seconds, 1), limits.leaseSecondsMax);
}

export class ExtendExchange extends SmallBodyExchange implements Reply<ExtendOutcome> {
  protected readonly bodyName = 'bad lease body';
  #leaseId = '';
  #answer: object = {};

  startFor(leaseId: string): void {
    this.#leaseId = leaseId;
    this.start();
  }

  protected received(body: Uint8Array): void {
    const { engine, supervisor } = this.services;
    supervisor.handedOver(this);
    engine.extendLease(leaseStampOf(engine.identity, this.#leaseId), secondsOf(body), this);
  }

  protected override badBody(): void {
    this.received(new Uint8Array(0));
  }

  encode(outcome: ExtendOutcome): void {
    const expiresAt = outcome.renewed > 0 ? isoTime(outcome.expiresAtUs) : null;
    this.#answer = {
      leaseId: this.#leaseId,
      success: outcome.renewed > 0,
      renewed: outcome.renewed,
      newExpiresAt: expiresAt,
      expiresAt,
      lease_expires_at: expiresAt,
      ...(outcome.renewed > 0
        ? {}
        : { error: 'no live lease with this id: it has ended, or its messages are settled' }),
    };
  }

  send(failure: Refusal | null): void {
    if (failure === null) this.answerValue(200, this.#answer);
    else this.refuse(failure);
  }
}
