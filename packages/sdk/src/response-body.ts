/** Reads bodies of answers, and names what breaks them. */
import { connectionFailed } from "./errors-from-wire.ts";

/** What is read, for messages, and what gives it up. */
export interface Reading {
  readonly what: string;
  readonly signal: AbortSignal | undefined;
}

/** The JSON of an answer. It is believed to be what the API says it is. */
export async function readJson<Body>(response: Response, { what, signal }: Reading): Promise<Body> {
  try {
    return (await response.json()) as Body;
  } catch (error) {
    signal?.throwIfAborted();
    throw connectionFailed(what, error);
  }
}

/** The bytes of an answer as they come. A connection that breaks fails the stream with a SandboxError. */
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
