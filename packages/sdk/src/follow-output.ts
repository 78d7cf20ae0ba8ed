/** Follows the output of a command to its end, each byte once, over connections that may break. */
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
  /** Whether only one stream comes, so that offsets between its pieces are no loss. */
  readonly isFiltered?: boolean;
  /** What it is, for messages. */
  readonly what: string;
}

/** Returns what is known of the command when all its output was delivered. */
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

/** Knows how far the output was delivered, and which characters are still halves. */
class OutputAssembler {
  readonly #decoders = { stdout: textDecoder(), stderr: textDecoder() };
  readonly #isFiltered: boolean;
  #last: OutputChunk | undefined;
  #cursor: number;
  /** Bytes that are gone since the last piece, where offsets do not tell. */
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

  /** What is new in a piece; undefined when nothing is. */
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

  /** The text of characters that never got their end. Their bytes were delivered. */
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

/** A byte order mark is output like any other. */
const textDecoder = () => new TextDecoder("utf-8", { ignoreBOM: true });

/** A page of output. A character that is cut by its border is replaced, as nobody knows what comes next. */
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

/** Exact where the daemon sent the bytes, which it does when asked. */
function bytesOf(body: OutputChunkBody): Uint8Array {
  return body.chunk_base64 === undefined
    ? new TextEncoder().encode(body.chunk)
    : decodeBase64(body.chunk_base64);
}
