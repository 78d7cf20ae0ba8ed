/** The limits that a sandbox and its workspace can have. */
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxLimits, WorkspaceSpec } from "../../ports/backend.ts";
import { mostInodes } from "../../ports/disk-inodes.ts";

type Range = readonly [least: number, most: number];

/** Minimum and maximum of each; below the minimum not even the runner and a shell would start. */
const RANGES: Readonly<Record<keyof SandboxLimits, Range>> = {
  memoryBytes: [16 * 2 ** 20, 2 ** 43],
  cpuMillicores: [10, 1_000_000],
  pids: [16, 4_000_000],
  diskBytes: [4 * 2 ** 20, 2 ** 43],
  diskInodes: [64, 2 ** 31],
};

/** Below 16 MiB there is no room for a journal, without which a persistent disk is unsafe. */
const WORKSPACE_RANGES: Readonly<Record<keyof Omit<WorkspaceSpec, "id">, Range>> = {
  diskBytes: [16 * 2 ** 20, 2 ** 43],
  diskInodes: [64, 2 ** 31],
};

export function checkLimits(limits: SandboxLimits): void {
  for (const [name, range] of Object.entries(RANGES))
    checkLimit("limit", name, limits[name as keyof SandboxLimits], range);
  checkInodes("limit", limits);
}

export function checkWorkspaceLimits(workspace: WorkspaceSpec): void {
  for (const [name, range] of Object.entries(WORKSPACE_RANGES))
    checkLimit("workspace's", name, workspace[name as keyof typeof WORKSPACE_RANGES], range);
  checkInodes("workspace's", workspace);
}

function checkLimit(whose: string, name: string, value: number, [least, most]: Range): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw new SandboxError(
    "INVALID_REQUEST",
    `the ${whose} ${name} must be a whole number from ${least} to ${most}, not ${value}`,
    { details: { limit: name, least, most } },
  );
}

/** Each value is within its range, but a disk has room for a limited number of inodes. */
function checkInodes(
  whose: string,
  { diskBytes, diskInodes }: Pick<SandboxLimits, "diskBytes" | "diskInodes">,
): void {
  const most = mostInodes(diskBytes);
  if (diskInodes <= most) return;
  throw new SandboxError(
    "INVALID_REQUEST",
    `the ${whose} diskInodes must be at most ${most} on a disk of ${diskBytes} bytes, not ${diskInodes}; request fewer, or a larger disk`,
    { details: { limit: "diskInodes", most, disk_bytes: diskBytes } },
  );
}
