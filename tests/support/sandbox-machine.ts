/** Real sandboxes for tests: a separate data directory, cleaned up after the test. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { composeEmbedded } from "@sandkasten/daemon";
import { DockerMachine } from "../../packages/daemon/src/backends/docker/testing/docker-machine.ts";
import { DOCKER_IMAGES } from "./docker-images.ts";
import { RUNTIME_DIR } from "./gvisor.ts";
import type { RuntimeOfRun } from "./runtime-under-test.ts";
import type {
  Backend,
  Channel,
  Embedded,
  EmbeddedOptions,
  ExecEnd,
  ExecOptions,
  ImageStore,
  SandboxLimits,
  SandboxSpec,
} from "@sandkasten/daemon";

export const MIB = 1024 * 1024;

export const TEST_LIMITS: SandboxLimits = {
  memoryBytes: 256 * MIB,
  cpuMillicores: 1000,
  pids: 128,
  diskBytes: 128 * MIB,
  diskInodes: 16_384,
};

/** A command's end and output. */
export interface Ran extends ExecEnd {
  readonly stdout: string;
  readonly stderr: string;
  /** Both in order of arrival. */
  readonly output: string;
}

/** One sandbox and its operations. */
export interface TestSandbox {
  readonly id: string;
  readonly channel: Channel;
  /** Runs in the stateful shell. */
  readonly sh: (text: string | Uint8Array, options?: Partial<ExecOptions>) => Promise<Ran>;
  /** Runs a separate process. */
  readonly run: (argv: readonly string[], options?: Partial<ExecOptions>) => Promise<Ran>;
}

export type MachineOptions = Partial<Omit<EmbeddedOptions, "runtime">> & {
  readonly runtime?: RuntimeOfRun | "runsc";
};

/** What creates sandboxes, and its defaults for a test. */
interface MachineParts {
  readonly dataDir: string;
  readonly backend: Backend;
  readonly images: ImageStore;
  readonly image: string;
  readonly embedded?: Embedded;
  readonly reopen: () => Promise<Backend>;
  readonly close: () => Promise<void>;
}

export class SandboxMachine implements AsyncDisposable {
  readonly #parts: MachineParts;
  readonly #made = new Set<string>();

  private constructor(parts: MachineParts) {
    this.#parts = parts;
  }

  static async start({ runtime, ...options }: MachineOptions = {}): Promise<SandboxMachine> {
    if (runtime === "docker") return new SandboxMachine(await onDocker());
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "sandkasten-test-")));
    const compose = (): Promise<Embedded> =>
      composeEmbedded({
        runtimeDir: RUNTIME_DIR,
        ...options,
        ...(runtime !== undefined && { runtime }),
        dataDir,
      });
    const embedded = await compose();
    return new SandboxMachine({
      ...embedded,
      dataDir,
      image: "host",
      embedded,
      reopen: async () => (await compose()).backend,
      close: () => rm(dataDir, { recursive: true, force: true }),
    });
  }

  get dataDir(): string {
    return this.#parts.dataDir;
  }

  get backend(): Backend {
    return this.#parts.backend;
  }

  get images(): ImageStore {
    return this.#parts.images;
  }

  /** Only for a machine with the embedded backend. */
  get embedded(): Embedded {
    if (this.#parts.embedded === undefined) throw new Error("these sandboxes are an engine's");
    return this.#parts.embedded;
  }

  /** Another backend on the same sandboxes, as a restarted daemon has it. */
  async reopen(): Promise<Backend> {
    return await this.#parts.reopen();
  }

  async sandbox(spec: Partial<SandboxSpec> = {}): Promise<TestSandbox> {
    const id = spec.id ?? newSandboxId();
    this.#made.add(id);
    await this.backend.create({
      image: this.#parts.image,
      limits: TEST_LIMITS,
      profile: "restricted",
      env: {},
      ...spec,
      id,
    });
    return testSandbox(id, await this.backend.open(id));
  }

  async destroy(id: string): Promise<void> {
    await this.backend.destroy(id);
    this.#made.delete(id);
  }

  /** Destroys everything left and removes the data directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    const listed = (await this.backend.list()).map(({ id }) => id);
    for (const id of new Set([...this.#made, ...listed])) await this.destroy(id);
    await this.#parts.close();
  }
}

async function onDocker(): Promise<MachineParts> {
  const docker = await DockerMachine.start();
  return {
    dataDir: docker.directory,
    backend: docker.backend,
    images: docker.options.images,
    image: DOCKER_IMAGES.debian,
    reopen: () => docker.reopen(),
    close: () => docker[Symbol.asyncDispose](),
  };
}

export function newSandboxId(): string {
  return `sbx_${randomBytes(8).toString("hex")}`;
}

export function newExecId(): string {
  return `exec_${randomBytes(8).toString("hex")}`;
}

export function testSandbox(id: string, channel: Channel): TestSandbox {
  return {
    id,
    channel,
    sh: (text, options) => collect(channel, { kind: "shell", text }, options),
    run: (argv, options) => collect(channel, { kind: "process", argv }, options),
  };
}

async function collect(
  channel: Channel,
  command: Parameters<Channel["exec"]>[0],
  options: Partial<ExecOptions> = {},
): Promise<Ran> {
  const stream = await channel.exec(command, {
    execId: newExecId(),
    timeoutMs: 60_000,
    ...options,
  });
  const all: Uint8Array[] = [];
  const split: Record<"stdout" | "stderr", Uint8Array[]> = { stdout: [], stderr: [] };
  for await (const { stream: name, bytes } of stream) {
    // The bytes are valid until the next chunk is requested.
    const copy = Uint8Array.from(bytes);
    all.push(copy);
    split[name].push(copy);
  }
  const text = (parts: Uint8Array[]): string => Buffer.concat(parts).toString("utf8");
  return {
    ...(await stream.ended),
    stdout: text(split.stdout),
    stderr: text(split.stderr),
    output: text(all),
  };
}
