/** The rlimits of a sandbox's processes, in addition to its cgroup. */
import { SandboxError } from "@sandkasten/protocol";

export interface Rlimit {
  /** As named by the `ulimit` options of container engines: `nofile`. */
  readonly name: string;
  readonly soft: number;
  readonly hard: number;
}

const OPEN_FILES = { soft: 1024, hard: 4096 } as const;

/**
 * SECURITY: against using up descriptors. No core dumps: they write memory to unexpected places. No
 * realtime priority and no raised niceness (threat: hogging the CPU), independent of the daemon's limits.
 *
 * @param maxOpenFiles the daemon's own hard limit: without CAP_SYS_RESOURCE it can only be lowered.
 */
export function rlimitsOf(maxOpenFiles: number): Rlimit[] {
  if (!Number.isSafeInteger(maxOpenFiles) || maxOpenFiles < 64) {
    throw new SandboxError(
      "UNSUPPORTED",
      `${maxOpenFiles} open files are too few for a sandbox; raise the daemon's limit (ulimit -n)`,
    );
  }
  const hard = Math.min(OPEN_FILES.hard, maxOpenFiles);
  return [
    { name: "nofile", soft: Math.min(OPEN_FILES.soft, hard), hard },
    { name: "core", soft: 0, hard: 0 },
    { name: "rtprio", soft: 0, hard: 0 },
    { name: "nice", soft: 0, hard: 0 },
  ];
}
