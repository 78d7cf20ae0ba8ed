/** Normalizes the path of an archive entry to the only form that is safe in an image's tree. */
import { invalidImage } from "./image-failure.ts";
import type { UnpackLimits } from "./unpack-budget.ts";

const MAX_NAME_BYTES = 255;

/**
 * Returns the path relative to the image's root, without leading slash, `.` and empty parts; "" is
 * the root itself.
 *
 * SECURITY: `..` is refused anywhere in the path, and an absolute path refers to the image's root,
 * never the machine's (threat: hostile archives and images). Guarded by hostile-images.test.ts.
 */
export function cleanImagePath(
  raw: string,
  limits: Pick<UnpackLimits, "pathDepth" | "pathBytes">,
): string {
  if (raw.includes("\0"))
    throw invalidImage(`The image has a path with a NUL byte: ${shown(raw)}.`);
  const parts = raw.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw invalidImage(`The image has a path with "..": ${shown(raw)}.`);
  if (parts.length > limits.pathDepth) {
    throw invalidImage(
      `The image has a path with ${parts.length} parts; the limit is ${limits.pathDepth}: ${shown(raw)}.`,
    );
  }
  const path = parts.join("/");
  if (
    Buffer.byteLength(path) > limits.pathBytes ||
    parts.some((part) => Buffer.byteLength(part) > MAX_NAME_BYTES)
  ) {
    throw invalidImage(`The image has a path that is too long: ${shown(raw)}.`);
  }
  return path;
}

/** The directory part; "" is the root. */
export function parentOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash < 0 ? "" : path.slice(0, slash);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A path for use in a message: quoted, control characters escaped, truncated. */
export function shown(path: string): string {
  return JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}…` : path);
}
