/** Creates an image from a session's root file system. */
import { SandboxError } from "@sandkasten/protocol";
import type { ImageInfo, Images } from "../ports/image-store.ts";
import type { Caller } from "./services/caller.ts";
import type { CommitOptions, CommitService } from "./services/commit-service.ts";
import type { SessionView } from "./services/session-service.ts";
import type { Sessions } from "./sessions.ts";

export interface CommitsParts {
  readonly sessions: Sessions;
  readonly imagesOf: (caller: Caller, backend: string) => Images;
}

/** What a sandbox mounts over its image, which is not part of it: as .gitignore patterns. */
const NOT_OF_THE_IMAGE = [
  "/dev",
  "/proc",
  "/sys",
  "/run",
  "/tmp",
  "/var/tmp",
  "/workspace",
  "/home/sandbox",
  "/.sandkasten",
];

export class Commits implements CommitService {
  readonly #parts: CommitsParts;
  /** Owners with a commit in progress. */
  readonly #busy = new Set<string>();

  constructor(parts: CommitsParts) {
    this.#parts = parts;
  }

  async commit(caller: Caller, sessionId: string, options: CommitOptions): Promise<ImageInfo> {
    const session = await this.#parts.sessions.get(caller, sessionId);
    requireOwnRoot(session);
    const images = this.#parts.imagesOf(caller, session.backend);
    using _turn = this.#turn(caller.owner);
    const env = await environmentOf(images, session);
    const content = this.#pack(caller, session, options.maxBytes);
    return await options.withArchive(content, async (archive) => {
      // A daemon that was replaced meanwhile must not move the name back to an older state.
      const check = (): Promise<void> =>
        this.#parts.sessions.finder.requireServed(caller, sessionId);
      await check();
      return await images.importRootfs(options.reference, archive, undefined, env, {
        sessionId,
        check,
      });
    });
  }

  /**
   * SECURITY: the tree is hostile, and so are the runner's claims about it. The runner packs it
   * inside the sandbox, so no path of the host is followed; the archive is cut off at the caller's
   * quota, and is then treated like any uploaded archive (threat: hostile archives and images;
   * filling a disk). Guarded by commits.test.ts and tests/e2e/commit.test.ts.
   */
  async *#pack(
    caller: Caller,
    session: SessionView,
    maxBytes: number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    using access = await this.#parts.sessions.enter(caller, session.id);
    const mounted = session.workspaces.map(({ path }) => asPattern(path));
    const { body } = await access.channel.createTar("/", {
      exclude: [...NOT_OF_THE_IMAGE, ...mounted],
    });
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  }

  /**
   * SECURITY: an upload in progress does not count against a quota yet (threat: filling a disk).
   * Guarded by commits.test.ts.
   */
  #turn(owner: string): Disposable {
    if (this.#busy.has(owner))
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        "A key can commit only one session at a time; try again when the other commit is done.",
      );
    this.#busy.add(owner);
    return { [Symbol.dispose]: () => void this.#busy.delete(owner) };
  }
}

function requireOwnRoot({ id, image, profile }: SessionView): void {
  if (image === "host")
    throw new SandboxError(
      "UNSUPPORTED",
      `The session ${id} uses the image host, which is this machine itself. Create it from another image to commit it.`,
    );
  // Code that is not root cannot change its root file system, and its runner cannot read all of it.
  if (profile !== "root")
    throw new SandboxError(
      "UNSUPPORTED",
      `The session ${id} has a read-only root, so there is nothing to commit. Create it with the profile root.`,
    );
}

/** Escapes a path so a pattern matches it literally. */
function asPattern(path: string): string {
  return path.replace(/[\\*?[\]!#]/g, "\\$&");
}

/** Variables of the session's image, if its name still refers to the same content. */
async function environmentOf(
  images: Images,
  { image, imageDigest }: SessionView,
): Promise<Readonly<Record<string, string>>> {
  try {
    const { digest, env } = await images.inspect(image);
    return digest === imageDigest ? env : {};
  } catch (error) {
    if (error instanceof SandboxError && error.code === "INVALID_IMAGE") return {};
    throw error;
  }
}

function tooLarge(maxBytes: number): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `The session's root is larger than the ${maxBytes} bytes that one image of this key may have.`,
    { details: { max_image_bytes: maxBytes } },
  );
}
