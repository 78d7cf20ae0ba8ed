/** The signed-in user, and the clients that use their key. */
import { signal } from "@preact/signals";
import { type DaemonVersion, SandboxClient, SandboxError } from "@sandkasten/sdk";
import { AgentServiceClient } from "@sandkasten/agents/client";

export interface Connection {
  readonly client: SandboxClient;
  /** The agent service, to which the daemon forwards; absent if none is configured. */
  readonly agents: AgentServiceClient | undefined;
  readonly version: DaemonVersion;
  /** A request that the SDK has no call for. */
  readonly text: (path: string, signal?: AbortSignal) => Promise<string>;
}

/**
 * SECURITY: the key only exists in this page's memory: no cookie that a request of another page
 * could carry, no storage that another page could read. It is gone when the page is closed (threat:
 * hostile previews). Guarded by tests/e2e/dashboard-previews.test.ts.
 */
export const connection = signal<Connection | undefined>(undefined);

/** Why the daemon ended the visitor's access. */
export const signedOutBecause = signal<string | undefined>(undefined);

const feedListeners = new Set<() => void>();

/** Called whenever the daemon has started to send events. */
export function onFeedOpened(listener: () => void): () => void {
  feedListeners.add(listener);
  return () => void feedListeners.delete(listener);
}

/** Throws with a message for the user who signs in. */
export async function signIn(key: string): Promise<void> {
  const baseUrl = location.origin;
  const authorization = `Bearer ${key}`;
  const client = new SandboxClient({ baseUrl, apiKey: key, fetch: watchedFetch });
  const version = await client.version().catch((error: unknown) => {
    if (error instanceof SandboxError && error.status === 401)
      throw new Error("The daemon does not know this key.", { cause: error });
    throw error;
  });
  const agents = new AgentServiceClient({ baseUrl: `${baseUrl}/v1/agent-service`, apiKey: key });
  const text = async (path: string, signal?: AbortSignal): Promise<string> => {
    const response = await watchedFetch(baseUrl + path, {
      headers: { authorization },
      ...(signal && { signal }),
    });
    if (!response.ok) throw new Error(`The daemon answered ${response.status}.`);
    return await response.text();
  };
  const { available } = JSON.parse(await text("/v1/agent-service")) as { available: boolean };
  signedOutBecause.value = undefined;
  connection.value = { client, version, text, agents: available ? agents : undefined };
}

export function signOut(because?: string): void {
  signedOutBecause.value = because;
  connection.value = undefined;
}

/** Detects a revoked key, and the opening of the event feed. */
async function watchedFetch(
  input: Parameters<typeof fetch>[0],
  init?: RequestInit,
): Promise<Response> {
  const response = await fetch(input, init);
  if (response.status === 401 && connection.peek() !== undefined)
    signOut("The daemon no longer accepts the key.");
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (response.ok && pathname === "/v1/events") for (const listener of feedListeners) listener();
  return response;
}
