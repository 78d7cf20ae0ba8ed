/** The policy that maps measured facts to a tier, for all container backends. */
import type { IsolationFact, IsolationReport, SandboxProfile } from "../../ports/backend.ts";

/** What separates a sandbox from the host, and from other sandboxes, on a shared kernel. */
const SHARED_KERNEL = [
  "user_namespace",
  "pid_namespace",
  "mount_namespace",
  "network_namespace",
  "ipc_namespace",
  "uts_namespace",
  "seccomp",
  "no_new_privileges",
  "code_capabilities",
  "no_network",
  "disk_quota",
  // An outdated runtime may have holes in any of the above that are not measured here.
  "runtime_current",
];

/** Without a separate user, code can reach the runner. In the root profile it is allowed to. */
const RESTRICTED_PROFILE = ["code_user", "init_protected"];

/** The host must enforce these even if the sandbox has a separate kernel. */
const HOST_LIMITS = ["memory_limit", "pids_limit", "cpu_limit"];

/**
 * SECURITY: a missing fact counts as not enforced, so a backend that measures too little never looks
 * safer than it is. Guarded by isolation-tier.test.ts.
 */
export function isolationTier(
  profile: SandboxProfile,
  facts: readonly IsolationFact[],
): IsolationReport["tier"] {
  const enforced = new Set(facts.filter((fact) => fact.enforced).map(({ name }) => name));
  const holds = (names: readonly string[]): boolean => names.every((name) => enforced.has(name));
  if (!holds(HOST_LIMITS)) return "weak";
  if (enforced.has("own_kernel")) return "strong";
  if (profile === "restricted" && !holds(RESTRICTED_PROFILE)) return "weak";
  return holds(SHARED_KERNEL) ? "standard" : "weak";
}
