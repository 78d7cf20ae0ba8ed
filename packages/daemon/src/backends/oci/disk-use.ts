/** How full a sandbox's disk is, as the host sees it. */
import { closeSync, constants, openSync, statfsSync } from "node:fs";
import type { ReadFile } from "./kernel-files.ts";
import { isAlive } from "./sandbox-record.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

/** Finds a directory without opening it for anything. Node does not name this flag. */
const O_PATH = 0o10_000_000;

/** Used bytes of the disk of a sandbox; undefined if the sandbox is dead or cannot be seen from here. */
export function diskUseOf(record: SandboxRecord, read: ReadFile): number | undefined {
  const usedBytes = usedOnDisk(`/proc/${record.pid}/root`);
  // SECURITY: asked afterwards, because the root of a process that died before could be that of another
  // tenant's sandbox with the same pid (threat: reaching another tenant). Guarded by
  // disk-use.container.test.ts.
  return isAlive(record, read) ? usedBytes : undefined;
}

/**
 * Used bytes of the file system on `/workspace` below a root, such as `/proc/PID/root`. Undefined
 * if this daemon is not allowed to look there. Synchronous: the kernel answers from memory.
 *
 * SECURITY: a link in the place of `/workspace` is not followed, because it would lead to the
 * host's files (threat: links to the host). Guarded by disk-use.container.test.ts.
 */
export function usedOnDisk(root: string): number | undefined {
  const flags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  let directory: number;
  try {
    directory = openSync(`${root}/workspace`, flags);
  } catch {
    return undefined;
  }
  try {
    const { blocks, bfree, bsize } = statfsSync(`/proc/self/fd/${directory}`);
    return (blocks - bfree) * bsize;
  } finally {
    closeSync(directory);
  }
}
