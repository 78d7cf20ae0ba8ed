/** Adapts a sandbox to gVisor, which has its own kernel inside and is one process with limits outside. */
import type { SandboxLimits } from "../../../ports/backend.ts";
import { PLACEHOLDERS } from "./mounts.ts";
import type { OciConfig, OciMount } from "./oci-spec.ts";

/** Recursive mount options, and options of the host's proc and devpts, which gVisor lacks. */
const FOREIGN = /^(?:rnosuid|rnodev|rro|hidepid=.*|gid=.*|max=.*|newinstance|ptmxmode=.*)$/u;

/** Where the cgroups of gVisor's kernel are mounted. On a tmpfs, so images need no such directory. */
const GUEST_CGROUPS = "/run/cgroup";

/**
 * SECURITY: no network but a loopback in gVisor's own stack; no writable layer in the host's memory
 * over the root; our seccomp profile also applies inside (threats: new namespaces, rare kernel
 * interfaces and reaching a network; guarded by tests/hostile/isolation.test.ts).
 */
export const GVISOR_FLAGS = [
  "--network=none",
  "--platform=systrap",
  "--overlay2=none",
  "--oci-seccomp",
  "--in-sandbox-cgroup=v2",
];

const GIB = 2 ** 30;

/**
 * How much code can take before the runner has stopped it. The runner looks every 10 ms, later on a busy
 * machine, and a kill waits for the end of the system call. One call takes up to 2 GiB, and the kernel
 * some memory for itself.
 */
const ROOM_FOR_BURSTS_BYTES = 2.5 * GIB;

/**
 * The host's limits for all of gVisor. Its kernel needs additional memory, and a few host threads
 * for each process inside. Hitting a host limit ends the whole sandbox; so the runner enforces the
 * session's limits inside, and the host's limits leave room for the time that takes.
 */
export function hostLimitsForGvisor<T extends Pick<SandboxLimits, "memoryBytes" | "pids">>(
  limits: T,
): T {
  return {
    ...limits,
    memoryBytes: Math.ceil(limits.memoryBytes * 1.25) + ROOM_FOR_BURSTS_BYTES,
    pids: limits.pids * 4 + 512,
  };
}

/**
 * SECURITY: what is removed here concerns the host's kernel. gVisor exposes none of it: mounts,
 * processes and terminals inside are its own, and the plain forms of the flags stay.
 */
export function fitForGvisor(config: OciConfig, limits: SandboxLimits): OciConfig {
  const { process, mounts, linux } = config;
  return {
    ...config,
    process: {
      ...process,
      args: [
        ...process.args,
        "--guest-cgroups",
        GUEST_CGROUPS,
        "--guest-pids",
        String(limits.pids),
        "--guest-memory",
        String(limits.memoryBytes),
      ],
    },
    mounts: [
      ...mounts.map(fitMount),
      {
        destination: GUEST_CGROUPS,
        type: "cgroup",
        source: "cgroup",
        options: ["nosuid", "nodev", "noexec"],
      },
    ],
    linux: {
      ...linux,
      // The runner sets limits on its own cgroup, which the root of a cgroup namespace refuses.
      namespaces: linux.namespaces.filter(({ type }) => type !== "cgroup"),
    },
  };
}

function fitMount(mount: OciMount): OciMount {
  // gVisor provides its own devices; none of the host's is exposed.
  if (mount.source === PLACEHOLDERS.devices)
    return { ...mount, type: "tmpfs", source: "tmpfs", options: ["mode=755", "nosuid", "noexec"] };
  return { ...mount, options: mount.options.filter((option) => !FOREIGN.test(option)) };
}
