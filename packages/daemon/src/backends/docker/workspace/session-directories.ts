/** Directories for sessions' workspaces that the daemon creates itself. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, lstat, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandboxError } from "@sandkasten/protocol";
import { STANDARD_PATH } from "../../../find-program.ts";
import { makeDirectory } from "../../../make-directory.ts";
import { isId } from "../../container/sandbox-ids.ts";
import { exists } from "../../../exists.ts";
import { isFullDisk } from "../../../system-errors.ts";

const run = promisify(execFile);

/** A file that proves access to the same directory. */
export interface Token {
  /** The directory that contains it. */
  readonly directory: string;
  readonly file: string;
  readonly text: string;
}

export interface SessionDirectoriesOptions {
  readonly base: string;
  readonly instance: string;
  /** Refuse a base that other users of this machine can enter. */
  readonly private: boolean;
}

export class SessionDirectories {
  readonly #base: string;
  readonly #private: boolean;
  /** Has a file for each session, written first and removed last: other daemons may use the same base. */
  readonly #marks: string;

  constructor(options: SessionDirectoriesOptions) {
    this.#base = options.base;
    this.#private = options.private;
    this.#marks = join(options.base, `.sandkasten-${options.instance}`);
  }

  async make(id: string): Promise<void> {
    await this.#prepare();
    try {
      await writeFile(join(this.#marks, id), "", { flag: "wx", mode: 0o600 });
      await mkdir(join(this.#base, id));
      // The user in the container is another one, whatever the umask of the daemon says.
      await chmod(join(this.#base, id), 0o755);
    } catch (cause) {
      if (isFullDisk(cause))
        throw new SandboxError("STORAGE_FULL", `no space left in ${this.#base}`, { cause });
      throw new SandboxError(
        "INTERNAL_ERROR",
        `cannot create the workspace ${join(this.#base, id)}: ${String(cause)}`,
        { cause },
      );
    }
  }

  /** Idempotent; removes everything, at any depth. */
  async remove(id: string): Promise<void> {
    if (!(await this.has(id))) return;
    // Paths of a deep tree exceed the kernel's path length limit; rm descends step by step.
    await run("rm", ["-rf", "--", join(this.#base, id)], { env: { PATH: STANDARD_PATH } });
    await rm(join(this.#marks, id), { force: true });
    if ((await this.list()).length === 0) await rm(this.#marks, { recursive: true, force: true });
  }

  async has(id: string): Promise<boolean> {
    return await exists(join(this.#marks, id));
  }

  /** Ids of sessions that have a directory, even a partly created one. */
  async list(): Promise<string[]> {
    const names = await readdir(this.#marks).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
      throw error;
    });
    return names.filter((name) => isId("sandbox", name));
  }

  /** Creates a token in a directory like a session's, while `look` looks for it. */
  async withToken<T>(look: (token: Token) => Promise<T>): Promise<T> {
    await this.#prepare();
    const text = randomBytes(16).toString("hex");
    const directory = `.sandkasten-probe-${text.slice(0, 8)}`;
    const path = join(this.#base, directory);
    try {
      await mkdir(path, { mode: 0o700 });
      await writeFile(join(path, "token"), text, { mode: 0o600 });
      return await look({ directory, file: "token", text });
    } finally {
      await rm(path, { recursive: true, force: true });
    }
  }

  /**
   * SECURITY: against touching the host's files: sandboxes write set-id files with ids of the
   * machine here, so no other user of the machine may enter; and a user with write access could
   * replace a session's directory with a link. Guarded by docker-strategies.test.ts.
   */
  async #prepare(): Promise<void> {
    await makeDirectory(this.#base, 0o700);
    const found = await lstat(this.#base);
    const forbidden = this.#private ? 0o077 : 0o022;
    if (!found.isDirectory() || found.uid !== process.geteuid?.() || (found.mode & forbidden) !== 0)
      throw new SandboxError(
        "UNSUPPORTED",
        `${this.#base} must belong to the daemon's user, and no other user may ${this.#private ? "enter" : "write to"} it (chmod ${this.#private ? "700" : "755"}); or configure another directory`,
      );
    await makeDirectory(this.#marks, 0o700);
  }
}
