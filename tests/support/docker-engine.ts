/** A private Docker engine: private directories, no network, removed afterwards. */
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { glob, mkdir, mkdtemp, readFile, rm, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { fillSmallRoot, packTree } from "./images.ts";
import type { SmallImage } from "./images.ts";

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const execute = promisify(execFile);

let engines = 0;

export interface DockerEngineOptions {
  /** Additional arguments for dockerd, such as `--userns-remap=…`. */
  readonly args?: readonly string[];
  readonly signal?: AbortSignal;
}

export interface EngineStart {
  /** Keeps earlier containers running; otherwise dockerd ends them. */
  readonly liveRestore?: boolean;
}

export class DockerEngine implements AsyncDisposable {
  /** Contains everything of the engine. */
  readonly directory: string;
  /** For `docker -H` and DOCKER_HOST. */
  readonly host: string;
  readonly #args: readonly string[];
  readonly #signal: AbortSignal | undefined;
  readonly #cgroupParent: string;
  #child: ChildProcess | undefined;

  private constructor(directory: string, options: DockerEngineOptions) {
    this.directory = directory;
    this.host = `unix://${join(directory, "docker.sock")}`;
    this.#args = options.args ?? [];
    this.#signal = options.signal;
    this.#cgroupParent = `sandkasten-docker-${process.pid}-${++engines}`;
  }

  /** Creates the directory, which must not exist, and starts dockerd below it, without any image. */
  static async start(directory: string, options: DockerEngineOptions = {}): Promise<DockerEngine> {
    // An engine that remaps users needs access to its data.
    await mkdir(directory, { mode: 0o711 });
    const engine = new DockerEngine(directory, options);
    try {
      await engine.startAgain();
      return engine;
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** dockerd's process id. */
  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("dockerd does not run");
    return pid;
  }

  /** Starts dockerd on the existing data, after `stop()`. */
  async startAgain({ liveRestore = false }: EngineStart = {}): Promise<void> {
    const options = {
      "--data-root": join(this.directory, "root"),
      "--exec-root": join(this.directory, "exec"),
      "--pidfile": join(this.directory, "pid"),
      "--host": this.host,
      "--cgroup-parent": this.#cgroupParent,
    };
    // A killed dockerd leaves these behind, and without a reaper the pids in them look alive.
    await rm(options["--pidfile"], { force: true });
    await rm(join(options["--exec-root"], "containerd/containerd.pid"), { force: true });
    const log = openSync(join(this.directory, "dockerd.log"), "a");
    const child = spawn(
      "setpriv",
      [
        // The engine ends with this process, however it ends.
        "--pdeathsig=TERM",
        "dockerd",
        ...Object.entries(options).flat(),
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        ...(liveRestore ? ["--live-restore"] : []),
        ...this.#args,
      ],
      { stdio: ["ignore", log, log], detached: true },
    );
    closeSync(log);
    this.#child = child;
    await once(child, "spawn");
    await this.#answers(child);
  }

  /** With SIGTERM dockerd ends its containers first, with SIGKILL it leaves them running. */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    const tooLong = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(tooLong);
    // The next dockerd would treat the dying containerd as alive and wait for it in vain.
    while ((await this.#processes()).some(({ name }) => name === "containerd")) await sleep(5);
  }

  command(...args: readonly string[]): string[] {
    return ["docker", "-H", this.host, ...args];
  }

  async docker(...args: readonly string[]): Promise<string> {
    const options = { maxBuffer: MAX_OUTPUT_BYTES };
    return (await execute("docker", ["-H", this.host, ...args], options)).stdout.trim();
  }

  /** Creates an image from a root file system, optionally with Dockerfile instructions (`ENV A=b`). */
  async importTarball(
    name: string,
    tarball: string,
    changes: readonly string[] = [],
  ): Promise<string> {
    const flags = changes.flatMap((change) => ["--change", change]);
    return await this.docker("import", ...flags, tarball, name);
  }

  async importTree(name: string, root: string, changes?: readonly string[]): Promise<string> {
    return await this.importTarball(name, await packTree(root), changes);
  }

  async importSmallImage(name: string, image: SmallImage): Promise<string> {
    const directory = await mkdtemp(join(this.directory, "image-"));
    try {
      const root = join(directory, "root");
      await fillSmallRoot(root, image);
      return await this.importTree(name, root);
    } finally {
      await rm(directory, { recursive: true });
    }
  }

  /** Containers and volumes that were not removed, a line each. */
  async leftovers(): Promise<string[]> {
    const containers = await this.docker(
      "ps",
      "-a",
      "--format",
      "container {{.Names}} {{.Status}}",
    );
    const volumes = await this.docker("volume", "ls", "--format", "volume {{.Name}}");
    return [...containers.split("\n"), ...volumes.split("\n")].filter((line) => line !== "");
  }

  /** @throws Error if a container or a volume is left. */
  async assertNothingLeft(): Promise<void> {
    const left = await this.leftovers();
    if (left.length > 0) throw new Error(`the Docker engine still has:\n${left.join("\n")}`);
  }

  /** Stops dockerd and its containers, and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child !== undefined) {
      const all = (await this.docker("ps", "-aq").catch(() => "")).split("\n").filter(Boolean);
      if (all.length > 0) await this.docker("rm", "-f", ...all);
      await this.stop();
    }
    await this.#endAll();
    await this.#unmountAll();
    // The engine leaves the parent of its containers' cgroups behind, in every hierarchy.
    for (const path of (await this.#cgroups()).sort().toReversed()) await rmdir(path);
    await rm(this.directory, { recursive: true, force: true });
  }

  async #answers(child: ChildProcess): Promise<void> {
    const deadlineMs = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      this.#signal?.throwIfAborted();
      if (child.exitCode !== null || performance.now() > deadlineMs) {
        const log = await readFile(join(this.directory, "dockerd.log"), "utf8");
        throw new Error(`dockerd did not start: ${log.slice(-2000)}`);
      }
      const answered = await this.docker("version").then(
        () => true,
        () => false,
      );
      if (answered) return;
      await sleep(50);
    }
  }

  /** What was started below dockerd: containerd, and one shim for each container. */
  async #processes(): Promise<{ readonly pid: number; readonly name: string }[]> {
    const found: { readonly pid: number; readonly name: string }[] = [];
    for await (const path of glob("/proc/[0-9]*/cmdline")) {
      const argv = (await readFile(path, "utf8").catch(() => "")).split("\0");
      if (argv.some((argument) => argument.startsWith(`${this.directory}/exec/`)))
        found.push({ pid: Number(path.split("/")[2]), name: basename(argv[0] ?? "") });
    }
    return found;
  }

  /** Ends what a killed dockerd that was not restarted left running. */
  async #endAll(): Promise<void> {
    for (;;) {
      const shims = (await this.#processes()).map(({ pid }) => pid);
      const contained: number[] = [];
      for (const path of await this.#cgroups()) {
        // It may disappear at any moment, with its last process.
        const text = await readFile(join(path, "cgroup.procs"), "utf8").catch(() => "");
        const lines = text.split("\n");
        contained.push(...lines.filter((line) => line !== "").map(Number));
      }
      const pids = [...shims, ...contained];
      if (pids.length === 0) return;
      for (const pid of new Set(pids)) endProcess(pid);
      await sleep(20);
    }
  }

  /** In each hierarchy below this process's own cgroup. */
  async #cgroups(): Promise<string[]> {
    const found: string[] = [];
    for (const line of (await readFile("/proc/self/cgroup", "utf8")).trim().split("\n")) {
      const [, controllers = "", own = "/"] = line.split(":");
      const hierarchies = controllers === "" ? ["", "unified"] : [controllers.replace("name=", "")];
      for (const hierarchy of hierarchies)
        for (const parent of [own, "/"]) {
          const pattern = join("/sys/fs/cgroup", hierarchy, parent, this.#cgroupParent, "{,*/}");
          found.push(...(await Array.fromAsync(glob(pattern))));
        }
    }
    return [...new Set(found)];
  }

  /** A killed dockerd leaves file systems of its containers mounted. */
  async #unmountAll(): Promise<void> {
    const mounts = (await readFile("/proc/self/mountinfo", "utf8"))
      .split("\n")
      .map((line) => line.split(" ")[4] ?? "")
      .filter((path) => path.startsWith(`${this.directory}/`));
    for (const path of mounts.toReversed()) await execute("umount", ["--lazy", path]);
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // It ended by itself meanwhile.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
