/** Forwards one HTTP request to a port of a sandbox and its response back, with backpressure both ways. */
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

/**
 * Starts the request. Node's client parses the response strictly and follows no redirects (threat:
 * redirects to other hosts).
 */
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

/** Resolves with the response's head; the request's body continues to be sent meanwhile. */
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
    // The client's own fault, which is reported unless the application has already responded.
    reject(error);
    connection.destroy();
  });
  return await promise;
}

/** A connection that closes, or switches protocols unasked, fails without an error from Node. */
export function rejectWhenOver(
  outgoing: ClientRequest,
  address: PortAddress,
  reject: (error: SandboxError) => void,
): void {
  outgoing.on("error", (error) => reject(portFailed(address, error)));
  outgoing.once("close", () => reject(portFailed(address, new Error("it closed"))));
}

/** An application that responds before it has read everything gets no more, as it wants. */
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

/**
 * Sends the body of a response whose head was sent. A failure cuts the connection, so a part is
 * never taken for the whole.
 */
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
    `the server on port ${port} of the sandbox sent no complete HTTP response; check its log`,
    { cause },
  );
}
