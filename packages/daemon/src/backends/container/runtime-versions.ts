/** Which versions of the OCI runtimes have all fixes that we know to matter. */

export type RuntimeKind = "crun" | "runc" | "runsc";

/**
 * From these versions on a runtime is preferred. Older ones run all the same: what they are known
 * for (a rootfs whose mount points are links, descriptors of the host left open) is refused or
 * prevented before they are started.
 */
const CURRENT_FROM: Readonly<Record<RuntimeKind, readonly number[]>> = {
  crun: [1, 8],
  runc: [1, 2, 8],
  // Its versions are dates. This one has cgroups of its own inside, by which the runner limits code.
  runsc: [20_260_905],
};

export function isCurrent(kind: RuntimeKind, version: string): boolean {
  return atLeast(version, CURRENT_FROM[kind]);
}

/** Compares the numbers in a version one after the other; `0.0~20221219.0` counts by its date. */
export function atLeast(version: string, floor: readonly number[]): boolean {
  const text = version.includes("~") ? version.slice(version.indexOf("~") + 1) : version;
  const numbers = text.split(/\D+/u).filter(Boolean).map(Number);
  for (const [index, wanted] of floor.entries()) {
    const actual = numbers[index] ?? 0;
    if (actual !== wanted) return actual > wanted;
  }
  return true;
}
