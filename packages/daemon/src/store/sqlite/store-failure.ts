/** Turns what SQLite and the file system say into errors of the catalogue. */
import { SandboxError } from "@sandkasten/protocol";

/** Result codes of SQLite; the low byte of a code is its kind. */
export const SQLITE = {
  BUSY: 5,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  NOTADB: 26,
  READONLY_ROLLBACK: 776,
} as const;

/** The extended result code, if SQLite is who failed. */
export function sqliteCode(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode : undefined;
}

export function isSqliteKind(error: unknown, kind: number): boolean {
  return ((sqliteCode(error) ?? 0) & 0xff) === kind;
}

/** The errno name of a system error, if it is one. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

export function isOutOfSpace(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOSPC" || code === "EDQUOT" || isSqliteKind(error, SQLITE.FULL);
}

/** Clients get to see this one, so it names no path. */
export function storageFull(doing: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "STORAGE_FULL",
    `The disk with the daemon's data is full (${doing}). End sessions and remove images that are not needed, or give the data directory more room.`,
    { cause },
  );
}

export function damaged(path: string, what: string, cause?: unknown): SandboxError {
  return new SandboxError(
    "INTERNAL_ERROR",
    `The database of sessions, ${path}, is damaged: ${what}. Restore it from a backup, or move it and the files beside it that begin with its name away to start with an empty one; sandboxes that live on are unknown to that one.`,
    { cause },
  );
}

/** Keeps errors of the catalogue and tells the ways in which a database fails apart. */
export function storeFailure(error: unknown, path: string, doing: string): SandboxError {
  if (error instanceof SandboxError) return error;
  if (isOutOfSpace(error)) return storageFull(doing, error);
  const message = error instanceof Error ? error.message : String(error);
  if (isSqliteKind(error, SQLITE.CORRUPT) || isSqliteKind(error, SQLITE.NOTADB))
    return damaged(path, message, error);
  if (isSqliteKind(error, SQLITE.BUSY)) {
    return new SandboxError(
      "CONFLICT",
      `Another daemon uses ${path}, or another program has it open. Stop that one, or name another file.`,
      { cause: error },
    );
  }
  return new SandboxError(
    "INTERNAL_ERROR",
    `The database of sessions, ${path}, failed (${doing}): ${message}.`,
    { cause: error },
  );
}
