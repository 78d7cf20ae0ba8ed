/** What administrators can do with keys. */
import type { KeyRow, KeyScope } from "../../ports/key-store.ts";
import type { Caller } from "./caller.ts";

export interface CreateKeyOptions {
  readonly name: string;
  /** The owner of the key; `name` when absent. */
  readonly owner?: string;
  readonly scope: KeyScope;
  readonly expiresInMs?: number;
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

/** A key without its secret. */
export interface KeyView extends Omit<KeyRow, "digest" | "createdAtMs"> {
  /** Configured keys can only be changed in the configuration. */
  readonly source: "config" | "stored";
  readonly createdAtMs?: number;
}

/** Keys, for administrators; all others get FORBIDDEN. */
export interface KeyService {
  /** The secret is returned only this once. */
  create(
    caller: Caller,
    options: CreateKeyOptions,
  ): Promise<{ readonly key: KeyView; readonly secret: string }>;
  list(caller: Caller): Promise<readonly KeyView[]>;
  /** Also closes the key's open streams. Rejects with KEY_NOT_FOUND, or CONFLICT for a configured key. */
  revoke(caller: Caller, id: string): Promise<void>;
}
