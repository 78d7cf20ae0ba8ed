/** Which limits a sandbox can have. */
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxLimits } from "../../ports/backend.ts";

/** Least and most of each; less than the least and not even the runner and a shell would start. */
const RANGES: Readonly<Record<keyof SandboxLimits, readonly [number, number]>> = {
  memoryBytes: [16 * 2 ** 20, 2 ** 43],
  cpuMillicores: [10, 1_000_000],
  pids: [16, 4_000_000],
  diskBytes: [4 * 2 ** 20, 2 ** 43],
  diskInodes: [64, 2 ** 31],
};

export function checkLimits(limits: SandboxLimits): void {
  for (const [name, [least, most]] of Object.entries(RANGES)) {
    const value = limits[name as keyof SandboxLimits];
    if (Number.isSafeInteger(value) && value >= least && value <= most) continue;
    throw new SandboxError(
      "INVALID_REQUEST",
      `the limit ${name} must be a whole number from ${least} to ${most}, not ${value}`,
      { details: { limit: name, least, most } },
    );
  }
}
