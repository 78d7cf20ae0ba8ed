/** The host ids of a sandbox, from outside: gVisor shows code the map of its own kernel. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { SandboxMachine } from "../../support/sandbox-machine.ts";

/** The host process of the sandbox's PID 1, or of gVisor's kernel around it. */
export async function hostPid(machine: SandboxMachine, id: string): Promise<number> {
  const path = join(machine.dataDir, "sandboxes", id, "sandbox.json");
  const { pid } = JSON.parse(await readFile(path, "utf8")) as { pid: number };
  return pid;
}

export async function hostIds(
  machine: SandboxMachine,
  id: string,
): Promise<{ inside: number; outside: number; count: number }> {
  const map = await readFile(`/proc/${await hostPid(machine, id)}/uid_map`, "utf8");
  const [inside = NaN, outside = NaN, count = NaN] = map.trim().split(/\s+/u).map(Number);
  return { inside, outside, count };
}
