/** Reads and changes a sandbox's cgroups, on version 1 and version 2. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { readOnce } from "./kernel-files.ts";
import type { ReadFile } from "./kernel-files.ts";
import { isMissing } from "./sandbox-record.ts";

/** The cgroup directories of one sandbox, by controller (`unified` for version 2). */
export type CgroupPaths = Readonly<Record<string, string>>;

export interface CgroupUsage {
  readonly memoryBytes: number;
  readonly memoryLimitBytes: number;
  readonly cpuUsageUsec: number;
  readonly pids: number;
  readonly pidsLimit: number;
  readonly oomKills: number;
}

/** On version 1 a memory limit of nearly 2^63 means unlimited. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;
const FREEZE_TIMEOUT_MS = 10_000;

export function readUsage(paths: CgroupPaths, read: ReadFile = readOnce): CgroupUsage {
  const { memory, pids, cpuacct, unified } = paths;
  const readNumber = (directory: string | undefined, file: string): number =>
    numberIn(readText(directory, file, read));
  const readField = (directory: string | undefined, file: string, field: string): number =>
    fieldIn(readText(directory, file, read), field);
  return {
    memoryBytes: memory
      ? readNumber(memory, "memory.usage_in_bytes")
      : readNumber(unified, "memory.current"),
    memoryLimitBytes: memory
      ? readNumber(memory, "memory.limit_in_bytes")
      : readNumber(unified, "memory.max"),
    cpuUsageUsec: cpuacct
      ? Math.round(readNumber(cpuacct, "cpuacct.usage") / 1000)
      : readField(unified, "cpu.stat", "usage_usec"),
    pids: readNumber(pids ?? unified, "pids.current"),
    pidsLimit: readNumber(pids ?? unified, "pids.max"),
    oomKills: memory
      ? readField(memory, "memory.oom_control", "oom_kill")
      : readField(unified, "memory.events", "oom_kill"),
  };
}

/** The CPU quota in thousandths of a processor; 0 if there is no quota. */
export function readCpuMillicores(paths: CgroupPaths): number {
  if (paths["cpu"]) {
    const quota = numberIn(readText(paths["cpu"], "cpu.cfs_quota_us"));
    const period = numberIn(readText(paths["cpu"], "cpu.cfs_period_us"));
    return quota > 0 && period > 0 ? Math.round((quota * 1000) / period) : 0;
  }
  const text = readText(paths["unified"], "cpu.max");
  const [quota, period] = (text ?? "").trim().split(" ").map(Number);
  return quota && period ? Math.round((quota * 1000) / period) : 0;
}

/** Stops every process of the sandbox; it uses no more processor time. */
export async function freeze(paths: CgroupPaths): Promise<void> {
  await setFrozen(paths, true);
}

export async function thaw(paths: CgroupPaths): Promise<void> {
  await setFrozen(paths, false);
}

export function isFrozen(paths: CgroupPaths, read: ReadFile = readOnce): boolean {
  // The unified hierarchy can freeze even without controllers on it; version 1 is the fallback.
  if (paths["unified"])
    return fieldIn(readText(paths["unified"], "cgroup.events", read), "frozen") === 1;
  return readText(paths["freezer"], "freezer.state", read)?.trim() === "FROZEN";
}

async function setFrozen(paths: CgroupPaths, frozen: boolean): Promise<void> {
  if (paths["unified"])
    await writeFile(join(paths["unified"], "cgroup.freeze"), frozen ? "1" : "0");
  else if (paths["freezer"])
    await writeFile(join(paths["freezer"], "freezer.state"), frozen ? "FROZEN" : "THAWED");
  else
    throw new SandboxError(
      "UNSUPPORTED",
      "the daemon has no cgroup on this machine to pause sandboxes with; run it as root",
    );
  const deadline = performance.now() + FREEZE_TIMEOUT_MS;
  for (;;) {
    if (isFrozen(paths) === frozen) return;
    if (performance.now() > deadline)
      throw new SandboxError(
        "SANDBOX_UNREACHABLE",
        `the sandbox's processes did not ${frozen ? "stop" : "continue"} within ${FREEZE_TIMEOUT_MS / 1000} s`,
      );
    await sleep(1);
  }
}

function readText(
  directory: string | undefined,
  file: string,
  read: ReadFile = readOnce,
): string | undefined {
  if (directory === undefined) return undefined;
  try {
    return read(join(directory, file));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** 0 for values that this machine does not count, a very large number for unlimited ones. */
function numberIn(text: string | undefined): number {
  if (text === undefined) return 0;
  const value = text.trim();
  if (value === "max") return NO_LIMIT;
  return Math.min(Number(value), NO_LIMIT);
}

function fieldIn(text: string | undefined, field: string): number {
  const line = text?.split("\n").find((candidate) => candidate.startsWith(`${field} `));
  return line === undefined ? 0 : Number(line.slice(field.length + 1));
}
