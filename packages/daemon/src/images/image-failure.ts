/** Translates image failures into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import { isFullDisk, systemCode } from "../system-errors.ts";

/** The image, its name or its archive is at fault; the message says what is wrong and what to do. */
export function invalidImage(
  message: string,
  options: { readonly details?: Record<string, unknown>; readonly cause?: unknown } = {},
): SandboxError {
  return new SandboxError("INVALID_IMAGE", message, options);
}

/** Keeps errors from the catalogue, reports a full disk as such, and wraps all others. */
export function imageFailure(error: unknown, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  if (isFullDisk(error)) {
    return new SandboxError(
      "STORAGE_FULL",
      `The disk of the image store is full (${doing}). Remove unused images, or give the data directory more space.`,
      { cause: error },
    );
  }
  const code = systemCode(error);
  if (code === "EPERM" || code === "EACCES") {
    return new SandboxError(
      "INTERNAL_ERROR",
      `Permission denied (${doing}): the daemon must run as root to keep the owners of an image's files.`,
      { cause: error },
    );
  }
  return new SandboxError("INTERNAL_ERROR", `The image store failed (${doing}).`, { cause: error });
}
