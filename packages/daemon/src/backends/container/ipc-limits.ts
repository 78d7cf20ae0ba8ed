/** Limits of the System V objects in a sandbox's own IPC namespace. */

/**
 * SECURITY: against filling memory-backed storage: the kernel's defaults let segments, queues and
 * semaphores, which outlive their makers, fill the whole memory limit. Guarded by
 * isolation.container.test.ts.
 */
export function ipcSysctls(sysvShmBytes: number): Record<string, string> {
  return {
    "kernel.shmmax": String(sysvShmBytes),
    "kernel.shmall": String(sysvShmBytes / 4096),
    "kernel.shmmni": "128",
    // 64 queues of 16 KiB: 1 MiB.
    "kernel.msgmni": "64",
    "kernel.msgmnb": "16384",
    // In one set, in all, in one call, and sets.
    "kernel.sem": "256 8192 64 128",
  };
}
