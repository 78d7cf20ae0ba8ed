/** The capabilities of PID 1, by profile. */
import type { SandboxProfile } from "../../ports/backend.ts";

/**
 * SECURITY: against gaining privileges and attacks on PID 1: the runner is root inside, with only
 * what it needs: to become the code user (SETUID, SETGID) and to signal its processes (KILL). Code
 * gives up uid 0, and with it every capability, before it runs. Guarded by
 * isolation.container.test.ts.
 */
const RESTRICTED = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"];

/**
 * SECURITY: against gaining privileges: what installing packages and running services as root
 * requires, over the sandbox's own files, processes and `lo` only. Left out, although container
 * engines often grant them: SYS_CHROOT and MKNOD (the calls are refused anyway), NET_RAW (raw
 * sockets are kernel attack surface, and there is no network to ping), SETPCAP, SETFCAP and
 * AUDIT_WRITE (no_new_privs makes them useless), SYS_PTRACE, SYS_ADMIN, NET_ADMIN and all others.
 * In this profile code has the runner's rights, so the daemon must expect a compromised runner.
 */
const ROOT = [
  ...RESTRICTED,
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_NET_BIND_SERVICE",
];

/**
 * The capabilities of PID 1. None of them is inheritable or ambient, so none survives the change to
 * another user.
 */
export function capabilitiesOf(profile: SandboxProfile): readonly string[] {
  return profile === "root" ? ROOT : RESTRICTED;
}
