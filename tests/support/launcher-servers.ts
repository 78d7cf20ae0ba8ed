/** Finds the launcher servers of a process. */
import { readdir, readFile } from "node:fs/promises";

/** By parent and command line. */
export async function launcherServersOf(parent: number): Promise<number[]> {
  const pids = (await readdir("/proc")).map(Number).filter((pid) => pid > 0);
  const servers: number[] = [];
  for (const pid of pids) {
    if ((await standingOf(pid))?.parent !== parent) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.endsWith("/launcher\0serve\0")) servers.push(pid);
  }
  return servers;
}

/** Nothing of the process is left, or only a zombie that waits for the machine's init. */
export async function isGone(pid: number): Promise<boolean> {
  const found = await standingOf(pid);
  return found === undefined || (found.state === "Z" && found.parent === 1);
}

async function standingOf(
  pid: number,
): Promise<{ readonly state: string; readonly parent: number } | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return state ? { state, parent: Number(parent) } : undefined;
}
