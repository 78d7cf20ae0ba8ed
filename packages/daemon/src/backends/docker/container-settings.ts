/** The container settings of a sandbox: all of its isolation, in terms of Docker's API. */
import type { SandboxSpec } from "../../ports/backend.ts";
import { capabilitiesOf } from "../container/capabilities.ts";
import { environmentOf } from "../container/environment.ts";
import { ipcSysctls } from "../container/ipc-limits.ts";
import { networkSysctls } from "../container/network.ts";
import { divideMemory } from "../container/memory-backed-storage.ts";
import type { TmpfsSize } from "../container/memory-backed-storage.ts";
import {
  CODE_USER,
  HOME_PATH,
  RUNNER_PATH,
  VAR_TMP_PATH,
  WORKSPACE_PATH,
} from "../container/paths.ts";
import { MASKED_PATHS, READONLY_PATHS } from "../container/proc-paths.ts";
import { rlimitsOf } from "../container/rlimits.ts";
import { buildSeccompProfile } from "../container/seccomp/profile.ts";
import type { ContainerSettings, MountSettings } from "./engine.ts";
import type { EngineFacts, Labels } from "./engine-view.ts";

/** Where the runner's volume is mounted. */
const RUNNER_DIRECTORY = "/.sandkasten";
/** /work is an alias of /workspace. */
const WORKSPACE_PATHS = [WORKSPACE_PATH, "/work"] as const;

/**
 * All directories that are mounted over. In an image they must be real directories or missing.
 *
 * SECURITY: against linked mount points: an older runc writes to the target of a link in an image.
 * Guarded by docker-hostile.test.ts.
 */
export const MOUNT_POINTS = [
  "/dev",
  "/proc",
  "/sys",
  "/etc",
  "/tmp",
  "/run",
  "/home",
  HOME_PATH,
  ...WORKSPACE_PATHS,
  RUNNER_DIRECTORY,
] as const;

/** Where a mount's files are. */
export type MountSource =
  | { readonly kind: "directory"; readonly path: string }
  | { readonly kind: "volume"; readonly name: string; readonly subpath?: string };

export interface SandboxSettings {
  readonly spec: SandboxSpec;
  readonly imageId: string;
  /** Variables of the image's configuration. */
  readonly imageEnv: Readonly<Record<string, string>>;
  readonly facts: Pick<EngineFacts, "architecture" | "cgroupVersion" | "processors">;
  readonly labels: Labels;
  /** Set on the volumes that the engine creates for the home directory and /var/tmp. */
  readonly ownLabels: Labels;
  /** The image has no link there; the root profile does not need it, since its root is writable. */
  readonly mountVarTmp: boolean;
  readonly runnerVolume: string;
  readonly workspace: MountSource;
  readonly workspaces: readonly {
    readonly source: MountSource;
    readonly path: string;
    readonly readOnly: boolean;
  }[];
  /** Directories of the image that become volumes with what the image has there. */
  readonly copiedDirectories: readonly string[];
  readonly runtime?: string | undefined;
  /** The engine's name for the network of sandboxes that have one. */
  readonly network?: string | undefined;
}

/** Between the score of daemons and the one that the runner gives to code. */
const CONTAINER_OOM_SCORE = 500;

/** Far more than rlimits need: engines run with more open files than they grant. */
const ENGINE_OPEN_FILES = 65_536;

export function sandboxSettings(settings: SandboxSettings): ContainerSettings {
  const { spec, facts } = settings;
  const storage = divideMemory(spec.limits.memoryBytes);
  const writableRoot = spec.profile === "root";
  const network = spec.network === "full" ? settings.network : undefined;
  return {
    name: spec.id,
    // By id: the tag may have moved to another image.
    Image: settings.imageId,
    // Only the variables are taken from the image's configuration.
    Entrypoint: [RUNNER_PATH],
    Cmd: runnerArguments(settings),
    Env: environmentOf(spec.profile, settings.imageEnv, spec.env, spec.network),
    User: "0:0",
    // SECURITY: against linked mount points: never a directory chosen by the image, such as
    // /proc/self/fd/7.
    WorkingDir: "/",
    Hostname: "sandbox",
    Domainname: "",
    Labels: { ...settings.labels },
    Tty: false,
    OpenStdin: true,
    StopSignal: "SIGTERM",
    // An image may define a health check, which the engine would run inside.
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      // SECURITY: against linked mount points: sandboxes share the image and never write to it. The
      // root profile writes to a separate layer.
      ReadonlyRootfs: !writableRoot,
      Privileged: false,
      Init: false,
      AutoRemove: false,
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "none", Config: {} },
      // SECURITY: against gaining privileges and attacks on PID 1: PID 1 has only what it needs and
      // code has nothing. CHOWN is needed at the start, while volumes belong to root; the runner
      // gives it up before any code runs.
      CapDrop: ["ALL"],
      CapAdd: [...new Set([...capabilitiesOf(spec.profile), "CAP_CHOWN"])],
      SecurityOpt: securityOptions(facts.architecture),
      // SECURITY: against reaching a network and reaching another sandbox: separate namespaces; the
      // network has only `lo`, or what the administrator configures, which is never the machine's
      // own. No /dev/shm from the engine, which has no inode limit.
      NetworkMode: network ?? "none",
      IpcMode: "none",
      PidMode: "",
      UTSMode: "",
      // On version 1 a cgroup namespace hides nothing.
      ...(facts.cgroupVersion === "2" && { CgroupnsMode: "private" }),
      // The machine's name servers are hidden from the sandbox (threat: leaked secrets and
      // descriptors), unless it needs them.
      ...(network === undefined && { Dns: ["127.0.0.1"], DnsOptions: [], DnsSearch: ["."] }),
      // SECURITY: against changing kernel settings and reading kernel state. The engine always
      // mounts /sys and message queues.
      MaskedPaths: [...MASKED_PATHS, "/sys", "/dev/mqueue"],
      ReadonlyPaths: READONLY_PATHS,
      Sysctls: { ...ipcSysctls(storage.sysvShmBytes), ...networkSysctls(spec.network) },
      Tmpfs: {
        "/tmp": tmpfs(storage.tmp, "exec,mode=1777"),
        "/run": tmpfs(storage.run, "noexec,mode=755"),
        "/dev/shm": tmpfs(storage.shm, "exec,mode=1777"),
      },
      ...limits(spec, facts.processors),
      Mounts: mounts(settings),
      ...(settings.runtime !== undefined && { Runtime: settings.runtime }),
    },
  };
}

function runnerArguments(settings: SandboxSettings): string[] {
  const written = settings.workspaces.filter(({ readOnly }) => !readOnly);
  const owned = [WORKSPACE_PATH, ...ownVolumes(settings), ...written.map(({ path }) => path)];
  const own = owned.flatMap((path) => ["--own", path]);
  const user =
    settings.spec.profile === "root"
      ? ["--user", "0:0", "--allow-user"]
      : ["--user", CODE_USER, ...own];
  return ["init", ...user, "--workdir", WORKSPACE_PATH];
}

/**
 * SECURITY: against new namespaces, mounting filesystems, device access, changing kernel settings,
 * reading kernel state, rare kernel interfaces, foreign system calls and gaining privileges: our
 * own profile, and set-id files gain nothing. Both apply regardless of the engine's defaults.
 */
function securityOptions(architecture: string): string[] {
  const profile = buildSeccompProfile(architecture, { missing: "rule" });
  return ["no-new-privileges", `seccomp=${JSON.stringify(profile)}`];
}

/**
 * SECURITY: against fork bombs, exhausting memory, filling memory-backed storage, hogging the CPU
 * and using up descriptors. There is no swap, so the memory limit covers everything.
 */
function limits(
  { limits: wanted }: SandboxSpec,
  processors: number,
): ContainerSettings["HostConfig"] {
  return {
    Memory: wanted.memoryBytes,
    MemorySwap: wanted.memoryBytes,
    // An engine refuses more CPUs than it has.
    NanoCpus: Math.min(wanted.cpuMillicores * 1_000_000, processors * 1_000_000_000),
    PidsLimit: wanted.pids,
    // An engine with CAP_SYS_RESOURCE makes this the minimum to which code can lower its score.
    OomScoreAdj: CONTAINER_OOM_SCORE,
    Ulimits: rlimitsOf(ENGINE_OPEN_FILES).map(({ name, soft, hard }) => ({
      Name: name,
      Soft: soft,
      Hard: hard,
    })),
  };
}

function tmpfs({ bytes, inodes }: TmpfsSize, more: string): string {
  return `rw,nosuid,nodev,size=${bytes},nr_inodes=${inodes},${more}`;
}

/** Where a sandbox has private volumes, in addition to its workspace. */
function ownVolumes({ spec, mountVarTmp }: SandboxSettings): string[] {
  return mountVarTmp && spec.profile === "restricted" ? [HOME_PATH, VAR_TMP_PATH] : [HOME_PATH];
}

function mounts(settings: SandboxSettings): MountSettings[] {
  const { runnerVolume, workspace, workspaces, copiedDirectories, ownLabels } = settings;
  return [
    // SECURITY: against replaced sockets: what the engine runs inside as root comes from here, and
    // code cannot write to it.
    { ...mountOf({ kind: "volume", name: runnerVolume }, RUNNER_DIRECTORY), ReadOnly: true },
    ...WORKSPACE_PATHS.map((path) => mountOf(workspace, path)),
    // Unnamed, so it is removed with the container.
    ...ownVolumes(settings).map((path) => mountOf({ kind: "volume", name: "" }, path, ownLabels)),
    ...copiedDirectories.map((path) => copiedVolume(path, ownLabels)),
    ...workspaces.map(({ source, path, readOnly }) => ({
      ...mountOf(source, path),
      ReadOnly: readOnly,
    })),
  ];
}

/** The engine fills it from the image before the container starts. */
function copiedVolume(target: string, labels: Labels): MountSettings {
  const mount = mountOf({ kind: "volume", name: "" }, target, labels);
  const { VolumeOptions: options } = mount;
  return {
    ...mount,
    ...(options !== undefined && { VolumeOptions: { ...options, NoCopy: false } }),
  };
}

/** Nothing of the image is copied into a volume: what is there is hidden, on every backend alike. */
export function mountOf(source: MountSource, target: string, labels?: Labels): MountSettings {
  if (source.kind === "directory") return { Type: "bind", Source: source.path, Target: target };
  const options = {
    NoCopy: true,
    ...(labels !== undefined && { Labels: { ...labels } }),
    ...(source.subpath !== undefined && { Subpath: source.subpath }),
  };
  return {
    Type: "volume",
    Source: source.name,
    Target: target,
    // The library's type requires all options, the engine none.
    VolumeOptions: options as unknown as NonNullable<MountSettings["VolumeOptions"]>,
  };
}
