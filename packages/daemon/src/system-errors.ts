/** Tells errors of the system apart. */

/** The errno name of a system error; undefined for other errors. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Whether the disk, or the part of it that this user may have, is full. */
export function isFullDisk(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOSPC" || code === "EDQUOT";
}
