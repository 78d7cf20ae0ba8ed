/** The OCI runtime versions that have all relevant fixes. */

export type RuntimeKind = "crun" | "runc" | "runsc";

/**
 * Runtimes are preferred from these versions on. Older ones still work: their known flaws (a rootfs
 * whose mount points are links, descriptors of the host left open) are refused or prevented before
 * they are started.
 */
const CURRENT_FROM: Readonly<Record<RuntimeKind, readonly number[]>> = {
  crun: [1, 8],
  runc: [1, 2, 8],
  // Its versions are dates. This one has its own cgroups inside, which the runner uses to limit
  // code.
  runsc: [20_260_905],
};

export function isCurrent(kind: RuntimeKind, version: string): boolean {
  return atLeast(version, CURRENT_FROM[kind]);
}

/** Compares the numbers of a version one by one; `0.0~20221219.0` counts by its date. */
export function atLeast(version: string, floor: readonly number[]): boolean {
  const text = version.includes("~") ? version.slice(version.indexOf("~") + 1) : version;
  const numbers = text.split(/\D+/u).filter(Boolean).map(Number);
  for (const [index, wanted] of floor.entries()) {
    const actual = numbers[index] ?? 0;
    if (actual !== wanted) return actual > wanted;
  }
  return true;
}
