/** The limits that processes of a sandbox have beside its cgroup. */
import { SandboxError } from "@sandkasten/protocol";

export interface Rlimit {
  /** As `ulimit` options of container engines name it: `nofile`. */
  readonly name: string;
  readonly soft: number;
  readonly hard: number;
}

const OPEN_FILES = { soft: 1024, hard: 4096 } as const;

/**
 * SECURITY: against using up descriptors. No core dumps: they write memory where nobody looks. No
 * realtime priority and no raised niceness (threat: hogging the CPU), whatever limits the maker itself was given.
 *
 * @param maxOpenFiles the maker's own hard limit: without CAP_SYS_RESOURCE it can only be lowered.
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
