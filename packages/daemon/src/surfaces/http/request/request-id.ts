/** Request ids, for finding a response in the log. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** Visible ASCII, as tracing systems write ids, except what quotes, separates or opens a tag. */
const ID = /^[!#-+\--;=?-[\]-~]{1,128}$/;

/** The client's id if it is safe for logs and headers, otherwise a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  return typeof given === "string" && ID.test(given) ? given : newRequestId();
}

export function newRequestId(): string {
  return randomUUID();
}
