/** Real sandboxes for tests: an own data directory, and nothing left when the test is over. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { composeEmbedded } from "@sandkasten/daemon";
import type {
  Backend,
  Channel,
  Embedded,
  EmbeddedOptions,
  ExecEnd,
  ExecOptions,
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

/** A command's whole story. */
export interface Ran extends ExecEnd {
  readonly stdout: string;
  readonly stderr: string;
  /** Both as they came. */
  readonly output: string;
}

/** One sandbox and what is done in it. */
export interface TestSandbox {
  readonly id: string;
  readonly channel: Channel;
  /** Runs in the shell that remembers. */
  readonly sh: (text: string | Uint8Array, options?: Partial<ExecOptions>) => Promise<Ran>;
  /** Runs a process of its own. */
  readonly run: (argv: readonly string[], options?: Partial<ExecOptions>) => Promise<Ran>;
}

export class SandboxMachine implements AsyncDisposable {
  readonly dataDir: string;
  readonly embedded: Embedded;
  readonly #made = new Set<string>();

  private constructor(dataDir: string, embedded: Embedded) {
    this.dataDir = dataDir;
    this.embedded = embedded;
  }

  static async start(options: Partial<EmbeddedOptions> = {}): Promise<SandboxMachine> {
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "sandkasten-test-")));
    return new SandboxMachine(dataDir, await composeEmbedded({ ...options, dataDir }));
  }

  get backend(): Backend {
    return this.embedded.backend;
  }

  async sandbox(spec: Partial<SandboxSpec> = {}): Promise<TestSandbox> {
    const id = spec.id ?? newSandboxId();
    this.#made.add(id);
    await this.backend.create({
      image: "host",
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

  /** Destroys what is left and removes the data directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    const listed = (await this.backend.list()).map(({ id }) => id);
    for (const id of new Set([...this.#made, ...listed])) await this.destroy(id);
    await rm(this.dataDir, { recursive: true, force: true });
  }
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
    // The bytes are valid until the next chunk is asked for.
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
