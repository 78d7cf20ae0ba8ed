/** Reads the agent service's server-sent events from bytes that may be split anywhere. */
import type { RunEventBody } from "./wire-types.ts";

/** The service pings every 15 s; a connection that is silent for this long is dead. */
const SILENCE_MS = 60_000;

/** Ends with the body. Throws if the connection breaks or stays silent. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  silenceMs = SILENCE_MS,
): AsyncGenerator<RunEventBody, void, undefined> {
  const decoder = new TextDecoderStream() as TransformStream<Uint8Array, string>;
  const reader = body.pipeThrough(decoder).getReader();
  // Chunks are joined once per line, or a long line would take quadratic time.
  let pieces: string[] = [];
  try {
    for (;;) {
      const { done, value } = await withinTime(reader.read(), silenceMs);
      if (done) return;
      const lines = value.split("\n");
      for (const [index, piece] of lines.entries()) {
        pieces.push(piece);
        if (index === lines.length - 1) break;
        const line = pieces.join("");
        pieces = [];
        if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as RunEventBody;
      }
    }
  } finally {
    // The reader stops; the caller does not care whether the server notices.
    reader.cancel().catch(() => undefined);
  }
}

async function withinTime<Value>(promise: Promise<Value>, ms: number): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`nothing came for ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
