/** What a sandbox is asked of the engine: all of its isolation, in the terms of Docker's API. */
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
/** /work is another name of /workspace. */
const WORKSPACE_PATHS = [WORKSPACE_PATH, "/work"] as const;

/**
 * All directories that something is mounted on. In an image they are real directories or missing.
 *
 * SECURITY: against linked mount points: an older runc writes where a link in an image leads to.
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
  /** On the volumes that the engine makes for the home directory and /var/tmp. */
  readonly ownLabels: Labels;
  /** The image has no link there; the root profile does without, for it can write to its root. */
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
  /** What the engine calls the network of sandboxes that have one. */
  readonly network?: string | undefined;
}

/** Between what daemons have and what the runner gives to code. */
const CONTAINER_OOM_SCORE = 500;

/** Far more than rlimits need: engines run with more open files than they give. */
const ENGINE_OPEN_FILES = 65_536;

export function sandboxSettings(settings: SandboxSettings): ContainerSettings {
  const { spec, facts } = settings;
  const storage = divideMemory(spec.limits.memoryBytes);
  const writableRoot = spec.profile === "root";
  const network = spec.network === "full" ? settings.network : undefined;
  return {
    name: spec.id,
    // By its id: a tag may be another image's by now.
    Image: settings.imageId,
    // Nothing of the image's own configuration but its variables.
    Entrypoint: [RUNNER_PATH],
    Cmd: runnerArguments(settings),
    Env: environmentOf(spec.profile, settings.imageEnv, spec.env, spec.network),
    User: "0:0",
    // SECURITY: against linked mount points: never a directory of the image's choice, such as
    // /proc/self/fd/7.
    WorkingDir: "/",
    Hostname: "sandbox",
    Domainname: "",
    Labels: { ...settings.labels },
    Tty: false,
    OpenStdin: true,
    StopSignal: "SIGTERM",
    // An image may ask for a check of its own, which the engine would run inside.
    Healthcheck: { Test: ["NONE"] },
    HostConfig: {
      // SECURITY: against linked mount points: the image is shared by sandboxes and never written to.
      // The root profile writes to a layer of its own.
      ReadonlyRootfs: !writableRoot,
      Privileged: false,
      Init: false,
      AutoRemove: false,
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "none", Config: {} },
      // SECURITY: against gaining privileges and attacks on PID 1: PID 1 has what it needs and code has
      // nothing. CHOWN is for the first moment, when volumes are root's; the runner gives it up before
      // there is any code.
      CapDrop: ["ALL"],
      CapAdd: [...new Set([...capabilitiesOf(spec.profile), "CAP_CHOWN"])],
      SecurityOpt: securityOptions(facts.architecture),
      // SECURITY: against reaching a network and reaching another sandbox: namespaces of its own; `lo`
      // alone in that of the network, or what the administrator names, which is never the machine's
      // own. No /dev/shm of the engine's making, which has no limit of files.
      NetworkMode: network ?? "none",
      IpcMode: "none",
      PidMode: "",
      UTSMode: "",
      // On version 1 a namespace of cgroups hides nothing.
      ...(facts.cgroupVersion === "2" && { CgroupnsMode: "private" }),
      // The machine's own name servers are none of the sandbox's business (threat: leaked secrets and descriptors), unless it has use for them.
      ...(network === undefined && { Dns: ["127.0.0.1"], DnsOptions: [], DnsSearch: ["."] }),
      // SECURITY: against changing kernel settings and reading kernel state. The engine mounts /sys and
      // message queues for everybody.
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
 * reading kernel state, rare kernel interfaces, foreign system calls and gaining privileges: our own
 * profile, and no set-id file gains anything. Both go with the container, whatever the engine's
 * defaults are.
 */
function securityOptions(architecture: string): string[] {
  const profile = buildSeccompProfile(architecture, { missing: "rule" });
  return ["no-new-privileges", `seccomp=${JSON.stringify(profile)}`];
}

/**
 * SECURITY: against fork bombs, exhausting memory, filling memory-backed storage, hogging the CPU and
 * using up descriptors. There is no swap, so memory is all that there is.
 */
function limits(
  { limits: wanted }: SandboxSpec,
  processors: number,
): ContainerSettings["HostConfig"] {
  return {
    Memory: wanted.memoryBytes,
    MemorySwap: wanted.memoryBytes,
    // An engine refuses more than there are.
    NanoCpus: Math.min(wanted.cpuMillicores * 1_000_000, processors * 1_000_000_000),
    PidsLimit: wanted.pids,
    // An engine that has CAP_SYS_RESOURCE makes it the least that code can lower its own to.
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

/** Where a sandbox has volumes that go with it, beside its workspace. */
function ownVolumes({ spec, mountVarTmp }: SandboxSettings): string[] {
  return mountVarTmp && spec.profile === "restricted" ? [HOME_PATH, VAR_TMP_PATH] : [HOME_PATH];
}

function mounts(settings: SandboxSettings): MountSettings[] {
  const { runnerVolume, workspace, workspaces, copiedDirectories, ownLabels } = settings;
  return [
    // SECURITY: against replaced sockets: what the engine runs inside as root is from here, and code
    // cannot write it.
    { ...mountOf({ kind: "volume", name: runnerVolume }, RUNNER_DIRECTORY), ReadOnly: true },
    ...WORKSPACE_PATHS.map((path) => mountOf(workspace, path)),
    // Without a name, so that it goes with the container.
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
    // The library's type asks for all options, the engine for none.
    VolumeOptions: options as unknown as NonNullable<MountSettings["VolumeOptions"]>,
  };
}
