/** Carries one HTTP request to a port of a sandbox and its answer back, both as fast as they are taken. */
import { request as httpRequest } from "node:http";
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { SandboxError } from "@sandkasten/protocol";
import { bytesOf } from "../http/bodies/byte-body.ts";
import { ClientGone, ResponseWriter } from "../http/responses/response-writer.ts";
import type { PortAddress } from "./preview-address.ts";

const MAX_HEAD_BYTES = 65_536;

export interface Forwarding extends PortAddress {
  readonly target: string;
  readonly headers: readonly string[];
  readonly stallTimeoutMs: number;
}

/** Begins the request. Node's own client parses the answer strictly and follows no redirect (threat: redirects to other hosts). */
export function ask(
  connection: Duplex,
  method: string | undefined,
  { target, headers }: Pick<Forwarding, "target" | "headers">,
): ClientRequest {
  return httpRequest({
    createConnection: () => connection,
    method: method ?? "GET",
    path: target,
    headers: [...headers],
    maxHeaderSize: MAX_HEAD_BYTES,
  });
}

/** Resolves with the head of the answer; the request's body goes on being sent meanwhile. */
export async function forwardRequest(
  connection: Duplex,
  request: IncomingMessage,
  forwarding: Forwarding,
): Promise<IncomingMessage> {
  const outgoing = ask(connection, request.method, forwarding);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  outgoing.once("response", resolve);
  rejectWhenOver(outgoing, forwarding, reject);
  sendBody(request, outgoing, forwarding.stallTimeoutMs).catch((error: unknown) => {
    // The client's own fault, which it is told unless the application has answered before.
    reject(error);
    connection.destroy();
  });
  return await promise;
}

/** One that closes, or that switches protocols unasked, fails without an error of Node's. */
export function rejectWhenOver(
  outgoing: ClientRequest,
  address: PortAddress,
  reject: (error: SandboxError) => void,
): void {
  outgoing.on("error", (error) => reject(portFailed(address, error)));
  outgoing.once("close", () => reject(portFailed(address, new Error("it closed"))));
}

/** An application that answers before it has read everything gets no more, as it wants. */
async function sendBody(
  request: IncomingMessage,
  outgoing: ClientRequest,
  stallTimeoutMs: number,
): Promise<void> {
  const limits = { maxBytes: Number.POSITIVE_INFINITY, stallTimeoutMs };
  const over = new AbortController();
  outgoing.once("close", () => over.abort());
  for await (const bytes of bytesOf(request, limits)) {
    if (outgoing.destroyed || over.signal.aborted) return;
    if (!outgoing.write(bytes)) await drained(outgoing, over.signal);
  }
  outgoing.end();
}

async function drained(outgoing: ClientRequest, over: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => resolve();
  outgoing.once("drain", done);
  over.addEventListener("abort", done, { once: true });
  if (over.aborted) resolve();
  await promise;
  outgoing.off("drain", done);
  over.removeEventListener("abort", done);
}

/** Sends the body of an answer whose head is out. What breaks off cuts the connection, so that no part is taken for the whole. */
export async function sendAnswer(
  answer: IncomingMessage,
  response: ServerResponse,
  stallTimeoutMs: number,
): Promise<void> {
  const writer = new ResponseWriter(response, stallTimeoutMs);
  try {
    for await (const bytes of answer) await writer.write(bytes as Uint8Array);
    response.end();
  } catch (error) {
    response.destroy();
    if (!(error instanceof ClientGone)) throw error;
  }
}

export function portFailed({ port }: PortAddress, cause: Error): SandboxError {
  if (cause instanceof SandboxError && cause.code === "SANDBOX_UNREACHABLE") return cause;
  return new SandboxError(
    "PORT_FAILED",
    `what listens on port ${port} of the sandbox gave no complete HTTP response; look at its log`,
    { cause },
  );
}
