/** Real webhook deliveries of GitHub, from the examples that the Octokit project publishes, and the lane of each. */
import { createRequire } from 'node:module';

export interface WebhookDelivery {
  /** The `X-GitHub-Event` of the delivery. */
  readonly event: string;
  readonly body: WebhookBody;
}

export interface WebhookBody {
  readonly action?: string;
  readonly repository?: { readonly full_name: string };
  readonly organization?: { readonly login: string };
  readonly sender?: { readonly login: string };
}

/** All examples in the order of the package. */
export function loadDeliveries(): WebhookDelivery[] {
  const require = createRequire(import.meta.url);
  const events: {
    name: string;
    examples: WebhookBody[];
  }[] = require('@octokit/webhooks-examples/api.github.com/index.json');
  return events.flatMap(({ name, examples }) => examples.map((body) => ({ event: name, body })));
}

/** The thing whose events must stay in order: the repository, else the organization, else who sent it. */
export function laneOf(delivery: WebhookDelivery): string {
  const { repository, organization, sender } = delivery.body;
  return repository?.full_name ?? organization?.login ?? sender?.login ?? delivery.event;
}
