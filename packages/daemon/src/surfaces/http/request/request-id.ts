/** Request ids, for finding a response in the log. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** The client's id if it is safe for logs and headers, otherwise a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && /^[A-Za-z0-9._-]{1,128}$/.test(given)
    ? given
    : newRequestId();
}

export function newRequestId(): string {
  return randomUUID();
}
