/** Files that outlive sandboxes, by name: input and output of runs. */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { ToolError } from "./tool-error.ts";

/** A store of files. Names are relative paths with `/`. */
export interface FileStore {
  /** The content of a file; undefined if there is no file with this name. */
  get(name: string): Promise<Uint8Array | undefined>;
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** The names of all files, if the store can list them. */
  list?(): Promise<readonly string[]>;
}

/** Files below one directory. Names cannot lead out of it. */
export class DirectoryFileStore implements FileStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = resolve(directory);
  }

  async get(name: string): Promise<Uint8Array | undefined> {
    const path = this.#pathOf(name);
    try {
      await this.#requireInside(path);
      // SECURITY: opening a FIFO would block forever. Guarded by file-store.test.ts.
      if (!(await stat(path)).isFile()) throw notAFile(name);
      return await readFile(path);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw ofName(error, name);
    }
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    const path = this.#pathOf(name);
    // Concurrent readers see the old content or the new.
    const temporary = join(dirname(path), `.${randomUUID()}.part`);
    try {
      await this.#makeDirectories(dirname(path));
      await writeFile(temporary, bytes, { flag: "wx" });
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw ofName(error, name);
    }
  }

  async list(): Promise<readonly string[]> {
    const entries = await readdir(this.#directory, {
      recursive: true,
      withFileTypes: true,
    }).catch((error: unknown) => {
      if (codeOf(error) === "ENOENT") return [];
      throw unusable(error);
    });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(this.#directory, join(entry.parentPath, entry.name)))
      .toSorted();
  }

  /** SECURITY: a model chooses the name; no `..` leads out. Guarded by file-store.test.ts. */
  #pathOf(name: string): string {
    const parts = name.split("/");
    const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
    if (!isPlain || name.includes("\0") || isAbsolute(name))
      throw new ToolError(
        "INVALID_INPUT",
        `The file store takes names such as data/input.csv, not ${JSON.stringify(name.slice(0, 256))}.`,
      );
    return join(this.#directory, name);
  }

  /**
   * SECURITY: one after the other, so that none is created behind a link. Guarded by
   * file-store.test.ts.
   */
  async #makeDirectories(path: string): Promise<void> {
    let current = this.#directory;
    await mkdir(current, { recursive: true });
    for (const name of relative(this.#directory, path).split("/")) {
      current = join(current, name);
      await this.#requireInside(current).catch(async (error: unknown) => {
        if (!isMissing(error)) throw error;
        await mkdir(current, { recursive: true });
      });
    }
  }

  /** SECURITY: no link below the directory leads out of it. Guarded by file-store.test.ts. */
  async #requireInside(path: string): Promise<void> {
    const [root, real] = await Promise.all([realpath(this.#directory), realpath(path)]);
    if (real === root || real.startsWith(`${root}/`)) return;
    throw new ToolError("REFUSED", "This name leads out of the file store.");
  }
}

function notAFile(name: string): ToolError {
  return new ToolError(
    "NOT_A_FILE",
    `${JSON.stringify(name.slice(0, 256))} cannot be the name of a file in the file store: a directory or special file has that name. Use another name.`,
  );
}

/** The file system's objection to the name itself, in words that a model can act on. */
function ofName(error: unknown, name: string): unknown {
  switch (codeOf(error)) {
    case "EISDIR":
    case "ENOTDIR":
    case "EEXIST":
    case "ELOOP":
      return notAFile(name);
    case "ENAMETOOLONG":
      return new ToolError("INVALID_INPUT", "The name is too long for the file store.");
    default:
      return error instanceof ToolError ? error : unusable(error);
  }
}

/**
 * SECURITY: messages of the file system contain paths of this machine. Guarded by
 * file-store.test.ts.
 */
function unusable(cause: unknown): ToolError {
  return new ToolError("SANDBOX_FAILED", "The file store cannot be used at the moment.", { cause });
}

function isMissing(error: unknown): boolean {
  const code = codeOf(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
