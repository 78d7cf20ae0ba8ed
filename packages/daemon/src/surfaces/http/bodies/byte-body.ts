/** Reads bodies that are bytes: piece by piece, within a size, as long as they keep coming. */
import type { Readable } from "node:stream";
import { SandboxError } from "@sandkasten/protocol";
import { ObservedDeadline } from "../../../observed-deadline.ts";
import type { App } from "../app.ts";
import { stalled, tooLarge } from "./json-body.ts";

/** Lets the routes of this scope have their bodies as streams. */
export function leaveBodiesUnread(app: App): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
}

export interface ByteLimits {
  readonly maxBytes: number;
  /** How long the client may be silent; time that the sandbox takes does not count. */
  readonly stallTimeoutMs: number;
}

/**
 * The bytes of a stream. Fails when they are too many, stop coming, or end before their end, so that
 * nobody takes a part for the whole. Leaving early does not cut the client off: it gets its answer.
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
    // Lets go of the stream. Not awaited: behind a read that never ends, so does this.
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

/** Either the client is gone, or what it sent is no complete body. */
function cutShort(cause: unknown): SandboxError {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (code === "ECONNRESET" || code === "FST_MP_PREMATURE_CLOSE")
    return new SandboxError("CANCELLED", "the client left before its body was here", { cause });
  return new SandboxError("INVALID_REQUEST", "the body ended before it was complete", { cause });
}

/** A request without a body has an empty one. */
export function bodyBytes(body: unknown, limits: ByteLimits): AsyncIterable<Uint8Array> {
  return isReadable(body) ? bytesOf(body, limits) : nothing();
}

function isReadable(body: unknown): body is Readable {
  return typeof body === "object" && body !== null && "iterator" in body;
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
