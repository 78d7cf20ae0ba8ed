/** Reads binary bodies as a stream, with a size limit and a stall timeout. */
import type { Readable } from "node:stream";
import { SandboxError } from "@sandkasten/protocol";
import { ObservedDeadline } from "../../../observed-deadline.ts";
import type { App } from "../app.ts";
import { stalled, tooLarge } from "./json-body.ts";

/** Gives the routes of this scope their bodies as streams. */
export function leaveBodiesUnread(app: App): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
}

export interface ByteLimits {
  readonly maxBytes: number;
  /** How long the client may be silent; the sandbox's own time does not count. */
  readonly stallTimeoutMs: number;
}

/**
 * The bytes of a stream. Fails if there are too many, they stall, or they end early, so a part is
 * never taken for the whole. Leaving the loop early does not disconnect the client: it gets its
 * response.
 */
export async function* bytesOf(source: Readable, limits: ByteLimits): AsyncGenerator<Uint8Array> {
  const pieces = source.iterator({ destroyOnReturn: false });
  let bytes = 0;
  try {
    for (;;) {
      const piece = await nextPiece(pieces, limits.stallTimeoutMs);
      if (piece === undefined) return;
      bytes += piece.byteLength;
      if (bytes > limits.maxBytes) throw tooLarge(limits.maxBytes);
      yield piece;
    }
  } finally {
    // Releases the stream. Not awaited: it would wait for a pending read that may never end.
    void pieces.return?.();
  }
}

async function nextPiece(
  pieces: AsyncIterator<Uint8Array>,
  stallTimeoutMs: number,
): Promise<Uint8Array | undefined> {
  const stall = Promise.withResolvers<never>();
  const deadline = new ObservedDeadline(stallTimeoutMs, () =>
    stall.reject(stalled(stallTimeoutMs)),
  );
  try {
    const next = await Promise.race([pieces.next(), stall.promise]);
    return next.done === true ? undefined : next.value;
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    throw cutShort(error);
  } finally {
    deadline.stop();
  }
}

/** Either the client is gone, or it sent an incomplete body. */
function cutShort(cause: unknown): SandboxError {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (code === "ECONNRESET" || code === "FST_MP_PREMATURE_CLOSE")
    return new SandboxError("CANCELLED", "the client disconnected before its body was complete", {
      cause,
    });
  return new SandboxError("INVALID_REQUEST", "the body ended before it was complete", { cause });
}

/** A request without a body counts as an empty body. */
export function bodyBytes(body: unknown, limits: ByteLimits): AsyncIterable<Uint8Array> {
  return isReadable(body) ? bytesOf(body, limits) : nothing();
}

function isReadable(body: unknown): body is Readable {
  return typeof body === "object" && body !== null && "iterator" in body;
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
