/** The capabilities of PID 1, by profile. */
import type { SandboxProfile } from "../../ports/backend.ts";

/**
 * SECURITY: against gaining privileges and attacks on PID 1: the runner is root inside, with only what
 * it does: become the code user (SETUID, SETGID) and signal its processes (KILL). Code leaves uid 0,
 * and with it every capability, before it runs. Guarded by isolation.container.test.ts.
 */
const RESTRICTED = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"];

/**
 * SECURITY: against gaining privileges: what installing packages and running services as root takes,
 * over the sandbox's own files, processes and `lo` only. Left out, although container engines often
 * give them: SYS_CHROOT and MKNOD (the calls are refused anyway), NET_RAW (raw sockets are kernel
 * surface, and there is no network to ping), SETPCAP, SETFCAP and AUDIT_WRITE (no_new_privs voids what
 * they are for), SYS_PTRACE, SYS_ADMIN, NET_ADMIN and all else. In this profile code has the runner's
 * own rights, so the daemon must expect a captured runner.
 */
const ROOT = [
  ...RESTRICTED,
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_NET_BIND_SERVICE",
];

/** What PID 1 holds; nothing of it is inheritable or ambient, so none outlives the change to another user. */
export function capabilitiesOf(profile: SandboxProfile): readonly string[] {
  return profile === "root" ? ROOT : RESTRICTED;
}
