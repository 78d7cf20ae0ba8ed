/** Measures the memory of processes, of cgroups and of the machine. */
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const KIB = 1024;
const SAMPLE_EVERY_MS = 20;

/** Excludes garbage from the measured growth. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
}

/** The resident memory of a process. */
export function rssBytes(pid: number): number {
  return kernelBytes(readFileSync(`/proc/${pid}/status`, "utf8"), "VmRSS");
}

/** The available memory of the machine. */
export function availableBytes(): number {
  return kernelBytes(readFileSync("/proc/meminfo", "utf8"), "MemAvailable");
}

/** The highest RSS of a process during an action. */
export async function peakRssDuring(pid: number, act: () => Promise<unknown>): Promise<number> {
  let peakBytes = rssBytes(pid);
  const look = (): void => {
    peakBytes = Math.max(peakBytes, rssBytes(pid));
  };
  const timer = setInterval(look, SAMPLE_EVERY_MS);
  try {
    await act();
  } finally {
    clearInterval(timer);
  }
  look();
  return peakBytes;
}

export interface ProcessMemory {
  readonly pid: number;
  readonly command: string;
  readonly rssBytes: number;
  /** Pages shared by several processes count proportionally. */
  readonly pssBytes: number;
}

export async function processMemory(pid: number): Promise<ProcessMemory> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const command = (await readFile(`/proc/${pid}/comm`, "utf8")).trim();
  return {
    pid,
    command,
    rssBytes: kernelBytes(rollup, "Rss"),
    pssBytes: kernelBytes(rollup, "Pss"),
  };
}

/** All processes in a cgroup and below. */
export async function processesIn(cgroup: string): Promise<number[]> {
  const own = (await readFile(join(cgroup, "cgroup.procs"), "utf8")).split("\n").filter(Boolean);
  const below = (await readdir(cgroup, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map((entry) => processesIn(join(cgroup, entry.name)));
  return [...own.map(Number), ...(await Promise.all(below)).flat()];
}

/**
 * What a cgroup is charged for processes, files and the kernel. Its total would include pages that
 * the kernel charges in advance, up to 64 on each processor.
 */
export async function chargedBytes(cgroup: string): Promise<number> {
  const stat = await readFile(join(cgroup, "memory.stat"), "utf8");
  const field = (name: string): number =>
    Number(new RegExp(`^${name} (\\d+)$`, "mu").exec(stat)?.[1] ?? Number.NaN);
  const unified = field("anon") + field("file") + field("kernel");
  if (!Number.isNaN(unified)) return unified;
  const kernel = await readFile(join(cgroup, "memory.kmem.usage_in_bytes"), "utf8");
  return field("rss") + field("cache") + Number(kernel);
}

/** A kernel field, as in `VmRSS:   1234 kB`. */
function kernelBytes(text: string, field: string): number {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB$`, "mu").exec(text)?.[1];
  if (kib === undefined) throw new Error(`the kernel does not tell ${field}`);
  return Number(kib) * KIB;
}
