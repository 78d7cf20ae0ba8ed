/** The daemon's event feed: one connection for the whole page, while the page is visible. */
import { effect, signal } from "@preact/signals";
import type { SandboxClient, SandboxEvent } from "@sandkasten/sdk";
import { connection, onFeedOpened } from "./connection.ts";
import { isVisible } from "./visibility.ts";

const LONGEST_PAUSE_MS = 15_000;
const KEPT_EVENTS = 200;

export type FeedState = "connecting" | "live" | "lost";

export const feedState = signal<FeedState>("connecting");
/** Newest first. */
export const recentEvents = signal<readonly SandboxEvent[]>([]);

const listeners = new Set<(event: SandboxEvent) => void>();

/** Called for every event; a `gap` means that everything has to be reloaded. */
export function onEvent(listener: (event: SandboxEvent) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * Follows events while signed in. Browsers limit connections to a host, so a hidden page opens
 * none.
 */
export function startFeed(): void {
  onFeedOpened(() => {
    feedState.value = "live";
  });
  let cursor: string | undefined;
  let client: SandboxClient | undefined;
  effect(() => {
    const signedIn = connection.value?.client;
    if (signedIn !== client) {
      cursor = undefined;
      recentEvents.value = [];
    }
    client = signedIn;
    if (signedIn === undefined || !isVisible.value) return undefined;
    const leave = new AbortController();
    void follow(signedIn, leave.signal);
    return () => leave.abort();
  });

  async function follow(from: SandboxClient, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        for await (const event of from.events({ cursor, signal })) {
          failures = 0;
          cursor = event.id;
          recentEvents.value = [event, ...recentEvents.peek()].slice(0, KEPT_EVENTS);
          for (const listener of listeners) listener(event);
        }
      } catch {
        // The cause does not matter: the next attempt shows whether the daemon is reachable.
        if (signal.aborted) return;
        feedState.value = "lost";
      }
      await pause(
        Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures) * (0.5 + Math.random() / 2),
        signal,
      );
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => resolve(), { once: true });
  return promise.finally(() => clearTimeout(timer));
}
