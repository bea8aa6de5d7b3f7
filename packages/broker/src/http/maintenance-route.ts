/**
 * /api/v1/system/maintenance and …/maintenance/pop. This broker has no maintenance mode: it never buffers a push, and an
 * operator who wants quiet stops its clients or the broker. So the answer is always that it is off, switching it off is
 * done at once, and switching it on is refused: a switch that does nothing would be believed.
 */
import { isObject, parseJson, SmallBodyExchange } from './small-body.ts';

export type MaintenanceKind = 'push' | 'pop';

export function maintenanceJson(kind: MaintenanceKind): object {
  return kind === 'pop'
    ? { popMaintenanceMode: false }
    : { maintenanceMode: false, popMaintenanceMode: false, bufferedMessages: 0, bufferHealthy: true };
}

export class MaintenanceExchange extends SmallBodyExchange {
  protected readonly bodyName = 'bad maintenance body';
  #kind: MaintenanceKind = 'push';

  startFor(kind: MaintenanceKind): void {
    this.#kind = kind;
    this.start();
  }

  protected received(body: Uint8Array): void {
    const value = parseJson(body);
    const { enabled } = isObject(value) ? (value as { enabled?: unknown }) : {};
    if (typeof enabled !== 'boolean') this.fail('bad_request', 'enabled must be true or false');
    else if (enabled) {
      this.fail('bad_request', 'this broker has no maintenance mode: stop the clients, or the broker, instead');
    } else this.answerValue(200, maintenanceJson(this.#kind));
  }
}
