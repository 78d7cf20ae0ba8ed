/** How full a sandbox's disk is, as the host sees it. */
import { closeSync, constants, openSync, statfsSync } from "node:fs";

/** Finds a directory without opening it for anything. Node does not name this flag. */
const O_PATH = 0o10_000_000;

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
