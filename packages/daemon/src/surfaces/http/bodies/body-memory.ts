/** Limits the memory that JSON bodies with content take, until their requests have ended. */
import { SandboxError } from "@sandkasten/protocol";

const MAX_BYTES_PER_OWNER = 128 * 1024 * 1024;
const MAX_BYTES = 512 * 1024 * 1024;

/** The bytes of one request. */
export interface HeldBytes {
  /** Throws QUOTA_EXCEEDED if there is no room for this many more. */
  add(bytes: number): void;
  release(): void;
}

/**
 * SECURITY: a body is kept in memory until it is complete and handled, and its sender decides how long
 * that takes. A few thousand connections would take more memory than the machine has (threat: oversized
 * requests). Guarded by body-memory.test.ts and requests.test.ts.
 */
export class BodyMemory {
  readonly #byOwner = new Map<string, number>();
  #bytes = 0;

  hold(owner: string): HeldBytes {
    let held = 0;
    let isReleased = false;
    return {
      add: (bytes) => {
        if (isReleased) return;
        const own = (this.#byOwner.get(owner) ?? 0) + bytes;
        if (own > MAX_BYTES_PER_OWNER) throw tooMuch("your requests");
        if (this.#bytes + bytes > MAX_BYTES) throw tooMuch("all requests");
        this.#byOwner.set(owner, own);
        this.#bytes += bytes;
        held += bytes;
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

function tooMuch(whose: string): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `the JSON bodies of ${whose} in progress take too much memory; wait until some have ended, or upload large files as bytes`,
  );
}
