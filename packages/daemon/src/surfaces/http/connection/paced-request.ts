/** Limits what a body in tiny chunks costs in one turn of the event loop. */
import { IncomingMessage } from "node:http";

/** More than one turn brings of chunks of a usual size. */
const CHUNKS_PER_TURN = 64;

/**
 * Passes on the first chunks of a turn as they come, and the others together in the next one; the
 * connection is not read until then. Node itself stops reading when enough bytes wait, however many
 * chunks they came in.
 *
 * SECURITY: all that waits in a socket is read in one turn of the event loop; a task for each of
 * hundreds of thousands of chunks would stall other clients (threat: oversized requests). Guarded by
 * stalls.test.ts.
 */
export class PacedRequest extends IncomingMessage {
  #chunks = 0;
  #held: Uint8Array[] = [];

  override push(chunk: Uint8Array | null): boolean {
    if (chunk === null) {
      this.#passOn();
      return super.push(null);
    }
    this.#chunks += 1;
    if (this.#chunks === 1) setImmediate(() => this.#startTurn());
    if (this.#chunks <= CHUNKS_PER_TURN) return super.push(chunk);
    this.#held.push(chunk);
    return false;
  }

  override _read(size: number): void {
    // What is held answers this read.
    if (this.#held.length === 0) super._read(size);
  }

  #startTurn(): void {
    this.#chunks = 0;
    this.#passOn();
  }

  #passOn(): void {
    if (this.#held.length > 0) super.push(Buffer.concat(this.#held.splice(0)));
  }
}
