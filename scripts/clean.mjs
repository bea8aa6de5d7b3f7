/** Removes what the build makes, so that nothing stale is tested or shipped. */
import { rmSync } from 'node:fs';

for (const folder of ['dist', 'packages/protocol/dist', 'packages/client/dist', 'packages/broker/dist']) {
  rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
}
