/** Buffers received payloads until they are requested, in reused memory. */

const LENGTH_BYTES = 4;
const FIRST_CAPACITY_BYTES = 1_024;
/** Memory beyond this is freed when the queue is empty; a reader that keeps up never needs it. */
const MAX_KEPT_BYTES = 1_048_576;
const NONE = Buffer.alloc(0);

/**
 * A first-in first-out queue of payloads: a ring of records, each a length and the bytes. It grows
 * up to its stream's credit and allocates nothing after that, however much passes through.
 *
 * SECURITY: credit bounds the bytes of a stream, not the number of its frames. A hostile runner that
 * sends one byte per frame would cost hundreds of bytes per frame if each were an object; here the
 * overhead is four bytes. Guarded by "a window of one-byte frames" in payload-queue.test.ts.
 */
export class PayloadQueue {
  #ring: Buffer = NONE;
  /** Where the oldest record begins; it may be the one returned last. */
  #start = 0;
  /** Where the next record to return begins. */
  #read = 0;
  /** Where the next record goes. */
  #write = 0;
  /** While the newest records lie before the oldest: where the oldest end. */
  #wrapAt: number | undefined;
  /** Records not yet returned. */
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

  /** Removes and returns the oldest payload; undefined if there is none. Valid until the next call. */
  shift(): Buffer | undefined {
    if (this.#waiting === 0) {
      // Restart at the beginning, which is likely still in the CPU cache.
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

  /** Discards all payloads. The one returned last stays valid. */
  clear(): void {
    this.#waiting = 0;
    this.#restartWith(NONE);
  }

  #restartWith(ring: Buffer): void {
    this.#ring = ring;
    this.#start = this.#read = this.#write = 0;
    this.#wrapAt = undefined;
  }

  /** Where a record of this many bytes fits contiguously. */
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

  /**
   * Moves waiting records to a larger buffer with room for this many bytes. The payload returned
   * last stays where it is.
   */
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
