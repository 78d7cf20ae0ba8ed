/** The parts of `/proc` that a sandbox cannot see or write. */

/**
 * SECURITY: against reading kernel state: machine-wide files that expose kernel addresses, keys,
 * timings, load, disks and hardware, or how it was booted. They read as empty. Runtimes skip paths
 * that a kernel does not have. Guarded by isolation.container.test.ts.
 */
export const MASKED_PATHS = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/buddyinfo",
  "/proc/bus",
  "/proc/cmdline",
  "/proc/config.gz",
  "/proc/diskstats",
  "/proc/driver",
  "/proc/dynamic_debug",
  "/proc/fs",
  "/proc/interrupts",
  "/proc/iomem",
  "/proc/ioports",
  "/proc/kallsyms",
  "/proc/kcore",
  "/proc/key-users",
  "/proc/keys",
  "/proc/kmsg",
  "/proc/latency_stats",
  "/proc/locks",
  "/proc/modules",
  "/proc/partitions",
  "/proc/pressure",
  "/proc/sched_debug",
  "/proc/schedstat",
  "/proc/scsi",
  "/proc/slabinfo",
  "/proc/softirqs",
  "/proc/swaps",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/proc/vmallocinfo",
  "/proc/zoneinfo",
];

/**
 * SECURITY: against changing kernel settings: settings of the machine (core_pattern, sysrq, irq
 * affinity). They belong to the machine's root, whom the user namespace does not map; read-only is
 * the second layer. They are not masked, because a write to a mask would seem to succeed. Guarded
 * by isolation.container.test.ts.
 */
export const READONLY_PATHS = ["/proc/irq", "/proc/mtrr", "/proc/sys", "/proc/sysrq-trigger"];

/**
 * SECURITY: against exhausting memory: code that can write to `/proc` can lower its `oom_score_adj`
 * to the daemon's, and no system call filter can distinguish that file from others. Other uses of
 * writing there are unimportant (names of other threads, core dump filters); `/proc/self/fd/…`
 * leads out of it and stays writable. Not in the root profile, where code can take over the runner
 * anyway.
 */
export const PROC_PATH = "/proc";
