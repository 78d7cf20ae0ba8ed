/** What `npm run release` builds, for tests that install it. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";

export type Part = "npm" | "python" | "debian" | "image";

export interface Surroundings {
  readonly TZ?: string;
  readonly LANG?: string;
  readonly umask?: string;
}

export class ReleaseBuild implements AsyncDisposable {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /** @param where - Differences of the build environment. */
  static async create(part: Part, where: Surroundings = {}): Promise<ReleaseBuild> {
    const build = new ReleaseBuild(await mkdtemp(join(tmpdir(), "sandkasten-release-test-")));
    try {
      await build.#run(part, where);
      return build;
    } catch (error) {
      await build[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The file with that name, in which `*` may replace the version. */
  async file(pattern: string): Promise<string> {
    const expression = new RegExp(`^${pattern.replaceAll(".", "\\.").replace("*", "\\d[\\d.]*")}$`);
    const name = (await readdir(this.directory)).find((one) => expression.test(one));
    if (name === undefined) throw new Error(`the release has no ${pattern}`);
    return join(this.directory, name);
  }

  async #run(part: Part, { umask = "022", ...env }: Surroundings): Promise<void> {
    const options = ["--only", part, "--out", this.directory];
    if (part === "image") options.push("--base", await imageBase());
    const script = join(ROOT, "scripts/release/release.ts");
    const command = ["-c", `umask ${umask}; exec "$@"`, "release", process.execPath, script];
    await run("bash", [...command, ...options], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      timeout: 10 * 60_000,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Any Debian with the libraries that Node needs will do. */
async function imageBase(): Promise<string> {
  const base = await debianRootfs(CACHE_DIR, ["libstdc++6", "ca-certificates"]);
  if (base === undefined) throw new Error(`no Debian root can be kept in ${CACHE_DIR}`);
  return base;
}
