/**
 * Builds the `config.json` of a sandbox: all of its isolation except what the launcher alone can
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
  /** The sandbox's memory limit; half of it may be files in memory. */
  readonly memoryBytes: number;
  /** Variables of the image's configuration. */
  readonly imageEnv: Readonly<Record<string, string>>;
  /** Variables that the caller asked for. */
  readonly env: Readonly<Record<string, string>>;
  /** Directories of the machine that are part of the image (`ImageRootfs.binds`). */
  readonly binds: ImageRootfs["binds"];
  /** The processor, as Node names it (`process.arch`). */
  readonly architecture: string;
  /** True on machines with cgroup v2 alone; elsewhere a cgroup namespace hides nothing. */
  readonly cgroupNamespace: boolean;
  /**
   * How the runner is reached: through a socket that it inherits, or, with runtimes that pass no
   * descriptors on, through one of its own inside, by a relay.
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
 * @throws SandboxError `INVALID_REQUEST` or `INVALID_IMAGE` when an option cannot become part of a
 * configuration, `UNSUPPORTED` when this machine cannot hold a sandbox to it.
 */
export function buildOciConfig(options: OciConfigOptions): OciConfig {
  const storage = divideMemory(options.memoryBytes);
  // What gVisor's /proc shows is its own kernel's, and reaches nothing of the host.
  const readOnlyProc = options.profile === "restricted" && options.transport === "socket";
  return {
    ociVersion: "1.0.2",
    // SECURITY: against linked mount points: the image is shared by sandboxes and never written to. The
    // root profile writes to a layer of its own.
    root: { path: "rootfs", readonly: options.profile !== "root" },
    hostname: "sandbox",
    process: {
      terminal: false,
      // Root of the user namespace: an unprivileged id on the machine (threat: gaining privileges).
      user: { uid: 0, gid: 0, umask: 0o022, additionalGids: [] },
      args: runnerArguments(options.profile, options.transport),
      env: environmentOf(options.profile, options.imageEnv, options.env, options.network),
      // Not the workspace: the runtime would resolve a directory that code can replace (threat: linked
      // mount points).
      cwd: "/",
      capabilities: capabilities(options.profile),
      rlimits: rlimits(options.maxOpenFiles),
      // SECURITY: against gaining privileges: no set-id file or file capability gains anything, in
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
 * SECURITY: against reaching a network and reaching another sandbox: each sandbox has all namespaces of
 * its own. A new network namespace holds `lo` and nothing else. Guarded by isolation.container.test.ts.
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
