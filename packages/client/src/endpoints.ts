/**
 * Which of several addresses a request goes to: by consistent hashing of what it is about, in turn, or the same one all
 * the time; and which of them are out of reach. An address that failed is left alone until it answers `/health` again.
 */

/** How an address is chosen. */
export type LoadBalancingStrategy = 'affinity' | 'round-robin' | 'session';

export interface Endpoint {
  /** Without a slash at its end. */
  readonly url: string;
  isDown: boolean;
  /** When a down address is looked at again, in milliseconds of `performance.now()`. */
  probeAtMs: number;
}

export interface EndpointSettings {
  readonly strategy: LoadBalancingStrategy;
  readonly hashRing: number;
  readonly healthRetryAfterMillis: number;
  /** Resolves with whether the address is healthy; does not reject. */
  readonly probe: (url: string) => Promise<boolean>;
}

export class Endpoints {
  readonly #all: readonly Endpoint[];
  readonly #ring: readonly { readonly hash: number; readonly endpoint: Endpoint }[];
  readonly #settings: EndpointSettings;
  #turn = 0;

  constructor(urls: readonly string[], settings: EndpointSettings) {
    this.#settings = settings;
    this.#all = urls.map((url) => ({ url, isDown: false, probeAtMs: 0 }));
    const usesRing = settings.strategy === 'affinity' && urls.length > 1;
    this.#ring = usesRing ? ringOf(this.#all, settings.hashRing) : [];
    // Clients that stay with one address do not all choose the first.
    if (settings.strategy === 'session') this.#turn = Math.floor(Math.random() * urls.length);
  }

  get count(): number {
    return this.#all.length;
  }

  /** All addresses, the one to try first in front. Those that are down come last: they are better than none. */
  order(key: string): readonly Endpoint[] {
    if (this.#all.length === 1) return this.#all;
    const preferred = this.#preferred(key);
    const up = preferred.filter((endpoint) => !endpoint.isDown);
    if (up.length === preferred.length) return preferred;
    this.#probeDue();
    return [...up, ...preferred.filter((endpoint) => endpoint.isDown)];
  }

  markDown(endpoint: Endpoint): void {
    if (this.#all.length === 1) return;
    endpoint.isDown = true;
    endpoint.probeAtMs = performance.now() + this.#settings.healthRetryAfterMillis;
  }

  markUp(endpoint: Endpoint): void {
    endpoint.isDown = false;
  }

  #preferred(key: string): readonly Endpoint[] {
    const all = this.#all;
    switch (this.#settings.strategy) {
      case 'affinity':
        return this.#fromRing(key);
      case 'round-robin':
        this.#turn = (this.#turn + 1) % all.length;
        return [...all.slice(this.#turn), ...all.slice(0, this.#turn)];
      case 'session':
        return [...all.slice(this.#turn), ...all.slice(0, this.#turn)];
    }
  }

  /** The addresses in the order in which the ring has them behind the key's place. */
  #fromRing(key: string): readonly Endpoint[] {
    const ring = this.#ring;
    const hash = fnv1a(key);
    let low = 0;
    let high = ring.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ring[middle].hash < hash) low = middle + 1;
      else high = middle;
    }
    const found = new Set<Endpoint>();
    for (let i = 0; i < ring.length && found.size < this.#all.length; i++) {
      found.add(ring[(low + i) % ring.length].endpoint);
    }
    return [...found];
  }

  #probeDue(): void {
    const nowMs = performance.now();
    for (const endpoint of this.#all) {
      if (!endpoint.isDown || nowMs < endpoint.probeAtMs) continue;
      endpoint.probeAtMs = nowMs + this.#settings.healthRetryAfterMillis;
      void this.#settings.probe(endpoint.url).then((isHealthy) => {
        if (isHealthy) endpoint.isDown = false;
      });
    }
  }
}

function ringOf(endpoints: readonly Endpoint[], nodesPerEndpoint: number) {
  const nodes = endpoints.flatMap((endpoint) =>
    Array.from({ length: nodesPerEndpoint }, (_, node) => ({ hash: fnv1a(`${endpoint.url}#vnode${node}`), endpoint })),
  );
  return nodes.sort((a, b) => a.hash - b.hash);
}

/** 32-bit FNV-1a over the UTF-16 units of a text. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash ^= text.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}
