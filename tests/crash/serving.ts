/** A broker for the length of one test. */
import { BrokerProcess, type BrokerSettings } from '../e2e/broker-process.ts';

/**
 * Starts a broker, lends it, and stops it. When the test fails the process is killed, so that it does not outlive the
 * test, and the message says what it printed and where its data folder is, which stays.
 *
 * @param repeat how to run the test again, for the message
 */
export async function serving(
  settings: BrokerSettings,
  use: (broker: BrokerProcess) => Promise<void>,
  repeat = '',
): Promise<void> {
  const broker = await BrokerProcess.start(settings);
  try {
    await use(broker);
  } catch (error) {
    const state = await lastWords(broker);
    // It may have ended by itself; then that is the failure.
    await broker.kill().catch(() => undefined);
    const where = [repeat, `data folder: ${broker.dataFolder}`, state, broker.output.slice(-3000)].join('\n');
    throw new Error(`${(error as Error).message}\n${where}`, { cause: error });
  }
  await broker.dispose();
}

/** What the broker says of itself when a test has failed; it may not be able to say anything. */
async function lastWords(broker: BrokerProcess): Promise<string> {
  const signal = AbortSignal.timeout(2000);
  const metrics = broker.client.request('GET', '/metrics', { signal, keepAlive: false });
  return metrics.then(
    (answer) => answer.bytes.toString(),
    (error: Error) => `no metrics: ${error.message}`,
  );
}
