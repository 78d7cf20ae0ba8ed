/** A Docker engine of our own to compare with: private directories, no network, gone afterwards. */
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { copyFile, glob, mkdir, readFile, rmdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const IMAGE = "sandkasten-bench:latest";
const START_TIMEOUT_MS = 60_000;
const execute = promisify(execFile);

export class DockerEngine implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #host: string;
  readonly #cgroupParent: string;

  private constructor(child: ChildProcess, host: string, cgroupParent: string) {
    this.#child = child;
    this.#host = host;
    this.#cgroupParent = cgroupParent;
  }

  /** Starts dockerd below `directory`, with an image that holds a static busybox. */
  static async start(directory: string, signal: AbortSignal): Promise<DockerEngine> {
    await mkdir(directory, { mode: 0o700 });
    const host = `unix://${join(directory, "docker.sock")}`;
    const log = join(directory, "dockerd.log");
    const cgroupParent = `sandkasten-bench-docker-${process.pid}`;
    const logFd = openSync(log, "w");
    const options = {
      "--data-root": join(directory, "root"),
      "--exec-root": join(directory, "exec"),
      "--pidfile": join(directory, "pid"),
      "--host": host,
      "--cgroup-parent": cgroupParent,
    };
    const child = spawn(
      "dockerd",
      [...Object.entries(options).flat(), "--bridge=none", "--iptables=false", "--ip6tables=false"],
      { stdio: ["ignore", logFd, logFd], detached: true },
    );
    closeSync(logFd);
    const engine = new DockerEngine(child, host, cgroupParent);
    try {
      await once(child, "spawn");
      await engine.#answers(log, signal);
      await engine.#importImage(directory);
      return engine;
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  command(...args: readonly string[]): string[] {
    return ["docker", "-H", this.#host, ...args];
  }

  /** `docker run` of the image, without a network as our sandboxes are. */
  runCommand(options: readonly string[], ...argv: readonly string[]): string[] {
    return this.command("run", "--network", "none", ...options, IMAGE, ...argv);
  }

  async docker(...args: readonly string[]): Promise<string> {
    return (await execute("docker", ["-H", this.#host, ...args])).stdout.trim();
  }

  /** A container that waits; answers its id. */
  async startContainer(): Promise<string> {
    return await this.docker("run", "-d", "--network", "none", IMAGE, "sleep", "86400");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.pid === undefined || this.#child.exitCode !== null) return;
    const running = (await this.docker("ps", "-aq").catch(() => "")).split("\n").filter(Boolean);
    if (running.length > 0) await this.docker("rm", "-f", ...running);
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await ended;
    // The engine leaves the parent of its containers' cgroups behind, in every hierarchy.
    for await (const path of glob(`/sys/fs/cgroup/{,*/}${this.#cgroupParent}`)) await rmdir(path);
  }

  async #answers(log: string, signal: AbortSignal): Promise<void> {
    const deadlineMs = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      signal.throwIfAborted();
      if (this.#child.exitCode !== null || performance.now() > deadlineMs)
        throw new Error(`dockerd did not start: ${(await readFile(log, "utf8")).slice(-2000)}`);
      const answered = await this.docker("version").then(
        () => true,
        () => false,
      );
      if (answered) return;
      await sleep(200);
    }
  }

  async #importImage(directory: string): Promise<void> {
    const rootfs = join(directory, "rootfs");
    await mkdir(join(rootfs, "bin"), { recursive: true });
    await copyFile("/bin/busybox", join(rootfs, "bin/busybox"));
    for (const name of ["sh", "true", "sleep"]) await symlink("busybox", join(rootfs, "bin", name));
    const archive = join(directory, "rootfs.tar");
    await execute("tar", ["-C", rootfs, "-cf", archive, "."]);
    await this.docker("import", archive, IMAGE);
  }
}
