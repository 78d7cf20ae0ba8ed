/** Builds the directory tree of one image without ever leaving it. */
import * as fs from "node:fs";
import { promisify } from "node:util";
import { ownTurn } from "../event-loop-turn.ts";
import { invalidImage } from "./image-failure.ts";
import { parentOf, shown } from "./image-path.ts";

export interface NodeAttributes {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
  readonly mtimeSeconds?: number;
}

export type NodeKind = "directory" | "file" | "symlink" | "other" | "missing";

const ROOT_DIRECTORY: NodeAttributes = { uid: 0, gid: 0, mode: 0o755 };
const MAX_ID = 65_535;
const LAST_SECOND = 253_402_300_799;
const INLINE_WRITE_BYTES = 128 * 1024;
const CREATE_NEW =
  fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_EXCL | fs.constants.O_NOFOLLOW;
const writeAsync = promisify(fs.write);

/**
 * All paths are clean paths (see image-path.ts) relative to the image's root.
 *
 * SECURITY: images are hostile (threats: linked mount points and hostile archives and images). The tree
 * starts empty inside a directory that only root can enter, so nothing else changes it while we work,
 * and checking before each step is free of races: every parent must be a real directory, symlinks are
 * never followed, files are only created, never reopened, and hard links point to files inside the
 * tree. Guarded by hostile-images.test.ts, each case with an untouched sentinel outside.
 *
 * The calls are synchronous where the kernel answers from memory: a round trip to the thread
 * pool costs ten times the call. Callers wait for their turn between entries, so that other work runs.
 */
export class ImageTree {
  readonly #root: string;
  readonly #onParent: () => void;
  readonly #realDirectories = new Set<string>();
  readonly #directoryTimes = new Map<string, number>();
  /** Without root, every file belongs to its creator, who is root in the sandboxes created from it. */
  readonly #keepsOwners = process.getuid?.() === 0;
  #fileBytes = 0;

  /**
   * `root` must be an existing directory that no other user can access. `onParent` is called before a
   * directory is created that only the path of another entry names, and may throw.
   */
  constructor(root: string, onParent: () => void = () => undefined) {
    this.#root = root;
    this.#onParent = onParent;
  }

  /** Bytes of all files written. */
  get fileBytes(): number {
    return this.#fileBytes;
  }

  /** What is at a path; also "missing" if a parent is not a real directory. */
  kind(path: string): NodeKind {
    return this.#parentsAreReal(path) ? this.#kindHere(path) : "missing";
  }

  /** Creates a directory, or sets the attributes of an existing one. Anything else there is replaced. */
  async makeDirectory(path: string, attributes: NodeAttributes): Promise<void> {
    checkOwner(path, attributes);
    if (path !== "") {
      this.#makeParents(path);
      const kind = this.#kindHere(path);
      if (kind !== "directory") {
        if (kind !== "missing") await this.remove(path);
        fs.mkdirSync(this.#absolute(path), 0o700);
      }
    }
    const absolute = this.#absolute(path);
    this.#own(absolute, attributes);
    // Safe although chmod follows links: the last step ensured that this is a directory.
    fs.chmodSync(absolute, attributes.mode & 0o1777);
    if (attributes.mtimeSeconds !== undefined)
      this.#directoryTimes.set(path, attributes.mtimeSeconds);
  }

  async writeFile(
    path: string,
    attributes: NodeAttributes,
    content: AsyncIterable<Buffer> | string,
  ): Promise<void> {
    checkOwner(path, attributes);
    await this.#makeRoom(path);
    const descriptor = fs.openSync(this.#absolute(path), CREATE_NEW, 0o600);
    try {
      for await (const chunk of typeof content === "string" ? [Buffer.from(content)] : content) {
        await this.#write(descriptor, chunk);
      }
      if (this.#keepsOwners) fs.fchownSync(descriptor, attributes.uid, attributes.gid);
      // SECURITY: set-id bits are dropped; no_new_privs makes them useless anyway (threats: gaining
      // privileges and hostile archives and images).
      fs.fchmodSync(descriptor, attributes.mode & 0o777);
      const seconds = clampTime(attributes.mtimeSeconds);
      if (seconds !== undefined) fs.futimesSync(descriptor, seconds, seconds);
    } finally {
      fs.closeSync(descriptor);
    }
  }

  async makeSymlink(path: string, target: string, attributes: NodeAttributes): Promise<void> {
    checkOwner(path, attributes);
    if (target === "" || target.includes("\0") || Buffer.byteLength(target) > 4095) {
      throw invalidImage(`The image's link ${shown(`/${path}`)} has an invalid target.`);
    }
    await this.#makeRoom(path);
    const absolute = this.#absolute(path);
    fs.symlinkSync(target, absolute);
    this.#own(absolute, attributes);
    const seconds = clampTime(attributes.mtimeSeconds);
    if (seconds !== undefined) fs.lutimesSync(absolute, seconds, seconds);
  }

  /** Adds a second name for a file (or a symlink itself) that is already in the tree. */
  async makeHardLink(path: string, target: string): Promise<void> {
    const kind = this.kind(target);
    if (kind !== "file" && kind !== "symlink") {
      throw invalidImage(
        `The image's hard link ${shown(`/${path}`)} points to ${shown(`/${target}`)}, which is not an earlier file.`,
      );
    }
    if (path === target) return;
    await this.#makeRoom(path);
    // link(2) does not follow a symlink at the end of the target.
    fs.linkSync(this.#absolute(target), this.#absolute(path));
  }

  /** Removes what is at a path, if anything. */
  async remove(path: string): Promise<void> {
    const kind = this.kind(path);
    if (kind === "missing") return;
    if (kind !== "directory") {
      fs.unlinkSync(this.#absolute(path));
      return;
    }
    this.#realDirectories.clear();
    await fs.promises.rm(this.#absolute(path), { recursive: true });
  }

  /** Names in a directory; empty if it is missing. */
  async list(path: string): Promise<string[]> {
    return this.kind(path) === "directory" ? await fs.promises.readdir(this.#absolute(path)) : [];
  }

  /** The start of a regular file, read without following links; undefined if there is none. */
  readText(path: string, maxBytes: number): string | undefined {
    if (this.kind(path) !== "file") return undefined;
    const descriptor = fs.openSync(
      this.#absolute(path),
      fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW,
    );
    try {
      const buffer = Buffer.alloc(maxBytes);
      return buffer.toString("utf8", 0, fs.readSync(descriptor, buffer, 0, maxBytes, 0));
    } finally {
      fs.closeSync(descriptor);
    }
  }

  /** The target of a symlink; undefined if there is no symlink. */
  readLink(path: string): string | undefined {
    return this.kind(path) === "symlink" ? fs.readlinkSync(this.#absolute(path)) : undefined;
  }

  /** Sets the times of directories, which change with every file created in them. */
  async applyDirectoryTimes(): Promise<void> {
    for (const [path, mtimeSeconds] of this.#directoryTimes) {
      await ownTurn();
      if (this.kind(path) !== "directory") continue;
      const seconds = clampTime(mtimeSeconds) ?? 0;
      fs.lutimesSync(this.#absolute(path), seconds, seconds);
    }
    this.#directoryTimes.clear();
  }

  #own(absolute: string, { uid, gid }: NodeAttributes): void {
    if (this.#keepsOwners) fs.lchownSync(absolute, uid, gid);
  }

  async #write(descriptor: number, chunk: Buffer): Promise<void> {
    for (let done = 0; done < chunk.length;) {
      const rest = chunk.length - done;
      done +=
        rest <= INLINE_WRITE_BYTES
          ? fs.writeSync(descriptor, chunk, done, rest)
          : (await writeAsync(descriptor, chunk, done, rest, null)).bytesWritten;
    }
    this.#fileBytes += chunk.length;
  }

  async #makeRoom(path: string): Promise<void> {
    if (path === "") throw invalidImage("The image's root is not a directory.");
    this.#makeParents(path);
    await this.remove(path);
  }

  #parentsAreReal(path: string): boolean {
    const parent = parentOf(path);
    if (parent === "" || this.#realDirectories.has(parent)) return true;
    if (!this.#parentsAreReal(parent) || this.#kindHere(parent) !== "directory") return false;
    this.#realDirectories.add(parent);
    return true;
  }

  #makeParents(path: string): void {
    const parent = parentOf(path);
    if (this.#parentsAreReal(path)) return;
    this.#makeParents(parent);
    const kind = this.#kindHere(parent);
    if (kind !== "missing") {
      throw invalidImage(
        `The image's entry ${shown(`/${path}`)} is below ${shown(`/${parent}`)}, which is not a directory (${kind}).`,
      );
    }
    this.#onParent();
    const absolute = this.#absolute(parent);
    fs.mkdirSync(absolute, 0o700);
    this.#own(absolute, ROOT_DIRECTORY);
    fs.chmodSync(absolute, ROOT_DIRECTORY.mode);
    this.#realDirectories.add(parent);
  }

  /** What is at a path whose parents are known to be real. */
  #kindHere(path: string): NodeKind {
    const stats = fs.lstatSync(this.#absolute(path), { throwIfNoEntry: false });
    if (stats === undefined) return "missing";
    if (stats.isDirectory()) return "directory";
    if (stats.isFile()) return "file";
    return stats.isSymbolicLink() ? "symlink" : "other";
  }

  #absolute(path: string): string {
    return path === "" ? this.#root : `${this.#root}/${path}`;
  }
}

/** A sandbox has 65,536 ids; a file with any other id would have no owner inside. */
function checkOwner(path: string, { uid, gid }: NodeAttributes): void {
  if (uid > MAX_ID || gid > MAX_ID) {
    throw invalidImage(
      `The image's ${shown(`/${path}`)} belongs to ${uid}:${gid}; ids above ${MAX_ID} cannot be used.`,
    );
  }
}

function clampTime(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.min(Math.max(seconds, 0), LAST_SECOND);
}
