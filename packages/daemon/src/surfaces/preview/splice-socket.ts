/** Connects a visitor's WebSocket to the application's, byte for byte, once the application has agreed. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { ObservedDeadline } from "../../observed-deadline.ts";
import { ask, rejectWhenOver } from "./forward-request.ts";
import type { Forwarding } from "./forward-request.ts";

const KEEP_ALIVE_MS = 30_000;

export interface Agreement {
  readonly answer: IncomingMessage;
  /** Absent if the application ignored the upgrade request. */
  readonly socket?: Duplex;
  /** What it sent right after its head. */
  readonly head: Buffer;
}

/**
 * Asks the application for a WebSocket.
 *
 * SECURITY: what the client sends after its head reaches the application only after it has switched
 * protocols; an application that refuses would treat it as another request. Guarded by
 * preview-requests.test.ts.
 */
export async function askForSocket(connection: Duplex, forwarding: Forwarding): Promise<Agreement> {
  const outgoing = ask(connection, "GET", forwarding);
  const { promise, resolve, reject } = Promise.withResolvers<Agreement>();
  outgoing.once("upgrade", (answer, socket, head) => resolve({ answer, socket, head }));
  outgoing.once("response", (answer) => resolve({ answer, head: Buffer.alloc(0) }));
  rejectWhenOver(outgoing, forwarding, reject);
  outgoing.end();
  return await promise;
}

export interface Ends {
  readonly client: Duplex;
  readonly application: Duplex;
  readonly stallTimeoutMs: number;
}

/** Resolves when both directions have ended. If either end breaks, so does the other. */
export async function splice({ client, application, stallTimeoutMs }: Ends): Promise<void> {
  if ("setKeepAlive" in client && typeof client.setKeepAlive === "function")
    client.setKeepAlive(true, KEEP_ALIVE_MS);
  try {
    await Promise.all([
      // An application may read slowly; a visitor who does not read is cut off.
      carry(client, application, Number.POSITIVE_INFINITY),
      carry(application, client, stallTimeoutMs),
    ]);
  } finally {
    client.destroy();
    application.destroy();
  }
}

/** Carries bytes from one end to the other with backpressure, and then its end. */
async function carry(from: Duplex, to: Duplex, stallTimeoutMs: number): Promise<void> {
  for await (const bytes of from.iterator({ destroyOnReturn: false }))
    if (!to.write(bytes)) await drained(to, stallTimeoutMs);
  to.end();
}

async function drained(to: Duplex, stallTimeoutMs: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const closed = (): void => reject(new Error("the other end is closed"));
  const deadline = Number.isFinite(stallTimeoutMs)
    ? new ObservedDeadline(stallTimeoutMs, () => reject(new Error("the peer stopped reading")))
    : undefined;
  to.once("drain", resolve).once("close", closed);
  if (to.destroyed) closed();
  try {
    await promise;
  } finally {
    deadline?.stop();
    to.off("drain", resolve).off("close", closed);
  }
}
