/** Divides the half of a sandbox's memory that files and shared segments may use. */
import { SandboxError } from "@sandkasten/protocol";

const PAGE_BYTES = 4096;
/** The kernel's cost of an inode and its name, rounded up; it is also charged to the sandbox. */
const INODE_BYTES = 1024;
/** A tmpfs gets one inode per this many bytes. */
const BYTES_PER_INODE = 8192;

const MIN_MEMORY_BYTES = 16 * 1024 * 1024;

export interface TmpfsSize {
  readonly bytes: number;
  readonly inodes: number;
}

export interface MemoryBackedStorage {
  readonly run: TmpfsSize;
  readonly tmp: TmpfsSize;
  readonly shm: TmpfsSize;
  /** For System V shared memory, which is not part of any mount. */
  readonly sysvShmBytes: number;
}

/**
 * SECURITY: against filling memory-backed storage: such pages stay charged after their writer is
 * killed, so the OOM killer cannot reclaim them and finally kills PID 1. Everything that outlives
 * its writer, including inodes and System V segments, is therefore limited to half of the memory
 * limit. Guarded by build-oci-config.test.ts, and by isolation.container.test.ts, which fills them.
 */
export function divideMemory(memoryBytes: number): MemoryBackedStorage {
  if (!Number.isSafeInteger(memoryBytes) || memoryBytes < MIN_MEMORY_BYTES) {
    throw new SandboxError(
      "INVALID_REQUEST",
      `a sandbox cannot have ${memoryBytes} bytes of memory; give it at least ${MIN_MEMORY_BYTES}`,
    );
  }
  // Created by the launcher or the engine.
  const dev = { bytes: 64 * 1024, inodes: 64 };
  // The runner stores the text of a command (at most 1 MiB) here.
  const run = { bytes: 2 * 1024 * 1024, inodes: 256 };
  const fixed = [dev, run].reduce((sum, one) => sum + one.bytes + one.inodes * INODE_BYTES, 0);
  const rest = Math.floor(memoryBytes / 2) - fixed;
  return {
    run,
    tmp: tmpfsWithin(rest / 2),
    shm: tmpfsWithin(rest / 4),
    sysvShmBytes: wholePages(rest / 4),
  };
}

function tmpfsWithin(shareBytes: number): TmpfsSize {
  const bytes = wholePages((shareBytes * BYTES_PER_INODE) / (BYTES_PER_INODE + INODE_BYTES));
  return { bytes, inodes: Math.floor(bytes / BYTES_PER_INODE) };
}

function wholePages(bytes: number): number {
  return Math.floor(bytes / PAGE_BYTES) * PAGE_BYTES;
}
