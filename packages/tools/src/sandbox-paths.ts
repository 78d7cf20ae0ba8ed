/**
 * Paths as models write them: one spelling for each file, except those that file tools must not
 * touch.
 */
import { posix } from "node:path";
import type { Session } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { ToolError } from "./tool-error.ts";

export const WORKSPACE = "/workspace";

/**
 * What the file tools refuse, with everything below it.
 *
 * SECURITY: accounts, secrets of the image and the kernel's own files are not for file tools
 * (CM-41). The sandbox itself is the barrier; this list keeps a model from touching them by
 * accident. Guarded by sandbox-paths.test.ts and files.serial.test.ts.
 */
const BLOCKED = [
  "/etc/passwd",
  "/etc/shadow",
  "/etc/group",
  "/etc/gshadow",
  "/etc/sudoers",
  "/etc/sudoers.d",
  "/etc/ssh",
  "/root",
  "/proc",
  "/sys",
  "/dev",
  "/boot",
  "/run",
  "/var/run",
  "/.sandkasten",
];

/** The absolute path of a given path, below `/workspace` or elsewhere in the sandbox. */
export function sandboxPath(given: string): string {
  if (given.includes("\0"))
    throw new ToolError("INVALID_INPUT", "A path cannot contain the character NUL.");
  const absolute = posix.resolve(WORKSPACE, given);
  const path = absolute.replace(/^\/work(?=\/|$)/, WORKSPACE);
  requireUnblocked(path, given);
  return path;
}

/** A path below `/workspace`, relative to it. */
export function workspacePath(given: string): string {
  const path = sandboxPath(given);
  if (path.startsWith(`${WORKSPACE}/`)) return path.slice(WORKSPACE.length + 1);
  throw new ToolError(
    "INVALID_INPUT",
    `${JSON.stringify(given.slice(0, 256))} is not a file below the working directory; use a relative path.`,
  );
}

/** SECURITY: a link must not lead where its name could not. Guarded by files.serial.test.ts. */
export async function requireUnblockedTarget(
  session: Session,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  let place = path;
  for (;;) {
    try {
      const real = await session.files.realpath(place, { signal });
      requireUnblocked(real.path, path);
      return;
    } catch (error) {
      const isMissing = error instanceof SandboxError && error.code === "FILE_NOT_FOUND";
      if (!isMissing) throw error;
      // A path that does not exist yet is resolved through its directory.
      if (place === "/") return;
      place = posix.dirname(place);
    }
  }
}

/** The beginning of a file, unless a link leads from its name to a blocked path. */
export async function readUnblocked(
  session: Session,
  path: string,
  maxBytes: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  let isChecked = false;
  const bytes = await session.files.read(path, {
    maxBytes,
    signal,
    onRealPath: (real) => {
      requireUnblocked(real, path);
      isChecked = true;
    },
  });
  // The daemon reports no real path for an empty file, and older daemons never do.
  if (!isChecked) await requireUnblockedTarget(session, path, signal);
  return bytes;
}

function requireUnblocked(path: string, given: string): void {
  const blocked = BLOCKED.find((one) => path === one || path.startsWith(`${one}/`));
  if (blocked === undefined) return;
  throw new ToolError(
    "REFUSED",
    `${JSON.stringify(given.slice(0, 256))} is refused: the file tools do not touch ${blocked}. Work below /workspace.`,
  );
}
