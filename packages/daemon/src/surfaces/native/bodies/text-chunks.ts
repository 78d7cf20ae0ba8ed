/** Turns chunks of bytes into chunks of text, with no character cut in two. */
import { isUtf8 } from "node:buffer";
import type { OutputChunkBody, OutputStream } from "@sandkasten/protocol";
import type { JournalChunk } from "../../../ports/exec-journal.ts";

interface Held {
  readonly bytes: Buffer;
  /** Where in the output its first byte is. */
  readonly offset: number;
  readonly chunk: JournalChunk;
}

export interface TextChunk {
  readonly body: OutputChunkBody;
  /** Whoever goes on here misses nothing. */
  readonly cursor: number;
}

export interface TextChunkOptions {
  /** Adds the exact bytes where the text does not say them. */
  readonly raw: boolean;
}

/**
 * One for each reader. The beginning of a character waits for its end, for each stream apart; with
 * `raw` it is sent as bytes at once all the same.
 */
export class TextChunks {
  readonly #raw: boolean;
  readonly #held: Partial<Record<OutputStream, Held>> = {};

  constructor(options: TextChunkOptions) {
    this.#raw = options.raw;
  }

  /** Undefined when all of the chunk has to wait. */
  add(chunk: JournalChunk): TextChunk | undefined {
    const { stream, offset } = chunk;
    const own = Buffer.from(chunk.bytes.buffer, chunk.bytes.byteOffset, chunk.bytes.byteLength);
    const before = this.#held[stream];
    const bytes = before === undefined ? own : Buffer.concat([before.bytes, own]);
    const tail = unfinishedTail(bytes);
    const end = offset + own.length;
    if (tail === 0) delete this.#held[stream];
    else
      this.#held[stream] = {
        bytes: Buffer.from(bytes.subarray(bytes.length - tail)),
        offset: tail > own.length && before !== undefined ? before.offset : end - tail,
        chunk,
      };
    const text = bytes.toString("utf8", 0, bytes.length - tail);
    if (text === "" && !this.#raw) return undefined;
    return {
      body: this.#body(chunk, text, this.#raw ? offset : (before?.offset ?? offset), own),
      cursor: this.#raw ? end : this.#firstHeld(end),
    };
  }

  /** What is left when no more comes: characters that never got their end. */
  flush(): TextChunk[] {
    const left = Object.values(this.#held);
    this.forget();
    return left.map((held) => ({
      body: this.#body(held.chunk, held.bytes.toString(), held.offset, Buffer.alloc(0)),
      cursor: held.chunk.offset + held.chunk.bytes.byteLength,
    }));
  }

  /** After a gap nothing that waited can be completed. */
  forget(): void {
    delete this.#held.stdout;
    delete this.#held.stderr;
  }

  #body(chunk: JournalChunk, text: string, offset: number, own: Buffer): OutputChunkBody {
    return {
      chunk: text,
      timestamp: chunk.timestampMs,
      seq: chunk.seq,
      stream: chunk.stream,
      offset,
      // Where the text is exactly the bytes, sending them twice would only cost time.
      ...(this.#raw && !saysAll(text, own) && { chunk_base64: own.toString("base64") }),
    };
  }

  #firstHeld(end: number): number {
    const { stdout, stderr } = this.#held;
    return Math.min(end, stdout?.offset ?? end, stderr?.offset ?? end);
  }
}

/** Whether the bytes can be had from the text: the same number of them, and none replaced. */
function saysAll(text: string, bytes: Buffer): boolean {
  return isUtf8(bytes) && Buffer.byteLength(text) === bytes.length;
}

/** How many bytes at the end begin a character without ending it. */
export function unfinishedTail(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc2 && byte <= 0xf4) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return back < length ? back : 0;
    }
    if (byte >= 0xc0) return 0;
  }
  return 0;
}
