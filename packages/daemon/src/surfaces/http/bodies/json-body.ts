/** Reads JSON bodies, regardless of their content type, with a size limit and a stall timeout. */
import { isUtf8 } from "node:buffer";
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyRequest } from "fastify";
import { JsonShape } from "../../../json-shape.ts";
import { ObservedDeadline } from "../../../observed-deadline.ts";
import type { App, HttpLimits, RouteBody } from "../app.ts";
import type { HeldBytes, RequestMemory } from "../request/request-memory.ts";
import { Turns } from "./turns.ts";

/** For bodies with names, paths and numbers. */
const MAX_SMALL_BODY_BYTES = 262_144;
/** The largest list in a request has 4096 items. */
const MAX_JSON_VALUES = 10_000;
/** Larger bodies are parsed one per event loop turn, and used in the next one. */
const LARGE_BODY_BYTES = 65_536;

/** The size limit for a route's body. */
export function maxBodyBytes(body: RouteBody, limits: HttpLimits): number {
  if (body === "json") return Math.min(MAX_SMALL_BODY_BYTES, limits.maxBodyBytes);
  return body === "content" ? limits.maxBodyBytes : limits.maxUploadBytes;
}

export interface JsonBodyOptions {
  readonly limits: HttpLimits;
  readonly stallTimeoutMs: number;
  readonly memory: RequestMemory;
}

export function readJsonBodies(
  app: App,
  { limits, stallTimeoutMs, memory }: JsonBodyOptions,
): void {
  const turns = new Turns();
  const held = new WeakMap<FastifyRequest, HeldBytes>();
  app.addHook("preParsing", (request, reply, _payload, done) => {
    // Other bodies are small, or not kept.
    if (request.routeOptions.config.body === "content")
      held.set(request, memory.holdFor(request, reply));
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (request, payload, done) => {
    const maxBytes = maxBodyBytes(request.routeOptions.config.body ?? "json", limits);
    const chunks: Buffer[] = [];
    const shape = new JsonShape({
      maxValues: MAX_JSON_VALUES,
      refused: (problem) => new SandboxError("INVALID_REQUEST", `the body ${problem}`),
    });
    let bytes = 0;
    const stall = new ObservedDeadline(stallTimeoutMs, () => finish(stalled(stallTimeoutMs)));
    const onData = (chunk: Buffer): void => {
      bytes += chunk.byteLength;
      stall.renew();
      try {
        if (bytes > maxBytes) throw tooLarge(maxBytes);
        held.get(request)?.add(chunk.byteLength);
        shape.add(chunk);
        chunks.push(chunk);
      } catch (error) {
        finish(error as SandboxError);
      }
    };
    const onEnd = (): void => finish();
    const onError = (cause: Error): void =>
      finish(
        new SandboxError("CANCELLED", "the client disconnected before its body was complete", {
          cause,
        }),
      );
    let finished = false;
    const finish = (error?: SandboxError): void => {
      // Later errors of the connection have no receiver.
      if (finished) return;
      finished = true;
      stall.stop();
      payload.off("data", onData).off("end", onEnd);
      // What typed clients send where they have nothing to send.
      const mayBeNull = request.method === "DELETE";
      if (error !== undefined) done(error, undefined);
      else if (bytes <= LARGE_BODY_BYTES) parseInto(done, chunks, mayBeNull);
      else
        turns.take(() =>
          parseInto((problem, body) => turns.take(() => done(problem, body)), chunks, mayBeNull),
        );
    };
    payload.on("data", onData).on("end", onEnd).on("error", onError);
  });
}

function parseInto(
  done: (error: Error | null, body?: unknown) => void,
  chunks: readonly Buffer[],
  mayBeNull: boolean,
): void {
  let body: unknown;
  try {
    body = parseBody(
      chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks),
      mayBeNull,
    );
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, body);
}

/** Undefined without a body: if all fields are optional, so is the body. */
function parseBody(bytes: Buffer, mayBeNull: boolean): object | undefined {
  if (bytes.byteLength === 0) return undefined;
  if (!isUtf8(bytes))
    throw new SandboxError(
      "INVALID_REQUEST",
      "the body is not valid UTF-8; send bytes as base64 or as a file",
    );
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString().replace(/^\ufeff/, ""));
  } catch (cause) {
    throw new SandboxError("INVALID_REQUEST", "the body is not valid JSON", { cause });
  }
  if (body === null && mayBeNull) return undefined;
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new SandboxError("INVALID_REQUEST", "the body must be a JSON object");
  return body;
}

export function tooLarge(maxBytes: number): SandboxError {
  return new SandboxError(
    "PAYLOAD_TOO_LARGE",
    `the body is too large: at most ${maxBytes} bytes are allowed here`,
    {
      details: { max_bytes: maxBytes },
    },
  );
}

export function stalled(stallTimeoutMs: number): SandboxError {
  return new SandboxError(
    "INVALID_REQUEST",
    `the body stalled: no data arrived for ${stallTimeoutMs / 1000} s`,
  );
}
