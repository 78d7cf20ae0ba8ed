/** What an engine can do for sandboxes, and what to do if it cannot. */
import type { BackendHealth } from "../../ports/backend.ts";
import { atLeast, isCurrent } from "../container/runtime-versions.ts";
import type { EngineFacts } from "./engine-view.ts";

type Check = BackendHealth["checks"][number];

/** The first version with everything we use: one-shot statistics, and custom masks and seccomp profiles. */
const API_FROM = [1, 41];

/** Required for sandboxes; without the others, isolation is only less strict. */
export const NEEDED: ReadonlySet<string> = new Set([
  "engine",
  "engine_version",
  "architecture",
  "seccomp",
  "memory_limit",
  "pids_limit",
  "runtime",
  "workspace",
]);

export interface HealthInputs {
  readonly facts: EngineFacts;
  /** The architecture that the runner was built for. */
  readonly architecture: string;
  readonly wantedRuntime: string | undefined;
  /** Accessed over a network, without TLS. */
  readonly unprotected: boolean;
}

export function engineChecks(inputs: HealthInputs): Check[] {
  const { facts, architecture, wantedRuntime, unprotected } = inputs;
  const runtime = wantedRuntime ?? facts.defaultRuntime;
  const check = (name: string, ok: boolean, detail: string, remedy: string): Check => ({
    name,
    ok,
    detail,
    ...(!ok && { remedy }),
  });
  return [
    check("engine", true, `Docker ${facts.version} on ${facts.operatingSystem}`, ""),
    check(
      "engine_version",
      atLeast(facts.apiVersion, API_FROM) && facts.operatingSystem === "linux",
      `API ${facts.apiVersion}`,
      "use Docker 20.10 or newer, with Linux containers",
    ),
    check(
      "architecture",
      facts.architecture === architecture,
      `the engine runs on ${facts.architecture}, the runner is built for ${architecture}`,
      "use an engine on a machine with the same architecture, or a daemon built for it",
    ),
    check("seccomp", facts.seccomp, "system call filter", "use a kernel with seccomp"),
    check("memory_limit", facts.limits.memory, "by cgroup", "give the engine a memory cgroup"),
    check("pids_limit", facts.limits.pids, "by cgroup", "give the engine a pids cgroup"),
    check("cpu_limit", facts.limits.cpu, "by cgroup", "give the engine a cpu cgroup with quotas"),
    check(
      "no_swap",
      facts.limits.swap || facts.cgroupVersion === "2",
      "memory limits include swap",
      "boot with swapaccount=1, or turn swap off",
    ),
    check(
      "runtime",
      facts.runtimes.includes(runtime),
      `${runtime}, of ${facts.runtimes.join(", ")}`,
      `add the runtime ${runtime} to the engine, or set docker.runtime to one that it has`,
    ),
    check(
      "runtime_runc",
      facts.runcVersion !== undefined && isCurrent("runc", facts.runcVersion),
      facts.runcVersion ?? "unknown",
      "install a newer runc",
    ),
    check(
      "user_namespace",
      facts.remapsUsers,
      facts.remapsUsers ? "containers have separate user ids" : "root inside is root outside",
      "start the engine with --userns-remap=default",
    ),
    check(
      "disk_quota",
      false,
      `volumes of an engine have no size limit (${facts.storageDriver})`,
      "monitor the engine's disk, or use the oci backend, which enforces disk limits",
    ),
    check(
      "connection",
      !unprotected,
      unprotected ? "open to everyone on the network" : "private",
      "give the engine TLS certificates and set docker.cert_path, or use ssh://",
    ),
  ];
}
