/** POST /api/v1/push */

import { isUtf8 } from 'node:buffer';
import { isBinaryPush, scanBinaryPush, scanPushBody } from '../codec/mod.ts';
import type { PushItems, PushOutcome, Refusal } from '../core/mod.ts';
import type { Reply } from '../runtime/mod.ts';
import type { Admission } from './admission.ts';
import { BodyExchange } from './body-exchange.ts';
import { parseIsoTime } from './iso-time.ts';
import { writePushAnswer } from './push-answer.ts';

const nothingPushed: Uint8Array = Buffer.from('[]');

export class PushExchange extends BodyExchange implements Reply<PushOutcome> {
  protected readonly bodyName = 'bad push body';
  protected readonly badBodyCode = 'bad_body';
  #items: PushItems | null = null;
  #answer: Uint8Array = nothingPushed;

  protected admissionFor(): Admission {
    return this.services.pushAdmission;
  }

  protected override isBinary(body: Uint8Array): boolean {
    return isBinaryPush(body);
  }

  protected received(body: Uint8Array): void {
    const scanned = isBinaryPush(body) ? scanBinaryPush(body, isUtf8) : scanPushBody(body, parseIsoTime);
    if (!scanned.ok) {
      this.releaseBody();
      this.fail('bad_body', scanned.message);
      return;
    }
    if (scanned.items.count === 0) {
      this.releaseBody();
      this.answerJson(201, nothingPushed);
      return;
    }
    this.#items = scanned.items;
    this.services.supervisor.handedOver(this);
    this.services.engine.push(scanned.items, this);
  }

  encode(outcome: PushOutcome): void {
    const items = this.#items;
    if (items === null || this.answered) return;
    const { writer, engine } = this.services;
    writer.reset();
    writePushAnswer(writer, engine.identity, items, outcome);
    this.#answer = this.services.takeAnswer();
    this.#items = null;
  }

  send(failure: Refusal | null): void {
    this.#items = null;
    this.releaseBody();
    if (failure === null) this.answerJson(201, this.#answer);
    else this.refuse(failure);
  }
}
