/**
 * A real daemon for tests: its own data directory and port, can be killed and restarted, cleaned up
 * afterwards.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadConfig, sweep } from "@sandkasten/daemon";
import { RUNTIME_DIR } from "./gvisor.ts";
import { runtimeUnderTest } from "./runtime-under-test.ts";

const PROGRAM = join(import.meta.dirname, "daemon-process.ts");

export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

type Settings = Readonly<Record<string, string | undefined>>;

export interface TestDaemonOptions {
  /** SANDKASTEN_* variables without their prefix; undefined unsets one. */
  readonly settings?: Settings;
  /** Other variables. */
  readonly env?: Readonly<Record<string, string>>;
  readonly dataDir?: string;
  /** A command that wraps the daemon's own command. */
  readonly runBy?: readonly string[];
}

export class TestDaemon implements AsyncDisposable {
  readonly dataDir: string;
  readonly #settings: Settings;
  readonly #runBy: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;
  #url = "";
  #apiKey = "";
  #log = "";

  private constructor(dataDir: string, { settings = {}, runBy = [], env = {} }: TestDaemonOptions) {
    this.dataDir = dataDir;
    this.#env = env;
    this.#settings = settings;
    this.#runBy = runBy;
  }

  static async start(options: TestDaemonOptions = {}): Promise<TestDaemon> {
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "sandkasten-daemon-")));
    const daemon = new TestDaemon(dataDir, options);
    try {
      await daemon.run();
      return daemon;
    } catch (error) {
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
      throw error;
    }
  }

  get url(): string {
    return this.#url;
  }

  get apiKey(): string {
    return this.#apiKey;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Its log on stderr, over all its runs. */
  get log(): string {
    return this.#log;
  }

  /** Starts it, or restarts it on the same data directory. Rejects with its log if it does not start. */
  async run(settings: Readonly<Record<string, string>> = {}): Promise<void> {
    const [program, ...args] = [...this.#runBy, process.execPath, PROGRAM];
    const child = spawn(program, args, {
      env: {
        PATH: process.env["PATH"],
        NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
        ...this.#env,
        ...this.#variables(settings),
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      this.#log += text;
    });
    const line = await Promise.race([
      once(createInterface(child.stdout), "line") as Promise<[string]>,
      once(child, "exit").then(() => undefined),
    ]);
    if (line === undefined) throw new Error(`the daemon did not start: ${this.#log}`);
    const started = JSON.parse(line[0]) as { readonly url: string; readonly apiKey: string };
    this.#url = started.url;
    this.#apiKey = started.apiKey;
  }

  async kill(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<number | null> {
    const child = this.#child;
    if (child === undefined) return null;
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill(signal);
      await exited;
    }
    // Until then, the end of a test can still kill it.
    this.#child = undefined;
    return child.exitCode;
  }

  /** One request with the key; the response as JSON. */
  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<T>> {
    const response = await this.fetch(path, {
      method,
      headers: { "content-type": "application/json", ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: (text === "" ? {} : JSON.parse(text)) as T,
    };
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", `Bearer ${this.#apiKey}`);
    return await fetch(`${this.#url}${path}`, { ...init, headers });
  }

  /** Creates a session and returns its id. */
  async open(body: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const { status, body: session } = await this.call<{ id: string }>("POST", "/v1/sessions", body);
    if (status !== 201) throw new Error(`no session: ${status} ${JSON.stringify(session)}`);
    return session.id;
  }

  /** Runs a command to its end and returns the response body. */
  async exec(
    id: string,
    cmd: string | readonly string[],
    more: Readonly<Record<string, unknown>> = {},
  ) {
    return (await this.call("POST", `/v1/sessions/${id}/exec`, { cmd, ...more })).body;
  }

  /** Ends the daemon, all its sandboxes and all its files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    const env = this.#variables();
    await sweep(await loadConfig({ env, cwd: "/", home: "/nonexistent", isRoot: true }));
    await rm(this.dataDir, { recursive: true, force: true });
  }

  #variables(settings: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    const runtime = runtimeUnderTest();
    const all: Settings = {
      LISTEN: "127.0.0.1:0",
      // Pooled sandboxes would take time from those being tested.
      POOL: "host=0",
      ...(runtime !== "docker" && { RUNTIME: runtime }),
      ...(runtime === "runsc" && { RUNTIME_DIR }),
      DEFAULTS_MEM_LIMIT_MB: "128",
      DEFAULTS_DISK_LIMIT_MB: "64",
      ...this.#settings,
      ...settings,
      DATA_DIR: this.dataDir,
    };
    return Object.fromEntries(
      Object.entries(all).flatMap(([name, value]) =>
        value === undefined ? [] : [[`SANDKASTEN_${name}`, value] as const],
      ),
    );
  }
}

/** The host pid of the only sandbox's PID 1. */
export async function runnerOf({ dataDir }: TestDaemon): Promise<number> {
  const [sandbox] = await readdir(join(dataDir, "sandboxes"));
  const notes = await readFile(join(dataDir, "sandboxes", sandbox ?? "", "sandbox.json"), "utf8");
  return (JSON.parse(notes) as { pid: number }).pid;
}
