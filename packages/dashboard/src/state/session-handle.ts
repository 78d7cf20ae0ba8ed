/** The SDK's session objects, each loaded once. */
import type { SandboxClient, Session } from "@sandkasten/sdk";
import { connection } from "./connection.ts";

const handles = new WeakMap<SandboxClient, Map<string, Session>>();

export async function sessionHandle(id: string, signal?: AbortSignal): Promise<Session> {
  const client = connection.peek()?.client;
  if (client === undefined) throw new Error("Sign in first.");
  let known = handles.get(client);
  if (known === undefined) handles.set(client, (known = new Map()));
  const session = known.get(id) ?? (await client.getSession(id, { signal }));
  known.set(id, session);
  return session;
}
