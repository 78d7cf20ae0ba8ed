/** Checks the limits that the kernel reports as enforced, not those that were requested. */
import type { IsolationFact, SandboxLimits, SandboxStats } from "../../ports/backend.ts";

export interface EnforcedLimits extends Pick<SandboxStats, "memoryLimitBytes" | "pidsLimit"> {
  readonly cpuMillicores: number;
}

export function limitFacts(enforced: EnforcedLimits, wanted: SandboxLimits): IsolationFact[] {
  const { memoryLimitBytes, pidsLimit, cpuMillicores } = enforced;
  const holds = (limit: number, most: number): boolean => limit > 0 && limit <= most;
  return [
    {
      name: "memory_limit",
      enforced: holds(memoryLimitBytes, wanted.memoryBytes),
      measured: `${memoryLimitBytes} bytes`,
    },
    {
      name: "pids_limit",
      enforced: holds(pidsLimit, wanted.pids),
      measured: `${pidsLimit} processes`,
    },
    {
      name: "cpu_limit",
      enforced: holds(cpuMillicores, wanted.cpuMillicores),
      measured: `${cpuMillicores} millicores`,
    },
  ];
}
