/** Limits of the System V objects in a sandbox's own IPC namespace. */

/**
 * SECURITY: against filling memory-backed storage: with the kernel's defaults, segments, queues and
 * semaphores, which outlive their creators, can fill the whole memory limit. Guarded by
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
    // Per set, in total, per call, and number of sets.
    "kernel.sem": "256 8192 64 128",
  };
}
