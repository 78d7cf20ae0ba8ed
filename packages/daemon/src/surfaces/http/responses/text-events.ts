/** Events with long ASCII texts, encoded without making strings of them, in reused memory. */
import { MemoryPool } from "../../../memory-pool.ts";
import { escapeAscii, MAX_ESCAPED_BYTES } from "./escape-ascii.ts";

/** Bytes of text that always fit, and room for the rest of 256 events. */
const TEXT_BYTES = 131_072;
const ROOM_PER_EVENT = 256;
const MEMORY = new MemoryPool(MAX_ESCAPED_BYTES * TEXT_BYTES + 256 * ROOM_PER_EVENT);

export interface TextEvent {
  readonly event: string;
  readonly id: string;
  /** The name of the field with the text; it comes first. */
  readonly field: string;
  readonly text: Uint8Array;
  /** The other fields, at least one. */
  readonly rest: Readonly<Record<string, string | number>>;
}

export class TextEvents {
  readonly #memory = MEMORY.take();
  readonly #encoded: Buffer[] = [];
  #end = 0;

  /** Each event by itself; valid until `release`. */
  get encoded(): readonly Buffer[] {
    return this.#encoded;
  }

  /** Copies the text. False if there is no room left. */
  add({ event, id, field, text, rest }: TextEvent): boolean {
    const memory = this.#memory;
    const start = this.#end;
    const needed = MAX_ESCAPED_BYTES * text.length + ROOM_PER_EVENT;
    if (start + needed > memory.length) return false;
    let end = start + memory.write(`event: ${event}\nid: ${id}\ndata: {"${field}":"`, start);
    end = escapeAscii(text, memory, end);
    end += memory.write(`",${JSON.stringify(rest).slice(1)}\n\n`, end);
    this.#encoded.push(memory.subarray(start, end));
    this.#end = end;
    return true;
  }

  /** Call it once they are sent; never after a failure, which may leave the memory in use. */
  release(): void {
    MEMORY.giveBack(this.#memory);
  }
}
