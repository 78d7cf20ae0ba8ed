/** Keeps received payloads until they are asked for, in memory that is used over and over. */

const LENGTH_BYTES = 4;
const FIRST_CAPACITY_BYTES = 1_024;
/** Memory beyond this is given back when the queue is empty; a reader that keeps up never needs it. */
const MAX_KEPT_BYTES = 1_048_576;
const NONE = Buffer.alloc(0);

/**
 * A first-in first-out queue of payloads: a ring of records, each a length and the bytes. It grows
 * to what its stream's credit allows and makes no garbage from then on, however much passes.
 *
 * SECURITY: credit bounds the bytes of a stream, not the number of its frames. A hostile runner that
 * sends one byte per frame would cost hundreds of bytes if each were an object; here it costs four
 * bytes more than it is long. Guarded by "a window of one-byte frames" in payload-queue.test.ts.
 */
export class PayloadQueue {
  #ring: Buffer = NONE;
  /** Where the oldest record begins; it may be the one that was handed out last. */
  #start = 0;
  /** Where the next record to hand out begins. */
  #read = 0;
  /** Where the next record goes. */
  #write = 0;
  /** While the newest records lie before the oldest: where the oldest end. */
  #wrapAt: number | undefined;
  /** Records not handed out yet. */
  #waiting = 0;

  /** Bytes of memory held. */
  get heldBytes(): number {
    return this.#ring.byteLength;
  }

  get empty(): boolean {
    return this.#waiting === 0;
  }

  /** Copies a payload in. */
  push(payload: Buffer): void {
    const at = this.#placeFor(LENGTH_BYTES + payload.byteLength);
    this.#ring.writeUInt32LE(payload.byteLength, at);
    payload.copy(this.#ring, at + LENGTH_BYTES);
    this.#write = at + LENGTH_BYTES + payload.byteLength;
    this.#waiting++;
  }

  /** The oldest payload, removed; undefined when there is none. It is valid until the next call. */
  shift(): Buffer | undefined {
    if (this.#waiting === 0) {
      // The next record goes to the beginning, which is likely to be in a cache still.
      this.#restartWith(this.#ring.byteLength > MAX_KEPT_BYTES ? NONE : this.#ring);
      return undefined;
    }
    if (this.#read === this.#wrapAt) {
      this.#read = 0;
      this.#wrapAt = undefined;
    }
    this.#start = this.#read;
    const from = this.#read + LENGTH_BYTES;
    this.#read = from + this.#ring.readUInt32LE(this.#start);
    this.#waiting--;
    return this.#ring.subarray(from, this.#read);
  }

  /** Forgets all payloads. The one that was handed out last stays valid. */
  clear(): void {
    this.#waiting = 0;
    this.#restartWith(NONE);
  }

  #restartWith(ring: Buffer): void {
    this.#ring = ring;
    this.#start = this.#read = this.#write = 0;
    this.#wrapAt = undefined;
  }

  /** Where a record of so many bytes fits in one piece. */
  #placeFor(bytes: number): number {
    if (this.#wrapAt === undefined) {
      if (this.#write + bytes <= this.#ring.byteLength) return this.#write;
      if (bytes < this.#start) {
        this.#wrapAt = this.#write;
        return 0;
      }
    } else if (this.#write + bytes < this.#start) return this.#write;
    this.#grow(bytes);
    return this.#write;
  }

  /** Moves what waits to larger memory with room for so many bytes. The payload that was handed out last stays where it is. */
  #grow(bytes: number): void {
    const { byteLength } = this.#ring;
    const more = Math.min(MAX_KEPT_BYTES, Math.max(FIRST_CAPACITY_BYTES, byteLength));
    const larger = Buffer.allocUnsafeSlow(byteLength + Math.max(more, bytes));
    let copied = this.#ring.copy(larger, 0, this.#read, this.#wrapAt ?? this.#write);
    if (this.#wrapAt !== undefined) copied += this.#ring.copy(larger, copied, 0, this.#write);
    this.#restartWith(larger);
    this.#write = copied;
  }
}
