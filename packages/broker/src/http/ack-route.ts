/** POST /api/v1/ack and /api/v1/ack/batch: one handler; the body tells whether it is one item or many. */

import { scanAckBody } from '../codec/mod.ts';
import type { AckItems, AckOutcome, Refusal } from '../core/mod.ts';
import type { Reply } from '../runtime/mod.ts';
import { writeAckAnswer } from './ack-answer.ts';
import type { Admission } from './admission.ts';
import { BodyExchange } from './body-exchange.ts';

/** Larger bodies come under a budget. Acks of usual size never wait, however much is in flight. */
const unboundedAckBytes = 1024 * 1024;

const noAnswer = new Uint8Array(0);

export class AckExchange extends BodyExchange implements Reply<AckOutcome> {
  protected readonly bodyName = 'bad ack body';
  protected readonly badBodyCode = 'bad_body';
  #items: AckItems | null = null;
  #answer: Uint8Array = noAnswer;

  protected admissionFor(bytes: number): Admission | null {
    return bytes > unboundedAckBytes || this.lengthUnknown ? this.services.bodyAdmission : null;
  }

  protected received(body: Uint8Array): void {
    const { engine, supervisor } = this.services;
    const scanned = scanAckBody(body, engine.identity);
    if (!scanned.ok) {
      this.releaseBody();
      this.fail('bad_body', scanned.message);
      return;
    }
    this.#items = scanned.items;
    supervisor.handedOver(this);
    engine.ack(scanned.group, scanned.items, this);
  }

  encode(outcome: AckOutcome): void {
    const items = this.#items;
    if (items === null || this.answered) return;
    const { writer } = this.services;
    writer.reset();
    writeAckAnswer(writer, items, outcome);
    this.#answer = this.services.takeAnswer();
    this.#items = null;
  }

  send(failure: Refusal | null): void {
    this.#items = null;
    this.releaseBody();
    if (failure === null) this.answerJson(200, this.#answer);
    else this.refuse(failure);
  }
}
