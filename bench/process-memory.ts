/** Looks at the memory of processes and cgroups. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const KIB = 1024;
const SAMPLE_EVERY_MS = 20;

/** So that what is no longer needed does not count as growth. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
}

/** The highest RSS of this process while something goes on. */
export async function peakRssDuring(act: () => Promise<unknown>): Promise<number> {
  let peakBytes = process.memoryUsage.rss();
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, process.memoryUsage.rss());
  }, SAMPLE_EVERY_MS);
  try {
    await act();
  } finally {
    clearInterval(timer);
  }
  return Math.max(peakBytes, process.memoryUsage.rss());
}

export interface ProcessMemory {
  readonly pid: number;
  readonly command: string;
  readonly rssBytes: number;
  /** Pages that several processes share count in parts. */
  readonly pssBytes: number;
}

export async function processMemory(pid: number): Promise<ProcessMemory> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const bytes = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "mu").exec(rollup)?.[1] ?? 0) * KIB;
  const command = (await readFile(`/proc/${pid}/comm`, "utf8")).trim();
  return { pid, command, rssBytes: bytes("Rss"), pssBytes: bytes("Pss") };
}

/** All processes in a cgroup and below. */
export async function processesIn(cgroup: string): Promise<number[]> {
  const own = (await readFile(join(cgroup, "cgroup.procs"), "utf8")).split("\n").filter(Boolean);
  const below = (await readdir(cgroup, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map((entry) => processesIn(join(cgroup, entry.name)));
  return [...own.map(Number), ...(await Promise.all(below)).flat()];
}
