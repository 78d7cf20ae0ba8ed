/** The keys below `defaults` and `max_limits`: the limits of sandboxes. */
import { text, wholeNumber, yesOrNo } from "../kinds.ts";
import { DAY_SECONDS, cpus, memoryMb, processes, diskMb, inodes, group } from "./units.ts";

/** Fits into a timer, which can wait at most 24 days. */
const MAX_EXEC_DAYS = 20;

export const sessionDefaults = group({
  cpu_limit: cpus().default(1).meta({ description: "CPUs that a sandbox can use" }),
  mem_limit_mb: memoryMb().default(512).meta({ description: "Memory of a sandbox, in MiB" }),
  pids_limit: processes().default(256).meta({
    description: "Maximum number of processes and threads in a sandbox",
  }),
  disk_limit_mb: diskMb().default(1024).meta({
    description: "Writable disk of a sandbox, in MiB",
  }),
  disk_inodes: inodes().default(65_536).meta({
    description: "Files and directories that this disk can hold",
  }),
  max_exec_timeout_ms: wholeNumber(1, MAX_EXEC_DAYS * DAY_SECONDS * 1000)
    .default(DAY_SECONDS * 1000)
    .meta({
      description:
        "Longest timeout of a command, in milliseconds, and the timeout of requests without one; longer timeouts are lowered to this, and the response says so",
    }),
  network_mode: text(
    "must be none: a sandbox has a network only if its request asks for it, and network.allow (or docker.network) allows it",
    (value) => value === "none",
  )
    .default("none")
    .meta({
      description:
        "Network of sandboxes whose request names none; only `none` (loopback only) is supported",
    }),
  readonly_rootfs: yesOrNo().default(true).meta({
    description:
      "Whether the image is read-only and code runs as uid 1000 (profile `restricted`); `false` makes `root` the default profile",
  }),
});

export const maxLimits = group({
  cpu_limit: cpus().default(16).meta({ description: "Maximum CPUs that a request can set" }),
  mem_limit_mb: memoryMb().default(16_384).meta({
    description: "Maximum memory that a request can set, in MiB",
  }),
  pids_limit: processes().default(16_384).meta({
    description: "Maximum processes that a request can set",
  }),
  disk_limit_mb: diskMb().default(65_536).meta({
    description: "Maximum disk that a request can set, in MiB",
  }),
  disk_inodes: inodes().default(4_194_304).meta({
    description: "Maximum number of files and directories that a request can set",
  }),
});
