/** Limits the memory that large bodies and responses take, until their requests have ended. */
import { SandboxError } from "@sandkasten/protocol";
import type { FastifyReply, FastifyRequest } from "fastify";
import { whenClosed } from "../responses/when-closed.ts";

const MAX_BYTES_PER_OWNER = 128 * 1024 * 1024;
const MAX_BYTES = 512 * 1024 * 1024;

/** The bytes of one request. */
export interface HeldBytes {
  /** Throws QUOTA_EXCEEDED if there is no room for this many more. */
  add(bytes: number): void;
  /** False if there is no room for this many more. */
  tryAdd(bytes: number): boolean;
  release(): void;
}

/**
 * SECURITY: a body is kept in memory until it is complete and handled, and a response as JSON until its
 * reader has taken it; clients decide how long that takes. A few hundred connections would take more
 * memory than the machine has (threats: oversized requests and slow clients). Guarded by
 * request-memory.test.ts and requests.test.ts.
 */
export class RequestMemory {
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  /** Released when the response has ended, or its client has gone. */
  holdFor({ caller }: FastifyRequest, reply: FastifyReply): HeldBytes {
    const held = this.hold(caller.owner);
    whenClosed(reply.raw, () => held.release());
    return held;
  }

  hold(owner: string): HeldBytes {
    let held = 0;
    let isReleased = false;
    const tryAdd = (bytes: number): boolean => {
      if (isReleased) return true;
      const own = (this.#byOwner.get(owner) ?? 0) + bytes;
      if (own > MAX_BYTES_PER_OWNER || this.#bytes + bytes > MAX_BYTES) return false;
      this.#byOwner.set(owner, own);
      this.#bytes += bytes;
      held += bytes;
      return true;
    };
    return {
      tryAdd,
      add: (bytes) => {
        if (!tryAdd(bytes)) throw memoryExceeded();
      },
      release: () => {
        isReleased = true;
        const left = (this.#byOwner.get(owner) ?? 0) - held;
        if (left > 0) this.#byOwner.set(owner, left);
        else this.#byOwner.delete(owner);
        this.#bytes -= held;
        held = 0;
      },
    };
  }
}

export function memoryExceeded(): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    "the large JSON bodies and responses in progress take too much memory; wait until some have ended, or transfer files as bytes",
  );
}
