/** The addresses of the machine that the daemon runs on. */
import { networkInterfaces } from "node:os";

/** Addresses rarely change, and querying the system for every connection would take time. */
const KEEP_MS = 10_000;

/**
 * SECURITY: the machine's public address reaches the daemon's own listener like loopback does, and
 * everything else that listens here. Guarded by policy.test.ts.
 */
export function ownAddresses(nowMs: () => number): (address: string) => boolean {
  let known = new Set<string>();
  let askedAtMs = -Infinity;
  return (address) => {
    if (nowMs() - askedAtMs > KEEP_MS) {
      askedAtMs = nowMs();
      known = new Set(
        Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address)),
      );
    }
    return known.has(address);
  };
}
