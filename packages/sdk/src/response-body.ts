/** Reads response bodies, and translates their failures. */
import { connectionFailed } from "./errors-from-wire.ts";

/** What is read, for messages, and how to abort it. */
export interface Reading {
  readonly what: string;
  readonly signal: AbortSignal | undefined;
}

/** The JSON of a response. It is trusted to match the API. */
export async function readJson<Body>(response: Response, { what, signal }: Reading): Promise<Body> {
  try {
    return (await response.json()) as Body;
  } catch (error) {
    signal?.throwIfAborted();
    throw connectionFailed(what, error);
  }
}

/** The bytes of a response as a stream. A broken connection fails the stream with a SandboxError. */
export function readBytes(
  response: Response,
  { what, signal }: Reading,
): ReadableStream<Uint8Array> {
  const reader = response.body?.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const piece = await reader?.read();
        if (piece === undefined || piece.done) controller.close();
        else controller.enqueue(piece.value);
      } catch (error) {
        signal?.throwIfAborted();
        throw connectionFailed(what, error);
      }
    },
    cancel: (reason) => reader?.cancel(reason),
  });
}
