/**
 * Builds the `config.json` of a sandbox: all of its isolation except what only the launcher can
 * know. The launcher fills in the root's path, the id mappings and the cgroup, and replaces the
 * sources that begin with `@`.
 */
import type { SandboxNetwork, SandboxProfile } from "../../../ports/backend.ts";
import type { ImageRootfs } from "../../../ports/image-store.ts";
import { capabilitiesOf } from "../../container/capabilities.ts";
import { environmentOf } from "../../container/environment.ts";
import { ipcSysctls } from "../../container/ipc-limits.ts";
import { networkSysctls } from "../../container/network.ts";
import { divideMemory } from "../../container/memory-backed-storage.ts";
import { CODE_USER, RUNNER_PATH, WORKSPACE_PATH } from "../../container/paths.ts";
import { MASKED_PATHS, PROC_PATH, READONLY_PATHS } from "../../container/proc-paths.ts";
import { rlimitsOf } from "../../container/rlimits.ts";
import { buildSeccompProfile } from "../../container/seccomp/profile.ts";
import { mountsOf } from "./mounts.ts";
import type { OciCapabilities, OciConfig, OciNamespace, OciRlimit } from "./oci-spec.ts";

export interface OciConfigOptions {
  readonly profile: SandboxProfile;
  /** The sandbox's memory limit; files in memory may use half of it. */
  readonly memoryBytes: number;
  /** Variables of the image's configuration. */
  readonly imageEnv: Readonly<Record<string, string>>;
  /** The caller's variables. */
  readonly env: Readonly<Record<string, string>>;
  /** Directories of the machine that belong to the image (`ImageRootfs.binds`). */
  readonly binds: ImageRootfs["binds"];
  /** Node's name for the processor (`process.arch`). */
  readonly architecture: string;
  /** True on machines with only cgroup v2; elsewhere a cgroup namespace hides nothing. */
  readonly cgroupNamespace: boolean;
  /**
   * How the runner is reached: through an inherited socket, or, with runtimes that do not pass
   * descriptors, through a socket inside the sandbox, by a relay.
   */
  readonly transport: "socket" | "relay";
  /** The daemon's own hard limit of open files: without CAP_SYS_RESOURCE it can only be lowered. */
  readonly maxOpenFiles: number;
  /** `none` when absent. */
  readonly network?: SandboxNetwork | undefined;
}

/** The file descriptors that the launcher hands to the runner. */
const RUNNER_FDS = { listen: 3, cgroup: 4, memory: 5, score: 6 } as const;

/**
 * @throws SandboxError `INVALID_REQUEST` or `INVALID_IMAGE` if an option cannot be part of a
 * configuration, `UNSUPPORTED` if this machine cannot enforce it.
 */
export function buildOciConfig(options: OciConfigOptions): OciConfig {
  const storage = divideMemory(options.memoryBytes);
  // gVisor's /proc belongs to its own kernel, and exposes nothing of the host.
  const readOnlyProc = options.profile === "restricted" && options.transport === "socket";
  return {
    ociVersion: "1.0.2",
    // SECURITY: against linked mount points: sandboxes share the image and never write to it. The
    // root profile writes to a separate layer.
    root: { path: "rootfs", readonly: options.profile !== "root" },
    hostname: "sandbox",
    process: {
      terminal: false,
      // Root of the user namespace: an unprivileged id on the machine (threat: gaining privileges).
      user: { uid: 0, gid: 0, umask: 0o022, additionalGids: [] },
      args: runnerArguments(options.profile, options.transport),
      env: environmentOf(options.profile, options.imageEnv, options.env, options.network),
      // Not the workspace: the runtime would resolve a directory that code can replace (threat:
      // linked mount points).
      cwd: "/",
      capabilities: capabilities(options.profile),
      rlimits: rlimits(options.maxOpenFiles),
      // SECURITY: against gaining privileges: set-id files and file capabilities gain nothing, in
      // either profile.
      noNewPrivileges: true,
      // No oomScoreAdj: the launcher sets it, with rights that a runtime no longer has (threat: exhausting memory).
    },
    mounts: mountsOf(storage, options.binds),
    linux: {
      namespaces: namespaces(options.cgroupNamespace),
      rootfsPropagation: "private",
      sysctl: { ...ipcSysctls(storage.sysvShmBytes), ...networkSysctls(options.network) },
      seccomp: buildSeccompProfile(options.architecture, {
        missing: options.transport === "relay" ? "kernel" : "default",
      }),
      maskedPaths: MASKED_PATHS,
      readonlyPaths: readOnlyProc ? [PROC_PATH, ...READONLY_PATHS] : READONLY_PATHS,
    },
  };
}

function runnerArguments(
  profile: SandboxProfile,
  transport: OciConfigOptions["transport"],
): string[] {
  const inherited = [
    "--listen-fd",
    String(RUNNER_FDS.listen),
    "--cgroup-fd",
    String(RUNNER_FDS.cgroup),
    "--memory-fd",
    String(RUNNER_FDS.memory),
    "--score-fd",
    String(RUNNER_FDS.score),
  ];
  return [
    RUNNER_PATH,
    "init",
    ...(transport === "socket" ? inherited : []),
    "--user",
    ...(profile === "root" ? ["0:0", "--allow-user"] : [CODE_USER]),
    "--workdir",
    WORKSPACE_PATH,
  ];
}

/**
 * SECURITY: against reaching a network and reaching another sandbox: each sandbox has separate
 * namespaces of every kind. A new network namespace contains only `lo`. Guarded by
 * isolation.container.test.ts.
 */
function namespaces(withCgroup: boolean): OciNamespace[] {
  const types = ["user", "pid", "mount", "network", "ipc", "uts"] as const;
  return [...types.map((type) => ({ type })), ...(withCgroup ? [{ type: "cgroup" as const }] : [])];
}

function rlimits(maxOpenFiles: number): OciRlimit[] {
  return rlimitsOf(maxOpenFiles).map(({ name, soft, hard }) => ({
    type: `RLIMIT_${name.toUpperCase()}`,
    soft,
    hard,
  }));
}

function capabilities(profile: SandboxProfile): OciCapabilities {
  const held = capabilitiesOf(profile);
  return { bounding: held, permitted: held, effective: held, inheritable: [], ambient: [] };
}
