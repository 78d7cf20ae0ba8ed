/** Local files that cannot be read or written. */
import { stat } from "node:fs/promises";
import { CliFailure } from "./failure.ts";

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  EACCES: "is not accessible to this user",
  EPERM: "is not accessible to this user",
  EISDIR: "is a directory, not a file",
  ENOTDIR: "is not a directory, or is below a file",
  EROFS: "is on a read-only file system",
  ENOSPC: "cannot be written: the disk is full",
};

const HINT = "Check the path on this machine.";
/** For paths that may also be in a session. */
export const HINT_OF_COPIES =
  "Check the path on this machine; one in a session is written as SESSION:path.";

export function localFailure(path: string, cause: NodeJS.ErrnoException, hint = HINT): CliFailure {
  const { code = cause.message, syscall } = cause;
  const reason = code === "ENOENT" && syscall === "mkdir" ? "cannot be created" : REASONS[code];
  return new CliFailure(`${path} ${reason ?? `cannot be used (${code})`}.`, {
    hint,
    code: "LOCAL_FILE",
    cause,
  });
}

/** The failed call to the local file system, anywhere in the chain of causes. */
export function localFailureIn(error: unknown): CliFailure | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const failed = cause as NodeJS.ErrnoException;
    if (failed.syscall === undefined || failed.code === undefined) continue;
    if (failed.path !== undefined) return localFailure(failed.path, failed);
    if (failed.code === "EISDIR" && failed.syscall === "read")
      return localFailure("The file", failed);
  }
  return undefined;
}

/** Rejects unless there is a readable file, pipe or device. */
export async function requireReadable(given: string, path: string): Promise<void> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw localFailure(given, cause, HINT);
  });
  if (found.isDirectory())
    throw localFailure(given, Object.assign(new Error(given), { code: "EISDIR" }), HINT);
}

export async function requireDirectory(given: string, path: string): Promise<void> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw localFailure(given, cause, HINT);
  });
  if (!found.isDirectory())
    throw localFailure(given, Object.assign(new Error(given), { code: "ENOTDIR" }), HINT);
}
