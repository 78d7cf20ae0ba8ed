/** Parses server-sent events from arbitrarily split bytes. */
import { deferred } from "./deferred.ts";

/** One event. */
export interface SseEvent {
  /** `message` if the server named none. */
  readonly type: string;
  readonly data: string;
  /** The last id that the server sent, with this event or before it. */
  readonly id: string;
}

/**
 * Pass it bytes as they arrive. Lines end with LF, CR or CRLF; an event ends with an empty line; an
 * incomplete event at the end of the connection is dropped.
 */
export class SseParser {
  /** Buffers split characters, and removes a byte order mark. */
  readonly #decoder = new TextDecoder();
  /** Pieces of an incomplete line. Joined once, since repeated joining of a long line takes quadratic time. */
  #pieces: string[] = [];
  #afterCarriageReturn = false;
  #type = "";
  #data: string[] = [];
  #id = "";

  /** The events completed by these bytes. */
  push(bytes: Uint8Array): SseEvent[] {
    const events: SseEvent[] = [];
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return events;
    if (this.#afterCarriageReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterCarriageReturn = text === "" ? false : text.endsWith("\r");

    let from = 0;
    for (const { 0: end, index } of text.matchAll(/\r\n|\r|\n/g)) {
      this.#pieces.push(text.slice(from, index));
      from = index + end.length;
      const line = this.#pieces.join("");
      this.#pieces = [];
      const event = line === "" ? this.#dispatch() : this.#field(line);
      if (event !== undefined) events.push(event);
    }
    if (from < text.length) this.#pieces.push(text.slice(from));
    return events;
  }

  #field(line: string): undefined {
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const rest = colon === -1 ? "" : line.slice(colon + 1);
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    // A line that begins with a colon has an empty name: a comment, ignored like every unknown
    // name.
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(): SseEvent | undefined {
    const [type, data] = [this.#type || "message", this.#data];
    this.#type = "";
    this.#data = [];
    return data.length === 0 ? undefined : { type, data: data.join("\n"), id: this.#id };
  }
}

/** The daemon sends something every few seconds, if only a ping. */
const SILENCE_MS = 60_000;

/**
 * The events of a body, one by one. Leaving early closes the connection; a long silence counts as a
 * dead connection.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  silenceMs = SILENCE_MS,
): AsyncGenerator<SseEvent, void, undefined> {
  const parser = new SseParser();
  // Not `for await`: not every browser can iterate over a stream.
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await withinTime(reader.read(), silenceMs);
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    // A failure to cancel does not matter any more.
    reader.cancel().catch(() => undefined);
  }
}

/** The promise's value, or a failure if it takes too long. */
async function withinTime<Value>(promise: Promise<Value>, ms: number): Promise<Value> {
  const late = deferred<never>();
  const timer = setTimeout(() => late.reject(new Error(`no data for ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
