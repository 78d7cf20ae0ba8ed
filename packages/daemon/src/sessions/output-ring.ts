/** The newest output within a budget, in reused memory: a flood creates no garbage. */
import type { OutputStream } from "@sandkasten/protocol";

const FIRST_CAPACITY_BYTES = 1024;
/** The cost of an additional switch between streams, besides the bytes; the first ones are free. */
const RUN_COST = 64;
const FREE_RUNS = 1024;

/** Most commands print nothing. */
const NOTHING = Buffer.alloc(0);

/** A run of consecutive bytes of one stream. */
interface Run {
  readonly stream: OutputStream;
  bytes: number;
}

export class OutputRing {
  readonly #budget: number;
  #ring: Buffer = NOTHING;
  #start = 0;
  #bytes = 0;
  #runs: Run[] = [];
  /** Runs at the front that were already dropped. */
  #gone = 0;

  constructor(budgetBytes: number) {
    this.#budget = budgetBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** How many of the bytes are of this stream. */
  bytesOf(stream: OutputStream): number {
    let bytes = 0;
    for (let at = this.#gone; at < this.#runs.length; at++) {
      const run = this.#runs[at];
      if (run?.stream === stream) bytes += run.bytes;
    }
    return bytes;
  }

  /** The cost of the bytes and of the stream runs. */
  get cost(): number {
    return this.#bytes + Math.max(0, this.#runs.length - this.#gone - FREE_RUNS) * RUN_COST;
  }

  /** How much fits before the oldest output is dropped. */
  get room(): number {
    return Math.max(0, this.#budget - this.cost);
  }

  /** Copies the bytes; drops the oldest to make room. */
  add(stream: OutputStream, bytes: Uint8Array): void {
    const kept = bytes.subarray(Math.max(0, bytes.length - this.#budget));
    if (kept.length === 0) return;
    this.#dropFirst(this.#bytes + kept.length - this.#budget);
    this.#write(kept);
    const last = this.#runs.length > this.#gone ? this.#runs.at(-1) : undefined;
    if (last?.stream === stream) last.bytes += kept.length;
    else this.#runs.push({ stream, bytes: kept.length });
    while (this.cost > this.#budget) this.#dropFirst(this.cost - this.#budget);
  }

  /** The kept output, of one stream or of both in order. */
  of(stream: OutputStream | undefined): Buffer {
    const bytes = stream === undefined ? this.#bytes : this.bytesOf(stream);
    if (bytes === 0) return NOTHING;
    const all = Buffer.allocUnsafe(this.#bytes);
    this.#copyTo(all);
    if (bytes === this.#bytes) return all;
    let at = 0;
    const own: Buffer[] = [];
    for (const run of this.#runs.slice(this.#gone)) {
      if (run.stream === stream) own.push(all.subarray(at, at + run.bytes));
      at += run.bytes;
    }
    return Buffer.concat(own);
  }

  #write(bytes: Uint8Array): void {
    this.#reserve(this.#bytes + bytes.length);
    const at = (this.#start + this.#bytes) % this.#ring.length;
    const first = Math.min(bytes.length, this.#ring.length - at);
    this.#ring.set(bytes.subarray(0, first), at);
    this.#ring.set(bytes.subarray(first), 0);
    this.#bytes += bytes.length;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#ring.length) return;
    const capacity = Math.max(bytes, FIRST_CAPACITY_BYTES, 2 * this.#ring.length);
    const larger = Buffer.allocUnsafeSlow(Math.min(this.#budget, capacity));
    this.#copyTo(larger);
    this.#ring = larger;
    this.#start = 0;
  }

  #copyTo(target: Buffer): void {
    const toEnd = this.#ring.copy(target, 0, this.#start, this.#start + this.#bytes);
    this.#ring.copy(target, toEnd, 0, this.#bytes - toEnd);
  }

  #dropFirst(bytes: number): void {
    let left = Math.min(bytes, this.#bytes);
    if (left <= 0) return;
    this.#start = (this.#start + left) % this.#ring.length;
    this.#bytes -= left;
    while (left > 0) {
      const first = this.#runs[this.#gone];
      if (first === undefined) return;
      const dropped = Math.min(left, first.bytes);
      first.bytes -= dropped;
      left -= dropped;
      if (first.bytes === 0) this.#gone += 1;
    }
    if (this.#gone > FREE_RUNS && this.#gone > this.#runs.length / 2) {
      this.#runs = this.#runs.slice(this.#gone);
      this.#gone = 0;
    }
  }
}
