/**
 * Runs a configuration in a real container for tests, with only crun or runc: the sandbox's policy
 * without launcher and runner. The prober replaces the runner, and the machine's `/usr` is the
 * image.
 */
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants, readFileSync } from "node:fs";
import { chmod, chown, cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { buildOciConfig, type OciConfigOptions } from "../build-oci-config.ts";
import { PLACEHOLDERS } from "../mounts.ts";
import type { OciConfig } from "../oci-spec.ts";

const execFileAsync = promisify(execFile);

/** The first host id of the sandbox. */
export const HOST_ID_BASE = 1_000_000;
const CODE_UID = 1000;

const PROBE_SOURCE = join(import.meta.dirname, "../../../container/seccomp/testdata/probe.c");
const UNIFIED = "/sys/fs/cgroup/unified";

export type Runtime = "crun" | "runc";

export interface ContainerEnd {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Why containers cannot be tested here; undefined if they can. */
export function whyNoContainers(runtime: Runtime): string | undefined {
  if (process.platform !== "linux") return "containers need Linux";
  if (process.getuid?.() !== 0) return "making id mappings needs root";
  for (const program of [runtime, "cc", "unshare"]) {
    if (!isOnPath(program)) return `${program} is not installed`;
  }
  return undefined;
}

/** A root file system, disk and prober in a temporary directory; call `remove()` at the end. */
export class TestBundle {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async create(): Promise<TestBundle> {
    const bundle = new TestBundle(await mkdtemp(join(tmpdir(), "sandkasten-policy-")));
    try {
      await bundle.#fill();
    } catch (error) {
      await bundle.remove();
      throw error;
    }
    return bundle;
  }

  async remove(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** The policy for these options, completed as the launcher does it. */
  config(options: Partial<OciConfigOptions> = {}): OciConfig {
    const config = buildOciConfig({
      profile: "restricted",
      memoryBytes: 512 * 1024 * 1024,
      imageEnv: {},
      env: {},
      binds: [{ from: "/usr", to: "/usr" }],
      architecture: process.arch,
      cgroupNamespace: false,
      transport: "socket",
      maxOpenFiles: 4096,
      ...options,
    });
    const sources: Readonly<Record<string, string>> = {
      [PLACEHOLDERS.workspace]: join(this.#directory, "disk/workspace"),
      [PLACEHOLDERS.home]: join(this.#directory, "disk/home"),
      [PLACEHOLDERS.varTmp]: join(this.#directory, "disk/tmp"),
      [PLACEHOLDERS.devices]: join(this.#directory, "dev"),
      [PLACEHOLDERS.runner]: join(this.#directory, "probe"),
    };
    const mapping = [{ containerID: 0, hostID: HOST_ID_BASE, size: 65_536 }];
    const linux = { ...config.linux, uidMappings: mapping, gidMappings: mapping };
    return {
      ...config,
      root: { ...config.root, path: join(this.#directory, "rootfs") },
      mounts: config.mounts.map((mount) => ({
        ...mount,
        source: sources[mount.source] ?? mount.source,
      })),
      linux,
    };
  }

  /** Runs the prober with these arguments as PID 1 of a new container, to its end. */
  async run(
    runtime: Runtime,
    config: OciConfig,
    probeArguments: readonly string[],
  ): Promise<ContainerEnd> {
    const id = `sandkasten-policy-${randomBytes(6).toString("hex")}`;
    const work = await mkdtemp(join(this.#directory, "run-"));
    const { args } = config.process;
    const complete = {
      ...config,
      process: { ...config.process, args: [args[0], ...probeArguments] },
    };
    await writeFile(join(work, "config.json"), JSON.stringify(complete));
    const call = [
      runtime,
      "--root",
      join(work, "state"),
      ...(runtime === "crun" ? ["--cgroup-manager=disabled"] : []),
    ];
    try {
      return await runToEnd([...call, "run", "--bundle", work, id]);
    } finally {
      // Already gone unless the run failed half-way; then the exit status does not matter.
      await runToEnd([...call, "delete", "--force", id]);
      await rm(work, { recursive: true, force: true });
    }
  }

  async #fill(): Promise<void> {
    const inside = (path: string): string => join(this.#directory, path);
    // The user namespace's root must be able to traverse this.
    await chmod(this.#directory, 0o755);
    await execFileAsync("cc", [
      "-Wall",
      "-Werror",
      "-O1",
      "-static",
      "-o",
      inside("probe"),
      PROBE_SOURCE,
    ]);
    for (const path of [
      "usr",
      "etc",
      "proc",
      "dev",
      "tmp",
      "run",
      "workspace",
      "home/sandbox",
      "root",
      "var/tmp",
    ]) {
      await mkdir(inside(`rootfs/${path}`), { recursive: true });
    }
    // runc gives a tmpfs the mode of the directory that it covers, whatever its options say.
    await chmod(inside("rootfs/tmp"), 0o1777);
    for (const path of ["bin", "sbin", "lib", "lib64"])
      await symlink(`usr/${path}`, inside(`rootfs/${path}`));
    await cp("/etc/alternatives", inside("rootfs/etc/alternatives"), {
      recursive: true,
      verbatimSymlinks: true,
    });
    await writeFile(
      inside("rootfs/etc/passwd"),
      "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:1000::/home/sandbox:/bin/bash\n",
    );
    await writeFile(inside("rootfs/etc/group"), "root:x:0:\nsandbox:x:1000:\n");
    // A set-uid root program in the image.
    await cp("/usr/bin/id", inside("rootfs/setuid-id"));
    await chown(inside("rootfs/setuid-id"), HOST_ID_BASE, HOST_ID_BASE);
    await chmod(inside("rootfs/setuid-id"), 0o4755);
    await chown(inside("rootfs"), HOST_ID_BASE, HOST_ID_BASE);
    await makeDevices(inside("dev"));
    await mkdir(inside("disk/tmp"), { recursive: true });
    await chown(inside("disk/tmp"), HOST_ID_BASE, HOST_ID_BASE);
    await chmod(inside("disk/tmp"), 0o1777);
    for (const path of ["disk/workspace", "disk/home"]) {
      await mkdir(inside(path), { recursive: true });
      await chown(inside(path), HOST_ID_BASE + CODE_UID, HOST_ID_BASE + CODE_UID);
    }
  }
}

/** A /dev as the launcher creates it. */
async function makeDevices(directory: string): Promise<void> {
  for (const path of ["pts", "shm"]) await mkdir(join(directory, path), { recursive: true });
  await chmod(join(directory, "shm"), 0o1777);
  for (const [name, major, minor] of [
    ["null", 1, 3],
    ["zero", 1, 5],
    ["full", 1, 7],
    ["random", 1, 8],
    ["urandom", 1, 9],
    ["tty", 5, 0],
  ] as const) {
    const path = join(directory, name);
    await execFileAsync("mknod", ["--mode=0666", path, "c", String(major), String(minor)]);
    await chown(path, HOST_ID_BASE, HOST_ID_BASE);
  }
  await symlink("pts/ptmx", join(directory, "ptmx"));
  await symlink("/proc/self/fd", join(directory, "fd"));
  await chown(directory, HOST_ID_BASE, HOST_ID_BASE);
}

/** crun treats a machine with v1 controllers and an empty unified mount as v2, unless the mount is hidden. */
function hidingUnifiedMount(argv: readonly string[]): string[] {
  const hybrid = readFileSync("/proc/self/mountinfo", "utf8").includes(` ${UNIFIED} `);
  if (!hybrid) return [...argv];
  return [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "sh",
    "-c",
    `umount ${UNIFIED} && exec "$@"`,
    "sh",
    ...argv,
  ];
}

function runToEnd(argv: readonly string[]): Promise<ContainerEnd> {
  const [command, ...args] = hidingUnifiedMount(argv) as [string, ...string[]];
  return new Promise((resolve, reject) => {
    // SECURITY: never "ignore": crun passes its standard streams on, and with them the host's
    // /dev/null.
    const child = spawn(command, args, { stdio: "pipe" });
    child.stdin.end();
    const output = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
    child.once("error", reject);
    child.once("close", (exitCode) => resolve({ exitCode, ...output }));
  });
}

function isOnPath(program: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
