/** Validates the engine's responses and converts them to our types. */
import { SandboxError } from "@sandkasten/protocol";
import { z } from "zod";

export type Labels = Readonly<Record<string, string>>;

export interface EngineFacts {
  readonly version: string;
  readonly apiVersion: string;
  readonly operatingSystem: string;
  /** Node's name for it. */
  readonly architecture: string;
  readonly kernel: string;
  readonly processors: number;
  readonly cgroupVersion: string;
  readonly limits: {
    readonly memory: boolean;
    readonly swap: boolean;
    readonly pids: boolean;
    readonly cpu: boolean;
  };
  readonly seccomp: boolean;
  /** User ids in containers differ from those of the machine. */
  readonly remapsUsers: boolean;
  readonly selinux: boolean;
  readonly storageDriver: string;
  readonly runtimes: readonly string[];
  readonly defaultRuntime: string;
  /** The version of the engine's bundled runtime. */
  readonly runcVersion: string | undefined;
}

export interface EngineContainer {
  readonly containerId: string;
  readonly name: string;
  readonly status: string;
  readonly running: boolean;
  readonly paused: boolean;
  readonly pid: number;
  readonly exitCode: number;
  readonly outOfMemory: boolean;
  readonly imageId: string;
  readonly labels: Labels;
  readonly runtime: string;
  readonly settings: {
    readonly readOnlyRoot: boolean;
    readonly networkMode: string;
    readonly pidMode: string;
    readonly ipcMode: string;
    readonly utsMode: string;
    readonly usernsMode: string;
    readonly nanoCpus: number;
    readonly oomScoreAdj: number;
  };
  readonly mounts: readonly {
    readonly type: string;
    readonly name: string | undefined;
    readonly source: string;
    readonly target: string;
  }[];
}

export interface EngineVolume {
  readonly name: string;
  readonly labels: Labels;
  /** Where its files are on the engine's machine. */
  readonly mountpoint: string;
}

export interface EngineUsage {
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
  readonly cpuUsageUsec: number;
  readonly pids: number;
  readonly pidsLimit: number;
}

const text = z.string().default("");
const labelsSchema = z
  .record(z.string(), z.string())
  .nullish()
  .transform((labels): Labels => labels ?? {});

const versionSchema = z.object({
  Version: text,
  ApiVersion: text,
  Components: z.array(z.object({ Name: text, Version: text })).nullish(),
});

const infoSchema = z.object({
  OSType: text,
  Architecture: text,
  KernelVersion: text,
  NCPU: z.number().default(1),
  CgroupVersion: z.string().default("1"),
  MemoryLimit: z.boolean().default(false),
  SwapLimit: z.boolean().default(false),
  PidsLimit: z.boolean().default(false),
  CpuCfsQuota: z.boolean().default(false),
  SecurityOptions: z.array(z.string()).nullish(),
  Driver: text,
  Runtimes: z.record(z.string(), z.unknown()).nullish(),
  DefaultRuntime: text,
});

const containerSchema = z.object({
  Id: z.string(),
  Name: z.string(),
  Image: text,
  State: z.object({
    Status: text,
    Running: z.boolean().default(false),
    Paused: z.boolean().default(false),
    Pid: z.number().default(0),
    ExitCode: z.number().default(0),
    OOMKilled: z.boolean().default(false),
  }),
  Config: z.object({ Labels: labelsSchema }),
  HostConfig: z.object({
    Runtime: text,
    ReadonlyRootfs: z.boolean().default(false),
    NetworkMode: text,
    PidMode: text,
    IpcMode: text,
    UTSMode: text,
    UsernsMode: text,
    NanoCpus: z.number().default(0),
    OomScoreAdj: z.number().default(0),
  }),
  Mounts: z
    .array(z.object({ Type: text, Name: z.string().optional(), Source: text, Destination: text }))
    .nullish(),
});

const volumeSchema = z.object({ Name: z.string(), Labels: labelsSchema, Mountpoint: text });

const usageSchema = z.object({
  memory_stats: z.object({ usage: z.number().default(0), limit: z.number().default(0) }),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: z.number().default(0) }) }),
  pids_stats: z.object({ current: z.number().default(0), limit: z.number().default(0) }),
});

const ARCHITECTURES: Readonly<Record<string, string>> = {
  x86_64: "x64",
  amd64: "x64",
  aarch64: "arm64",
  arm64: "arm64",
};

export function factsOf(version: unknown, info: unknown): EngineFacts {
  const { Version, ApiVersion, Components } = read(versionSchema, version, "its version");
  const found = read(infoSchema, info, "its capabilities");
  const options = found.SecurityOptions ?? [];
  const has = (name: string): boolean =>
    options.some((option) => option.split(",").includes(`name=${name}`));
  return {
    version: Version,
    apiVersion: ApiVersion,
    operatingSystem: found.OSType,
    architecture: ARCHITECTURES[found.Architecture] ?? found.Architecture,
    kernel: found.KernelVersion,
    processors: found.NCPU,
    cgroupVersion: found.CgroupVersion,
    limits: {
      memory: found.MemoryLimit,
      swap: found.SwapLimit,
      pids: found.PidsLimit,
      cpu: found.CpuCfsQuota,
    },
    seccomp: has("seccomp"),
    remapsUsers: has("userns") || has("rootless"),
    selinux: has("selinux"),
    storageDriver: found.Driver,
    runtimes: Object.keys(found.Runtimes ?? {}),
    defaultRuntime: found.DefaultRuntime,
    runcVersion: Components?.find(({ Name }) => Name === "runc")?.Version,
  };
}

export function containerOf(answer: unknown): EngineContainer {
  const { Id, Name, Image, State, Config, HostConfig, Mounts } = read(
    containerSchema,
    answer,
    "a container",
  );
  return {
    containerId: Id,
    name: Name.replace(/^\//u, ""),
    status: State.Status,
    running: State.Running,
    paused: State.Paused,
    pid: State.Pid,
    exitCode: State.ExitCode,
    outOfMemory: State.OOMKilled,
    imageId: Image,
    labels: Config.Labels,
    runtime: HostConfig.Runtime,
    settings: {
      readOnlyRoot: HostConfig.ReadonlyRootfs,
      networkMode: HostConfig.NetworkMode,
      pidMode: HostConfig.PidMode,
      ipcMode: HostConfig.IpcMode,
      utsMode: HostConfig.UTSMode,
      usernsMode: HostConfig.UsernsMode,
      nanoCpus: HostConfig.NanoCpus,
      oomScoreAdj: HostConfig.OomScoreAdj,
    },
    mounts: (Mounts ?? []).map((mount) => ({
      type: mount.Type,
      name: mount.Name,
      source: mount.Source,
      target: mount.Destination,
    })),
  };
}

export function volumeOf(answer: unknown): EngineVolume {
  const { Name, Labels: labels, Mountpoint } = read(volumeSchema, answer, "a volume");
  return { name: Name, labels, mountpoint: Mountpoint };
}

export function usageOf(answer: unknown): EngineUsage {
  const { memory_stats, cpu_stats, pids_stats } = read(usageSchema, answer, "a container's usage");
  return {
    memoryBytes: memory_stats.usage,
    memoryLimitBytes: memory_stats.limit,
    cpuUsageUsec: Math.round(cpu_stats.cpu_usage.total_usage / 1000),
    pids: pids_stats.current,
    // An engine reports its largest number if there is no limit.
    pidsLimit: Math.min(pids_stats.limit, Number.MAX_SAFE_INTEGER),
  };
}

function read<T>(schema: z.ZodType<T>, answer: unknown, what: string): T {
  const result = schema.safeParse(answer);
  if (result.success) return result.data;
  throw new SandboxError(
    "INTERNAL_ERROR",
    `the Docker engine reported ${what} in an unknown format; it may be older than 20.10`,
    { cause: result.error },
  );
}
