/** A compose file of the project, started on an engine as an operator does it. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import type { DockerEngine } from "./docker-engine.ts";
import { freePort } from "./free-port.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const DAEMON = "sandkasten";

export interface StackOptions {
  /** The prefix of its volumes and networks. */
  readonly project: string;
  /** Relative to the project's root. Later files extend the earlier ones. */
  readonly files: readonly string[];
  /** For variables in the files. */
  readonly env?: Readonly<Record<string, string>>;
}

export class ComposeStack {
  readonly apiKey = "sk-sandbox-of-a-test";
  readonly url: string;
  /** The prefix of its volumes and networks. */
  readonly project: string;
  readonly #engine: DockerEngine;
  readonly #files: readonly string[];
  readonly #env: Readonly<Record<string, string | undefined>>;
  #argv: readonly string[] | undefined;

  private constructor(
    engine: DockerEngine,
    { project, files, env = {} }: StackOptions,
    port: number,
  ) {
    this.url = `http://127.0.0.1:${port}`;
    this.project = project;
    this.#engine = engine;
    this.#files = files;
    this.#env = {
      ...env,
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      DOCKER_HOST: engine.host,
      DOCKER_SOCKET: engine.host.replace("unix://", ""),
      PUBLISHED_PORT: String(port),
      SANDKASTEN_API_KEY: this.apiKey,
    };
  }

  /** Nothing is started yet. */
  static async of(engine: DockerEngine, options: StackOptions): Promise<ComposeStack> {
    return new ComposeStack(engine, options, await freePort());
  }

  /** Starts everything and waits until the daemon's container is healthy. */
  async up(): Promise<void> {
    await this.#compose("up", "--detach");
    await this.#healthy(await this.container(DAEMON));
  }

  async restart(): Promise<void> {
    const since = new Date();
    await this.#compose("restart", DAEMON);
    await this.#healthy(await this.container(DAEMON), since);
  }

  /** Removes containers, networks and volumes. */
  async down(): Promise<void> {
    await this.#compose("down", "--volumes", "--remove-orphans");
  }

  /** The id of a service's container. */
  async container(service: string): Promise<string> {
    const id = await this.#compose("ps", "--quiet", service);
    if (id === "") throw new Error(`${service} has no container`);
    return id;
  }

  async #compose(...args: readonly string[]): Promise<string> {
    this.#argv ??= await composeProgram();
    const [program = "", ...first] = this.#argv;
    const files = this.#files.flatMap((file) => ["--file", file]);
    const flags = [...files, "--project-name", this.project];
    const options = { cwd: ROOT, env: this.#env };
    return (await run(program, [...first, ...flags, ...args], options)).stdout.trim();
  }

  async #healthy(id: string, since = new Date(0)): Promise<void> {
    const [program = "", ...args] = this.#engine.command(
      "events",
      `--since=${since.toISOString()}`,
      `--filter=container=${id}`,
      "--format={{.Status}}",
    );
    const events = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
    const ended = once(events, "exit");
    let last = "";
    let restarting = since.getTime() > 0;
    for await (const line of createInterface(events.stdout)) {
      last = line;
      if (line === "start") restarting = false;
      if (!restarting && /^(?:health_status|die)/.test(line)) break;
    }
    events.kill();
    await ended;
    if (last === "health_status: healthy") return;
    throw new Error(`the daemon is not healthy (${last}): ${await this.log()}`);
  }

  /** The daemon's log. */
  async log(): Promise<string> {
    const [program = "", ...args] = this.#engine.command("logs", await this.container(DAEMON));
    const { stdout, stderr } = await run(program, args);
    return stdout + stderr;
  }
}

/** Compose as a part of `docker`, or the older separate program. */
async function composeProgram(): Promise<readonly string[]> {
  return await run("docker", ["compose", "version"]).then(
    () => ["docker", "compose"],
    () => ["docker-compose"],
  );
}
