/** Finds the agent service started by `sandkasten start`. */
import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";

/** @param parent - The process of `start`. */
export async function agentsPid(parent: ChildProcess): Promise<number> {
  const children = await readFile(`/proc/${parent.pid}/task/${parent.pid}/children`, "utf8");
  for (const pid of children.trim().split(" ")) {
    const words = await argumentsOf(Number(pid));
    if (words.includes("agents") && words.includes("serve")) return Number(pid);
  }
  throw new Error(`there is no agent service among ${children}`);
}

/** As every user of the machine can read them. */
export async function argumentsOf(pid: number): Promise<readonly string[]> {
  return (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
