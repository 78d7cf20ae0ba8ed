/** Takes a response over from Fastify, for responses that are written piece by piece. */
import type { FastifyReply } from "fastify";

export function sendHead(
  reply: FastifyReply,
  status: number,
  headers: Readonly<Record<string, string | number>>,
): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value);
  reply.raw.writeHead(status, headers);
}
