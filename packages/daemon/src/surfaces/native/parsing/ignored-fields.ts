/** Reports unknown fields to clients. */
import type { FastifyReply } from "fastify";

const HEADER = "X-Sandkasten-Ignored";
const MAX_NAMES = 16;
const MAX_NAME_LENGTH = 64;

/**
 * Names the fields in a response header.
 *
 * SECURITY: the names come from the client, so they are limited in number and length, and to plain
 * letters, before they become part of a header. Guarded by requests.test.ts.
 */
export function reportIgnored(reply: FastifyReply, names: readonly string[]): void {
  if (names.length === 0) return;
  const shown = names
    .slice(0, MAX_NAMES)
    .map((name) => name.slice(0, MAX_NAME_LENGTH).replaceAll(/[^A-Za-z0-9_.-]/g, "?"));
  const before = reply.getHeader(HEADER);
  const all = [
    ...(typeof before === "string" ? [before] : []),
    ...shown,
    ...(names.length > MAX_NAMES ? ["..."] : []),
  ];
  reply.header(HEADER, all.join(", "));
}
