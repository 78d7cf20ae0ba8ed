/** Turns what goes wrong with files of output into errors of the catalogue. */
import { SandboxError } from "@sandkasten/protocol";

/** Keeps errors of the catalogue, names a full disk as such, and calls all else our failure. */
export function journalFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  const code = systemCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new SandboxError(
      "STORAGE_FULL",
      `The daemon's disk is full (${doing}). Remove sessions that are not needed, or give the data directory more room.`,
      { cause: error },
    );
  }
  return new SandboxError("INTERNAL_ERROR", `The journal of output failed (${doing}).`, {
    cause: error,
  });
}

export function isMissing(error: unknown): boolean {
  return systemCode(error) === "ENOENT";
}

export function isTaken(error: unknown): boolean {
  return systemCode(error) === "EEXIST";
}

function systemCode(error: unknown): string | undefined {
  if (typeof error === "object" && error !== null && "code" in error) {
    return typeof error.code === "string" ? error.code : undefined;
  }
  return undefined;
}
