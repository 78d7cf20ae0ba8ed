/** Checks what a request's head says about its body before any of it is read. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { SandboxError } from "@sandkasten/protocol";
import type { HttpLimits } from "../app.ts";
import { maxBodyBytes, tooLarge } from "../bodies/json-body.ts";

export function checkHead(request: FastifyRequest, reply: FastifyReply, limits: HttpLimits): void {
  const { headers } = request.raw;
  const { body = "json" } = request.routeOptions.config;
  const encoding = headers["content-encoding"];
  // SECURITY: bodies are never decompressed, so a small one cannot become a large one (threat:
  // oversized requests). Guarded by limits.test.ts.
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw new SandboxError(
      "INVALID_REQUEST",
      "compressed bodies are not supported; send the body uncompressed",
    );
  const maxBytes = maxBodyBytes(body, limits);
  // A form is larger than its files, which are counted as they are read.
  const room = body === "form" ? maxBytes + FORM_OVERHEAD_BYTES : maxBytes;
  if (Number(headers["content-length"] ?? 0) > room) throw tooLarge(maxBytes);
  // Only now: a client with `Expect: 100-continue` need not send a body that will be refused.
  if (headers.expect?.toLowerCase() === "100-continue") reply.raw.writeContinue();
  // The declared content type is ignored, since clients often get it wrong.
  if (body !== "form") headers["content-type"] = undefined;
}

const FORM_OVERHEAD_BYTES = 1_048_576;
