/** Events with long ASCII texts, encoded without making strings of them, in reused memory. */
import { escapeAscii } from "./escape-ascii.ts";

/** Text of a page of output, if up to half of it are line ends or quotes. */
const MEMORY_BYTES = 192 * 1024;
/** Go's bufio.Scanner and Python's asyncio refuse lines of 64 KiB. */
const MAX_LINE_BYTES = 64 * 1024 - 1;

/** All of it is ASCII. */
export interface TextEvent {
  readonly event: string;
  readonly id: string;
  /** The name of the field with the text; it comes first. */
  readonly field: string;
  /** Not empty. */
  readonly text: Uint8Array;
  /** The other fields, at least one. */
  readonly rest: Readonly<Record<string, string | number>>;
}

/**
 * SECURITY: one for each stream, never passed on, and its memory starts as zeros (threat: reaching
 * another tenant). Guarded by text-events.test.ts and exec-floods.test.ts.
 */
export class TextEvents {
  #memory: Buffer | undefined;
  readonly #encoded: Buffer[] = [];
  #end = 0;

  /** Each event by itself; valid until `clear`. */
  get encoded(): readonly Buffer[] {
    return this.#encoded;
  }

  /** Whether it has had an event, and so has its memory. */
  get begun(): boolean {
    return this.#memory !== undefined;
  }

  /** Copies the text. False if there is no room left, or the line would be too long. */
  add({ event, id, field, text, rest }: TextEvent): boolean {
    const memory = (this.#memory ??= Buffer.alloc(MEMORY_BYTES));
    const head = `event: ${event}\nid: ${id}\ndata: {"${field}":"`;
    const foot = `",${JSON.stringify(rest).slice(1)}\n\n`;
    const start = this.#end;
    const textStart = start + head.length;
    const room = Math.min(memory.length, start + MAX_LINE_BYTES);
    const limit = room - foot.length;
    const textEnd = escapeAscii(text, memory, textStart, limit);
    if (textEnd === undefined) return false;
    memory.write(head, start, "latin1");
    const end = textEnd + memory.write(foot, textEnd, "latin1");
    this.#encoded.push(memory.subarray(start, end));
    this.#end = end;
    return true;
  }

  /** Call it once they are sent; never after a failure, which may leave the memory in use. */
  clear(): void {
    this.#encoded.length = 0;
    this.#end = 0;
  }
}
