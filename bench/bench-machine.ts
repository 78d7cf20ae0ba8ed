/** Sandboxes to measure: one data directory and runtime, removed afterwards. */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { composeEmbedded } from "@sandkasten/daemon";
import type {
  Backend,
  Channel,
  ExecCommand,
  ExecEnd,
  OutputChunk,
  SandboxLimits,
  SandboxSpec,
} from "@sandkasten/daemon";

export const MIB = 1024 * 1024;

/** Where set-up installs the gVisor that it has built. */
const RUNTIME_DIR = join(import.meta.dirname, "../.toolchain/runtimes");

export const RUNTIMES = ["crun", "runc", "runsc"] as const;
export type BenchRuntime = (typeof RUNTIMES)[number];

const LIMITS: SandboxLimits = {
  memoryBytes: 512 * MIB,
  cpuMillicores: 2000,
  pids: 128,
  diskBytes: 512 * MIB,
  diskInodes: 16_384,
};

export interface BenchMachineOptions {
  readonly dataDir: string;
  readonly runtime: BenchRuntime;
  /** Where the two native programs are installed. */
  readonly nativeDir: string;
}

export interface BenchSandbox {
  readonly id: string;
  readonly channel: Channel;
}

export class BenchMachine implements AsyncDisposable {
  readonly backend: Backend;

  private constructor(backend: Backend) {
    this.backend = backend;
  }

  /** Starts by creating and destroying one sandbox, so its image and disk template exist. */
  static async start(options: BenchMachineOptions): Promise<BenchMachine> {
    const { dataDir, runtime, nativeDir } = options;
    await mkdir(dataDir, { mode: 0o700 });
    const { backend } = await composeEmbedded({
      dataDir,
      runtime,
      nativeDir,
      runtimeDir: RUNTIME_DIR,
    });
    const machine = new BenchMachine(backend);
    try {
      await machine.destroy(await machine.create());
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Resolves when the sandbox's runner has answered a ping. */
  async create(spec: Pick<SandboxSpec, "network"> = {}): Promise<BenchSandbox> {
    const id = `sbx_${randomBytes(8).toString("hex")}`;
    await this.backend.create({
      id,
      image: "host",
      limits: LIMITS,
      profile: "restricted",
      env: {},
      ...spec,
    });
    return { id, channel: await this.backend.open(id) };
  }

  async destroy({ id }: BenchSandbox): Promise<void> {
    await this.backend.destroy(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { id } of await this.backend.list()) await this.backend.destroy(id);
  }
}

/** Runs a command to its end, which must succeed; its output is read and discarded. */
export async function run(
  channel: Channel,
  command: ExecCommand,
  onOutput?: (chunk: OutputChunk) => void,
): Promise<ExecEnd> {
  const stream = await channel.exec(command, { execId: `exec_${randomBytes(8).toString("hex")}` });
  for await (const chunk of stream) onOutput?.(chunk);
  const end = await stream.ended;
  if (end.reason !== "exited" || end.exitCode !== 0)
    throw new Error(`a measured command ended with ${end.reason} ${String(end.exitCode)}`);
  return end;
}

export const TRUE_IN_SHELL: ExecCommand = { kind: "shell", text: "true" };
