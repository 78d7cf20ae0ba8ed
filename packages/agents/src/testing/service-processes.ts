/** Starts agent services in separate processes, all on one directory and one database. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AgentServiceClient } from "../client/index.ts";
import { ModelServer } from "./model-server.ts";

const PROGRAM = join(import.meta.dirname, "service-process.ts");

export interface ServiceProcess {
  readonly client: AgentServiceClient;
  /** Stops or continues the process. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
  /** Resolves with the exit code, null after SIGKILL. */
  end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null>;
}

export interface ServiceProcessesOptions {
  readonly agents: Readonly<Record<string, string>>;
  /** Files of the folder `workflows`, by name. */
  readonly workflows?: Readonly<Record<string, string>>;
  readonly daemon: { readonly url: string; readonly apiKey: string };
  readonly leaseSeconds?: number;
  readonly heartbeatMs?: number;
}

export class ServiceProcesses implements AsyncDisposable {
  readonly model: ModelServer;
  readonly #dir: string;
  readonly #options: ServiceProcessesOptions;
  readonly #children: ChildProcess[] = [];

  private constructor(dir: string, model: ModelServer, options: ServiceProcessesOptions) {
    this.#dir = dir;
    this.model = model;
    this.#options = options;
  }

  static async create(options: ServiceProcessesOptions): Promise<ServiceProcesses> {
    const dir = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
    await mkdir(join(dir, "agents"));
    for (const [name, source] of Object.entries(options.agents))
      await writeFile(join(dir, "agents", `${name}.prompt`), source);
    await mkdir(join(dir, "workflows"));
    for (const [name, source] of Object.entries(options.workflows ?? {}))
      await writeFile(join(dir, "workflows", name), source);
    return new ServiceProcesses(dir, await ModelServer.start(), options);
  }

  async start(): Promise<ServiceProcess> {
    const { daemon, leaseSeconds, heartbeatMs } = this.#options;
    const heartbeat = heartbeatMs === undefined ? [] : [String(heartbeatMs)];
    const args = [PROGRAM, this.#dir, join(this.#dir, "data"), ...heartbeat];
    const child = spawn(process.execPath, args, {
      env: {
        PATH: process.env["PATH"],
        SANDKASTEN_URL: daemon.url,
        SANDKASTEN_API_KEY: daemon.apiKey,
        OPENAI_BASE_URL: this.model.url,
        ...(leaseSeconds !== undefined && {
          SANDKASTEN_AGENTS_LEASE_SECONDS: String(leaseSeconds),
        }),
      },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.push(child);
    const exited = once(child, "exit") as Promise<[number | null]>;
    const [url] = (await Promise.race([
      once(createInterface(child.stdout), "line"),
      exited.then(() => {
        throw new Error("the service did not start");
      }),
    ])) as [string];
    return {
      client: new AgentServiceClient({ baseUrl: url }),
      signal: (signal) => child.kill(signal),
      end: async (signal) => {
        child.kill(signal);
        return (await exited)[0];
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await this.model[Symbol.asyncDispose]();
    await rm(this.#dir, { recursive: true, force: true });
  }
}
