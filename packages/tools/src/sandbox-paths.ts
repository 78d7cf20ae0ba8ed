/**
 * Paths as models write them: one spelling for each file, except those that file tools must not
 * touch.
 */
import { posix } from "node:path";
import type { DownloadOptions, Session } from "@sandkasten/sdk";
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

interface PartToRead {
  readonly start?: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Part of a file, unless a link leads from its name to a blocked path.
 *
 * SECURITY: what is checked is the path of the file that was opened, told with its bytes; a link
 * that changes between two requests gains nothing (threat: path races). Guarded by
 * unblocked-reads.test.ts.
 */
export async function readUnblocked(
  session: Session,
  path: string,
  { start = 0, maxBytes, signal }: PartToRead,
): Promise<Uint8Array> {
  let isChecked = false;
  const onRealPath = (real: string): void => {
    requireUnblocked(real, path);
    isChecked = true;
  };
  const bytes =
    start === 0
      ? await session.files.read(path, { maxBytes, signal, onRealPath })
      : await readFrom(session, path, {
          range: { start, end: start + maxBytes },
          signal,
          onRealPath,
        });
  // The daemon reports no real path when no byte is read, and older daemons never do.
  if (!isChecked) await requireUnblockedTarget(session, path, signal);
  return bytes;
}

async function readFrom(
  session: Session,
  path: string,
  options: DownloadOptions,
): Promise<Uint8Array> {
  try {
    const body = await session.files.download(path, options);
    return new Uint8Array(await new Response(body).arrayBuffer());
  } catch (error) {
    // The file ends before the range begins.
    if (error instanceof SandboxError && error.status === 416) return new Uint8Array();
    throw error;
  }
}

function requireUnblocked(path: string, given: string): void {
  const blocked = BLOCKED.find((one) => path === one || path.startsWith(`${one}/`));
  if (blocked === undefined) return;
  throw new ToolError(
    "REFUSED",
    `${JSON.stringify(given.slice(0, 256))} is refused: the file tools do not touch ${blocked}. Work below /workspace.`,
  );
}
