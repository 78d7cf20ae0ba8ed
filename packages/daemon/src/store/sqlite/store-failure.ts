/** Translates errors of SQLite and the file system into errors from the catalogue. */
import { SandboxError } from "@sandkasten/protocol";
import { isFullDisk } from "../../system-errors.ts";

/** Result codes of SQLite; the low byte of a code is its category. */
export const SQLITE = {
  BUSY: 5,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  NOTADB: 26,
  READONLY_ROLLBACK: 776,
} as const;

/** The extended result code, if the error is SQLite's. */
export function sqliteCode(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode : undefined;
}

export function isSqliteKind(error: unknown, kind: number): boolean {
  return ((sqliteCode(error) ?? 0) & 0xff) === kind;
}

export function isOutOfSpace(error: unknown): boolean {
  return isFullDisk(error) || isSqliteKind(error, SQLITE.FULL);
}

/** Clients see this message, so it names no path. */
export function storageFull(doing: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "STORAGE_FULL",
    `The disk with the daemon's data is full (${doing}). Destroy unused sessions, remove unused images, or give the data directory more space.`,
    { cause },
  );
}

export function damaged(path: string, what: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "INTERNAL_ERROR",
    `The session database ${path} is damaged: ${what}. Restore it from a backup, or move away the file and those next to it that begin with its name, to start with an empty one; it will not know running sandboxes.`,
    { cause },
  );
}

/** Keeps errors from the catalogue and distinguishes the ways in which a database fails. */
export function storeFailure(error: unknown, path: string, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  if (isOutOfSpace(error)) return storageFull(doing, error);
  const message = error instanceof Error ? error.message : String(error);
  if (isSqliteKind(error, SQLITE.CORRUPT) || isSqliteKind(error, SQLITE.NOTADB))
    return damaged(path, message, error);
  if (isSqliteKind(error, SQLITE.BUSY)) {
    return new SandboxError(
      "CONFLICT",
      `Another daemon or program has ${path} open. Stop it, or choose another file.`,
      { cause: error },
    );
  }
  return new SandboxError(
    "INTERNAL_ERROR",
    `The session database ${path} failed (${doing}): ${message}.`,
    { cause: error },
  );
}
