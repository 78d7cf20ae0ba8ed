/** A key as stored in a row. */
import type { KeyRow, KeyScope } from "../ports/key-store.ts";
import type { StoredRow } from "./row-mapping.ts";

export function keyOf(row: StoredRow): KeyRow {
  const maybe = (name: keyof KeyRow, column: string): object =>
    row[column] === null ? {} : { [name]: Number(row[column]) };
  return {
    id: String(row["id"]),
    name: String(row["name"]),
    owner: String(row["owner"]),
    scope: row["scope"] as KeyScope,
    digest: String(row["digest"]),
    createdAtMs: Number(row["created_at_ms"]),
    ...maybe("expiresAtMs", "expires_at_ms"),
    ...maybe("revokedAtMs", "revoked_at_ms"),
    ...maybe("lastUsedAtMs", "last_used_at_ms"),
    ...maybe("maxSessions", "max_sessions"),
    ...maybe("maxRunningExecs", "max_running_execs"),
    ...maybe("maxImageBytes", "max_image_bytes"),
  };
}
