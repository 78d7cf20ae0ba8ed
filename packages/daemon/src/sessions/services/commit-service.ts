/** How callers turn sessions into images. */
import type { ImageInfo } from "../../ports/image-store.ts";
import type { Caller } from "./caller.ts";

export interface CommitOptions {
  /** The name of the new image. */
  readonly reference: string;
  /** The maximum size of the session's root. */
  readonly maxBytes: number;
  /** Stores the archive of the root in a file while it is used, and removes it afterwards. */
  readonly withArchive: <T>(
    bytes: AsyncIterable<Uint8Array>,
    use: (path: string) => Promise<T>,
  ) => Promise<T>;
}

export interface CommitService {
  /**
   * Creates an image of the caller from a session's root. UNSUPPORTED if the root is read-only or
   * the machine's own.
   */
  commit(caller: Caller, sessionId: string, options: CommitOptions): Promise<ImageInfo>;
}
