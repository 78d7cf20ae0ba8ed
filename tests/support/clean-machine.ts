/**
 * A newly installed Debian, in separate namespaces: without compilers, Rust, a clone of the
 * project, or a network beyond loopback.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, realpath, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";

const run = promisify(execFile);
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";
/** What a daemon needs, what the guides use, and what a server has: Python and systemd. */
const PACKAGES = "crun e2fsprogs uidmap xz-utils curl python3 python3-pip python3-venv systemd";
const TIMEOUT_MS = 10 * 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * Bash that makes $root the root directory, with pivot_root instead of chroot, in which no sandbox
 * could be created.
 */
export const ENTER_ROOT = `
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
ip link set lo up
cd "$root"
pivot_root . mnt
umount --lazy /mnt
cd /root
`;

/** The environment of every program there. */
export const ENVIRONMENT =
  "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 NO_COLOR=1";

/** `refuse`, because bash does not end a script for a command that succeeds after `!`. */
export const PRELUDE = `
refuse() {
  if "$@" >/dev/null 2>&1; then echo "this should have failed: $*" >&2; exit 1; fi
}
`;

/** What a program that runs a script prints. */
export async function runScript(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, args, {
      timeout: TIMEOUT_MS,
      maxBuffer: MAX_OUTPUT_BYTES,
    });
    return stdout;
  } catch (cause) {
    const { stdout, stderr } = Object(cause) as Record<"stdout" | "stderr", string>;
    throw new Error(`the script failed:\n${stdout}\n${stderr}`, { cause });
  }
}

export interface RunOptions {
  /** Variables, whose values have no spaces. */
  readonly env?: Readonly<Record<string, string>>;
  /** The tests' loopback instead of its own. */
  readonly sharesLoopback?: boolean;
}

export class CleanMachine implements AsyncDisposable {
  /** Its root directory on the machine that runs the tests. */
  readonly root: string;
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.root = join(directory, "root");
  }

  static async create(): Promise<CleanMachine> {
    const tarball = await debianRootfs(CACHE_DIR, PACKAGES.split(" "));
    if (tarball === undefined)
      throw new Error(`no Debian root can be kept in ${CACHE_DIR}; set SANDKASTEN_TEST_CACHE`);
    // Not in /tmp, which may be a tmpfs: sandboxes have disks.
    const machine = new CleanMachine(await mkdtemp(join(CACHE_DIR, "machine-")));
    try {
      await mkdir(machine.root);
      const args = ["--extract", "--file", tarball, "--directory", machine.root];
      await run("tar", [...args, "--exclude=./dev/*"]);
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Copies a file or a directory there. */
  async copy(from: string, to: string): Promise<void> {
    await cp(from, join(this.root, to), { recursive: true, dereference: true });
  }

  /** Installs the Node that runs the tests, and npm, as an archive from nodejs.org does. */
  async installNode(): Promise<void> {
    await this.copy(process.execPath, "usr/local/bin/node");
    const { stdout } = await run("bash", ["-c", "readlink -f $(command -v npm)"]);
    const npm = join(await realpath(stdout.trim()), "../..");
    await this.copy(npm, "usr/local/lib/node_modules/npm");
    const program = join(this.root, "usr/local/bin/npm");
    await symlink("../lib/node_modules/npm/bin/npm-cli.js", program);
  }

  /** Runs a bash script as root, and ends everything it leaves running. */
  async run(
    script: string,
    { env = {}, sharesLoopback = false }: RunOptions = {},
  ): Promise<string> {
    const variables = Object.entries(env).map((pair) => pair.join("="));
    const enter = `
      set -e
      root=$1 script=$2
      ${ENTER_ROOT}
      exec env -i ${ENVIRONMENT} ${variables.join(" ")} bash -euo pipefail -c "$script"
    `;
    const namespaces = ["--mount", "--pid", "--ipc", "--uts", ...(sharesLoopback ? [] : ["--net"])];
    const args = [...namespaces, "--fork", "--kill-child", "bash", "-c", enter, "enter"];
    return await runScript("unshare", [...args, this.root, PRELUDE + script]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}
