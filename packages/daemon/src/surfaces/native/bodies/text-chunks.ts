/** Converts chunks of bytes to chunks of text, without splitting characters. */
import { isAscii, isUtf8 } from "node:buffer";
import type { OutputChunkBody, OutputStream } from "@sandkasten/protocol";
import type { JournalChunk } from "../../../ports/exec-journal.ts";

type ChunkHead = Omit<JournalChunk, "bytes" | "offset">;

interface Held {
  readonly bytes: Buffer;
  /** The offset of its first byte in the output. */
  readonly offset: number;
  /** Where the chunk with its last byte ends. */
  readonly end: number;
  /** Without its bytes, whose memory may be used again. */
  readonly chunk: ChunkHead;
}

export interface TextChunk {
  readonly body: OutputChunkBody;
  /** Continuing here misses nothing. */
  readonly cursor: number;
}

export interface TextChunkOptions {
  /** Adds the exact bytes if the text does not represent them. */
  readonly raw: boolean;
}

/**
 * One for each reader. An incomplete character waits for its remaining bytes, separately for each
 * stream; with `raw` its bytes are still sent at once.
 */
export class TextChunks {
  readonly #raw: boolean;
  readonly #held: Partial<Record<OutputStream, Held>> = {};

  constructor(options: TextChunkOptions) {
    this.#raw = options.raw;
  }

  /** Whether the chunk is its own text: ASCII, and no character before it is incomplete. */
  isPlain({ bytes }: JournalChunk): boolean {
    const { stdout, stderr } = this.#held;
    return stdout === undefined && stderr === undefined && isAscii(bytes);
  }

  /** Undefined if the whole chunk has to wait. */
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
        end,
        chunk: { stream, seq: chunk.seq, timestampMs: chunk.timestampMs },
      };
    const text = bytes.toString("utf8", 0, bytes.length - tail);
    if (text === "" && !this.#raw) return undefined;
    return {
      body: this.#body(chunk, text, this.#raw ? offset : (before?.offset ?? offset), own),
      cursor: this.#raw ? end : this.#firstHeld(end),
    };
  }

  /** What is left at the end: characters that were never completed. */
  flush(): TextChunk[] {
    const left = Object.values(this.#held);
    this.forget();
    return left.map((held) => ({
      body: this.#body(held.chunk, held.bytes.toString(), held.offset, Buffer.alloc(0)),
      cursor: held.end,
    }));
  }

  /** After a gap, incomplete characters cannot be completed. */
  forget(): void {
    delete this.#held.stdout;
    delete this.#held.stderr;
  }

  #body(chunk: ChunkHead, text: string, offset: number, own: Buffer): OutputChunkBody {
    return {
      chunk: text,
      timestamp: chunk.timestampMs,
      seq: chunk.seq,
      stream: chunk.stream,
      offset,
      // If the text represents the bytes exactly, sending them twice is a waste.
      ...(this.#raw && !saysAll(text, own) && { chunk_base64: own.toString("base64") }),
    };
  }

  #firstHeld(end: number): number {
    const { stdout, stderr } = this.#held;
    return Math.min(end, stdout?.offset ?? end, stderr?.offset ?? end);
  }
}

/** Whether the bytes can be recovered from the text: the same number, and none replaced. */
function saysAll(text: string, bytes: Buffer): boolean {
  return isUtf8(bytes) && Buffer.byteLength(text) === bytes.length;
}

/** How many bytes at the end belong to an incomplete character. */
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
