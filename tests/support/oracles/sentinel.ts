/** Oracle S: a file of the host stays unchanged, and its text never leaves a sandbox. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ran, TestSandbox } from "../sandbox-machine.ts";

export class Sentinel implements AsyncDisposable {
  /** Its directory on the host, outside any data directory. */
  readonly directory: string;
  readonly path: string;
  /** What no output may contain. */
  readonly secret: string;
  readonly #state: string;

  private constructor(directory: string, path: string, secret: string, state: string) {
    this.directory = directory;
    this.path = path;
    this.secret = secret;
    this.#state = state;
  }

  static async plant(): Promise<Sentinel> {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-sentinel-"));
    const path = join(directory, "sentinel");
    const secret = `sentinel-${randomBytes(16).toString("hex")}`;
    // Readable for all: only the sandbox's isolation protects it.
    await writeFile(path, `${secret}\n`, { mode: 0o644 });
    return new Sentinel(directory, path, secret, await stateOf(directory, path));
  }

  /** Fails if the bytes contain the secret. */
  expectNotIn(what: string, bytes: string | Uint8Array): void {
    const text = typeof bytes === "string" ? bytes : Buffer.from(bytes).toString("latin1");
    if (text.includes(this.secret))
      throw new Error(`The text of the host's sentinel file came out of ${what}.`);
  }

  async expectUnchanged(): Promise<void> {
    const state = await stateOf(this.directory, this.path);
    if (state !== this.#state)
      throw new Error(`The host's sentinel file has changed:\n  ${this.#state}\n  ${state}`);
  }

  /** The same sandbox, with a check on all output of its commands. */
  watchOver(sandbox: TestSandbox): TestSandbox {
    const checked = async (what: string, running: Promise<Ran>): Promise<Ran> => {
      const ran = await running;
      this.expectNotIn(what, ran.output);
      return ran;
    };
    return {
      ...sandbox,
      sh: (text, options) => checked(String(text).slice(0, 200), sandbox.sh(text, options)),
      run: (argv, options) => checked(argv.join(" ").slice(0, 200), sandbox.run(argv, options)),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Reading changes none of this; writing, replacing, or adding files next to it does. */
async function stateOf(directory: string, path: string): Promise<string> {
  const facts = await Promise.all(
    [directory, path].map(async (at) => {
      const { ino, mode, uid, gid, nlink, size, mtimeMs, ctimeMs } = await stat(at);
      return [at, ino, mode.toString(8), uid, gid, nlink, size, mtimeMs, ctimeMs].join(" ");
    }),
  );
  return [...facts, JSON.stringify(await readFile(path, "utf8"))].join(", ");
}
