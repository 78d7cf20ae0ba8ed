/** Ids of traces and spans, from random bytes generated for many ids at once. */
import { randomFillSync } from "node:crypto";
import type { IdGenerator } from "@opentelemetry/sdk-trace";

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;
const POOL_BYTES = 4096;

export class PooledIds implements IdGenerator {
  readonly #pool = Buffer.allocUnsafe(POOL_BYTES);
  #used = POOL_BYTES;

  generateTraceId(): string {
    return this.#next(TRACE_ID_BYTES);
  }

  generateSpanId(): string {
    return this.#next(SPAN_ID_BYTES);
  }

  /** An id of only zeros is invalid. */
  #next(bytes: number): string {
    for (;;) {
      if (this.#used + bytes > POOL_BYTES) {
        randomFillSync(this.#pool);
        this.#used = 0;
      }
      const id = this.#pool.toString("hex", this.#used, this.#used + bytes);
      this.#used += bytes;
      if (/[^0]/.test(id)) return id;
    }
  }
}
