/** An agent's limits in the daemon's terms. */
import type { CreateSessionOptions } from "@sandkasten/sdk";
import type { SandboxSettings } from "./parse-settings.ts";

/** Undefined if there are none, so that a pooled sandbox can be used. */
export function daemonLimits({ limits }: SandboxSettings): CreateSessionOptions["limits"] {
  const { cpuMillicores, memoryMb, pids, workspaceMb } = limits;
  const given = {
    ...(cpuMillicores !== undefined && { cpuMillicores }),
    ...(memoryMb !== undefined && { memoryMb }),
    ...(pids !== undefined && { pids }),
    ...(workspaceMb !== undefined && { diskMb: workspaceMb }),
  };
  return Object.keys(given).length === 0 ? undefined : given;
}
