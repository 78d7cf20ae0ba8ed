/** Follows a command's output to its end, each byte once, reconnecting as needed. */
import type { ExecInfoBody, OutputChunkBody, OutputPageBody } from "@sandkasten/protocol";
import { decodeBase64 } from "./base64.ts";
import { resumeEvents } from "./event-stream.ts";
import { type ExecInfo, type OutputChunk, type OutputPage, toExecInfo } from "./exec-types.ts";
import { withSnakeNames } from "./snake-names.ts";
import type { Transport } from "./transport.ts";

export interface FollowOptions {
  /** Connects to the output from this byte on. */
  readonly open: (cursor: number) => Promise<Response>;
  readonly transport: Transport;
  readonly cursor: number;
  readonly signal: AbortSignal | undefined;
  /** Whether only one stream is received, so gaps between offsets are not losses. */
  readonly isFiltered?: boolean;
  /** What it is, for messages. */
  readonly what: string;
}

/** Returns the command's state when all its output was delivered. */
export async function* followOutput(
  options: FollowOptions,
): AsyncGenerator<OutputChunk, ExecInfo, undefined> {
  const { transport, signal, what } = options;
  const assembler = new OutputAssembler(options.cursor, options.isFiltered === true);
  const events = resumeEvents({
    open: () => options.open(assembler.cursor),
    policy: transport.options,
    signal,
    what,
  });
  for await (const { type, data } of events) {
    if (type === "done") {
      yield* assembler.flush();
      return toExecInfo(data as ExecInfoBody);
    }
    if (type === "skipped") assembler.skip(data as { readonly skipped_bytes: number });
    if (type !== "chunk") continue;
    const chunk = assembler.add(data as OutputChunkBody);
    if (chunk !== undefined) yield chunk;
  }
  throw new Error("unreachable: the events end by being left");
}

/** Tracks how far the output was delivered, and incomplete characters. */
class OutputAssembler {
  readonly #decoders = { stdout: textDecoder(), stderr: textDecoder() };
  readonly #isFiltered: boolean;
  #last: OutputChunk | undefined;
  #cursor: number;
  /** Lost bytes since the last chunk, where offsets do not show them. */
  #skippedBytes = 0;

  constructor(cursor: number, isFiltered: boolean) {
    this.#cursor = cursor;
    this.#isFiltered = isFiltered;
  }

  get cursor(): number {
    return this.#cursor;
  }

  skip({ skipped_bytes: bytes }: { readonly skipped_bytes: number }): void {
    if (this.#isFiltered) this.#skippedBytes += bytes;
  }

  /** The new part of a chunk; undefined if there is none. */
  add(body: OutputChunkBody): OutputChunk | undefined {
    const known = Math.max(0, this.#cursor - body.offset);
    const bytes = bytesOf(body).subarray(known);
    if (bytes.length === 0) return undefined;
    const offset = body.offset + known;
    const { seq, stream, timestamp } = body;
    const text = this.#decoders[stream].decode(bytes, { stream: true });
    const skippedBytes = this.#isFiltered ? this.#skippedBytes : offset - this.#cursor;
    this.#skippedBytes = 0;
    this.#cursor = offset + bytes.length;
    this.#last = withSnakeNames({ stream, text, bytes, seq, timestamp, offset, skippedBytes });
    return this.#last;
  }

  /** The text of incomplete characters. Their bytes were delivered. */
  *flush(): Iterable<OutputChunk> {
    for (const stream of ["stdout", "stderr"] as const) {
      const text = this.#decoders[stream].decode();
      if (text === "" || this.#last === undefined) continue;
      const { seq, timestamp } = this.#last;
      const place = { seq, timestamp, offset: this.#cursor, skippedBytes: 0 };
      yield withSnakeNames({ stream, text, bytes: new Uint8Array(), ...place });
    }
  }
}

/** A byte order mark is treated as output. */
const textDecoder = () => new TextDecoder("utf-8", { ignoreBOM: true });

/** A page of output. A character cut by its boundary is replaced, since the next page is unknown. */
export function toOutputPage(body: OutputPageBody, isFiltered: boolean): OutputPage {
  const assembler = new OutputAssembler(body.cursor, isFiltered);
  const chunks = body.chunks.map((chunk) => assembler.add(chunk));
  return withSnakeNames({
    execId: body.exec_id,
    cursor: body.cursor,
    nextCursor: body.next_cursor,
    chunks: [...chunks.filter((chunk) => chunk !== undefined), ...assembler.flush()],
    skippedBytes: body.skipped_bytes,
    done: body.done,
    closed: body.closed,
    exec: toExecInfo(body.exec),
  });
}

/** Exact if the daemon sent the bytes, which it does on request. */
function bytesOf(body: OutputChunkBody): Uint8Array {
  return body.chunk_base64 === undefined
    ? new TextEncoder().encode(body.chunk)
    : decodeBase64(body.chunk_base64);
}
