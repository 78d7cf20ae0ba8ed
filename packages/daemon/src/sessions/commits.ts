/** Makes an image of what a session has become. */
import { SandboxError } from "@sandkasten/protocol";
import type { ImageInfo, Images } from "../ports/image-store.ts";
import type { Caller, CommitOptions, CommitService, SessionView } from "./services.ts";
import type { Sessions } from "./sessions.ts";

export interface CommitsParts {
  readonly sessions: Sessions;
  readonly imagesOf: (caller: Caller, backend: string) => Images;
}

/** What a sandbox mounts over its image, and so is none of the image: as the patterns of a .gitignore. */
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
  /** Owners with a commit under way. */
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
    return await options.withArchive(this.#pack(caller, session, options.maxBytes), (archive) =>
      images.importRootfs(options.reference, archive, undefined, env),
    );
  }

  /**
   * SECURITY: the tree is hostile, and so is what the runner says of it. The runner packs it inside the
   * sandbox, so that no path of the host is followed; what arrives is cut at the caller's quota, and
   * then goes the way of every archive that a client sends (threat: hostile archives and images;
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

  /** SECURITY: what is on its way counts for no quota yet (threat: filling a disk). Guarded by commits.test.ts. */
  #turn(owner: string): Disposable {
    if (this.#busy.has(owner))
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        "One key can commit one session at a time; try again when the other commit is done.",
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
  // Code that is not root cannot change its root, and its runner cannot read all of it.
  if (profile !== "root")
    throw new SandboxError(
      "UNSUPPORTED",
      `The session ${id} has a read-only root, so there is nothing to commit. Create it with the profile root.`,
    );
}

/** A path in a pattern means itself, whatever characters it has. */
function asPattern(path: string): string {
  return path.replace(/[\\*?[\]!#]/g, "\\$&");
}

/** Variables of the image that the session was made of, if that image is still the one of its name. */
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
