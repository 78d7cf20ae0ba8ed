/** Translates failures of output files into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import { isFullDisk, systemCode } from "../system-errors.ts";

/** Keeps errors from the catalogue, reports a full disk as such, and wraps all others as internal errors. */
export function journalFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  if (isFullDisk(error)) {
    return new SandboxError(
      "STORAGE_FULL",
      `The daemon's disk is full (${doing}). Destroy unused sessions, or give the data directory more space.`,
      { cause: error },
    );
  }
  return new SandboxError("INTERNAL_ERROR", `The output journal failed (${doing}).`, {
    cause: error,
  });
}

export function isMissing(error: unknown): boolean {
  return systemCode(error) === "ENOENT";
}

export function isTaken(error: unknown): boolean {
  return systemCode(error) === "EEXIST";
}
