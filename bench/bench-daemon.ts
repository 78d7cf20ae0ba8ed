/** A real daemon to measure, with a separate process and data directory that are removed afterwards. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { composeEmbedded } from "@sandkasten/daemon";
import type { CreateSession, SessionBody } from "@sandkasten/protocol";
import { SandboxClient } from "@sandkasten/sdk";
import type { BenchRuntime } from "./bench-machine.ts";
import { BenchSession } from "./bench-session.ts";
import { HttpClient } from "./http-client.ts";
import { inParallel } from "./in-parallel.ts";

const PROGRAM = "daemon-process.ts";
const STOP_TIMEOUT_MS = 20_000;
const LOG_SHOWN = 2000;

/** Without their prefix: `{ POOL: "host=4" }` is SANDKASTEN_POOL=host=4. */
export type DaemonSettings = Readonly<Record<string, string>>;

/** Requests to the process. */
export type DaemonQuestion = "collect" | "processor time";

/** Messages of the process. */
export type DaemonMessage =
  | { readonly url: string; readonly apiKey: string }
  | { readonly collected: true }
  | { readonly processorTimeUs: number };

export interface BenchDaemonOptions {
  /** Created for the daemon, and removed at the end. */
  readonly directory: string;
  readonly runtime: BenchRuntime;
  readonly settings: DaemonSettings;
  /** A file next to this one; `daemon-process.ts` when absent. */
  readonly program?: string | undefined;
}

export class BenchDaemon implements AsyncDisposable {
  readonly #options: BenchDaemonOptions;
  #child: ChildProcess | undefined;
  #client: HttpClient | undefined;
  #sdk: SandboxClient | undefined;
  #address: { readonly url: string; readonly apiKey: string } | undefined;

  private constructor(options: BenchDaemonOptions) {
    this.#options = options;
  }

  /** Starts by creating and destroying one sandbox, so its image and disk template exist. */
  static async start(options: BenchDaemonOptions): Promise<BenchDaemon> {
    await mkdir(options.directory, { mode: 0o700 });
    const daemon = new BenchDaemon(options);
    try {
      await daemon.#run();
      await (await daemon.open()).destroy();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#running().pid ?? 0;
  }

  /** A persistent connection; a new one after a restart. */
  get client(): HttpClient {
    if (this.#client === undefined) throw new Error("the daemon does not run");
    return this.#client;
  }

  /** The SDK client. */
  get sdk(): SandboxClient {
    if (this.#sdk === undefined) throw new Error("the daemon does not run");
    return this.#sdk;
  }

  /** For services that are clients of the daemon. */
  get address(): { readonly url: string; readonly apiKey: string } {
    if (this.#address === undefined) throw new Error("the daemon does not run");
    return this.#address;
  }

  async open(body: CreateSession = {}): Promise<BenchSession> {
    return new BenchSession(
      this,
      await this.client.call<SessionBody>("POST", "/v1/sessions", body),
    );
  }

  async pooledSandboxes(): Promise<number> {
    const metrics = await this.client.text("GET", "/v1/metrics");
    const pooled = /^sandkasten_pooled_sandboxes (\d+)$/mu.exec(metrics)?.[1];
    if (pooled === undefined) throw new Error("the daemon's metrics do not count its pool");
    return Number(pooled);
  }

  /** Excludes garbage from the measured growth. */
  async collectGarbage(): Promise<void> {
    await this.#ask("collect");
  }

  /** Total of all its threads since its start. Other work on the machine hardly affects it. */
  async processorTimeUs(): Promise<number> {
    const answer = await this.#ask("processor time");
    if (!("processorTimeUs" in answer)) throw new Error("the daemon did not tell its time");
    return answer.processorTimeUs;
  }

  /** Total of everything that has run in its current sandboxes. */
  async sandboxProcessorTimeUs(): Promise<number> {
    const cgroups = await this.#cgroups("cpuacct");
    const times = await Promise.all(cgroups.map(cgroupProcessorTimeUs));
    return times.reduce((sum, time) => sum + time, 0);
  }

  /** Kills and restarts it; returns the time from its start to listening. */
  async restart(): Promise<number> {
    await this.#kill();
    return await this.#run();
  }

  /** The memory cgroup of each of its sandboxes, from the launcher's notes. */
  async memoryCgroups(): Promise<string[]> {
    return await this.#cgroups("memory");
  }

  async #cgroups(controller: string): Promise<string[]> {
    const directory = join(this.#dataDir, "sandboxes");
    const ids = (await readdir(directory)).filter((name) => /^(?:ses|sbx)_/u.test(name));
    return await Promise.all(
      ids.map(async (id) => {
        const notes = await readFile(join(directory, id, "sandbox.json"), "utf8");
        const { cgroups } = JSON.parse(notes) as { cgroups: Record<string, string> };
        const cgroup = cgroups[controller] ?? cgroups["unified"];
        if (cgroup === undefined) throw new Error(`no cgroup ${controller} has ${id}`);
        return cgroup;
      }),
    );
  }

  /** Ends the daemon, all its sandboxes and all its files, in any state. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    const { runtime, directory } = this.#options;
    const { backend } = await composeEmbedded({ dataDir: this.#dataDir, runtime });
    await inParallel(await backend.list(), ({ id }) => backend.destroy(id));
    await rm(directory, { recursive: true, force: true });
  }

  get #dataDir(): string {
    return join(this.#options.directory, "data");
  }

  get #logPath(): string {
    return join(this.#options.directory, "log");
  }

  async #ask(question: DaemonQuestion): Promise<DaemonMessage> {
    const child = this.#running();
    const answer = this.#message(child);
    child.send(question);
    return await answer;
  }

  #running(): ChildProcess {
    if (this.#child === undefined) throw new Error("the daemon does not run");
    return this.#child;
  }

  async #run(): Promise<number> {
    const { runtime, settings, program = PROGRAM } = this.#options;
    const all = {
      LISTEN: "127.0.0.1:0",
      // Refilling a pool would distort the measurements.
      POOL: "host=0",
      ...settings,
      RUNTIME: runtime,
      DATA_DIR: this.#dataDir,
    };
    const env = Object.fromEntries(
      Object.entries(all).map(([name, value]) => [`SANDKASTEN_${name}`, value]),
    );
    const log = openSync(this.#logPath, "a", 0o600);
    const startedMs = performance.now();
    // Detached: an interrupt at the terminal is for us, and we end the daemon.
    const child = fork(join(import.meta.dirname, program), {
      env: {
        PATH: process.env["PATH"],
        NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
        ...env,
      },
      // As packages/cli/bin/sandkasten starts it.
      execArgv: ["--max-semi-space-size=4"],
      stdio: ["ignore", log, log, "ipc"],
      detached: true,
    });
    closeSync(log);
    this.#child = child;
    const message = await this.#message(child);
    const elapsedMs = performance.now() - startedMs;
    if (!("url" in message)) throw new Error("the daemon did not say where it listens");
    this.#address = message;
    this.#client = new HttpClient(message.url, message.apiKey);
    this.#sdk = new SandboxClient({ baseUrl: message.url, apiKey: message.apiKey });
    return elapsedMs * 1000;
  }

  /** The next message, or the reason that there will be none. */
  async #message(child: ChildProcess): Promise<DaemonMessage> {
    const ended = new AbortController();
    const end = once(child, "exit", { signal: ended.signal }).then(async ([code]) => {
      const log = (await readFile(this.#logPath, "utf8")).slice(-LOG_SHOWN);
      throw new Error(`the daemon ended with ${String(code)}: ${log}`);
    });
    const said = once(child, "message", { signal: ended.signal }) as Promise<[DaemonMessage]>;
    try {
      return (await Promise.race([said, end]))[0];
    } finally {
      ended.abort();
      await Promise.allSettled([said, end]);
    }
  }

  /** Lets it stop by itself, so it can also write a profile; kills it if it does not. */
  async #stop(): Promise<void> {
    const child = this.#child;
    if (child?.exitCode === null && child.connected) {
      const exited = once(child, "exit");
      await this.#client?.close();
      child.disconnect();
      await Promise.race([exited, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
    }
    await this.#kill();
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    await this.#client?.close();
    this.#client = undefined;
    this.#address = undefined;
    this.#sdk = undefined;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
}

/** In cgroup v1 a file of nanoseconds, in v2 a line of microseconds. */
async function cgroupProcessorTimeUs(cgroup: string): Promise<number> {
  if (existsSync(join(cgroup, "cpuacct.usage")))
    return Number(await readFile(join(cgroup, "cpuacct.usage"), "utf8")) / 1000;
  const usage = /^usage_usec (\d+)$/mu.exec(await readFile(join(cgroup, "cpu.stat"), "utf8"))?.[1];
  if (usage === undefined) throw new Error(`${cgroup} does not count processor time`);
  return Number(usage);
}
