/** Converts bodies to what `fetch` accepts. */
import type { ByteStream, FileSource } from "./file-types.ts";

/** Whether a body can only be sent once. */
export function isStream(source: FileSource | FormData | undefined): source is ByteStream {
  return source instanceof ReadableStream || isIterable(source);
}

function isIterable(source: unknown): source is AsyncIterable<Uint8Array> {
  return typeof source === "object" && source !== null && Symbol.asyncIterator in source;
}

/**
 * Browsers stream a request over HTTP/2 at best, and some of them send the text "[object
 * ReadableStream]" instead. There, a stream is collected first, possibly on disk.
 */
function isBrowser(): boolean {
  return "document" in globalThis || "importScripts" in globalThis;
}

function toReadableStream(source: ByteStream): ReadableStream<Uint8Array> {
  if (source instanceof ReadableStream) return source;
  const iterator = source[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

/** The part of a request that depends on its body. `duplex` lets Node send a stream. */
export async function toRequestBody(
  source: FileSource | FormData,
): Promise<Pick<RequestInit, "body" | "duplex">> {
  if (!isStream(source)) return { body: source as Exclude<typeof source, Uint8Array> };
  const stream = toReadableStream(source);
  return isBrowser()
    ? { body: await new Response(stream).blob() }
    : { body: stream, duplex: "half" };
}
