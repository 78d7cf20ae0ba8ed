/** Keys that are created, listed and revoked while the daemon runs; all valid ones are in memory. */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { SandboxError } from "@sandkasten/protocol";
import type { Events } from "../events/recorder.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyRow, KeyScope, KeyStore } from "../ports/key-store.ts";
import type { Log } from "../ports/log.ts";
import type { Caller } from "../sessions/services/caller.ts";
import type { CreateKeyOptions, KeyService, KeyView } from "../sessions/services/key-service.ts";

const MAX_KEYS = 10_000;
const LOOK_INTERVAL_MS = 1000;
/** The precision of the time of last use. */
const TOUCH_INTERVAL_MS = 60_000;
/** How long a revoked key is still listed. */
const REMEMBERED_MS = 90 * 86_400_000;
const FORM = /^sk-sandbox-(key_[0-9a-f]{16})-[A-Za-z0-9_-]{43}$/;
/** Compared against if there is no such key, so the timing reveals nothing. */
const NO_DIGEST = Buffer.alloc(32);

export type Quotas = Pick<
  Caller,
  "maxSessions" | "maxRunningExecs" | "maxWorkspaces" | "maxImageBytes"
>;

export interface StoredKeysParts {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: Events;
  /** Default quotas for keys without their own. */
  readonly quotas: Quotas;
  /** Configured keys, for listing. */
  readonly configured: readonly { readonly owner: string; readonly scope: KeyScope }[];
}

interface Known {
  readonly row: KeyRow;
  readonly digest: Buffer;
  readonly caller: Caller;
}

export class StoredKeys implements KeyService {
  readonly #parts: StoredKeysParts;
  readonly #valid = new Map<string, Known>();
  readonly #used = new Map<string, number>();
  readonly #listeners: ((keyId: string) => void)[] = [];
  readonly #timer: NodeJS.Timeout;
  #touchedMs: number;
  /** Counts this daemon's own changes. */
  #changes = 0;

  private constructor(parts: StoredKeysParts) {
    this.#parts = parts;
    this.#touchedMs = parts.clock.monotonicMs();
    this.#timer = setInterval(() => void this.#look(), LOOK_INTERVAL_MS).unref();
  }

  static async open(parts: StoredKeysParts): Promise<StoredKeys> {
    const keys = new StoredKeys(parts);
    await keys.#load();
    return keys;
  }

  /** Calls back when a key becomes invalid: revoked, here or by another daemon, or expired. */
  onEnd(listener: (keyId: string) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * The caller with this key; `digest` is the key's SHA-256.
   *
   * SECURITY: a key contains its public id, so exactly one digest is compared, in constant time,
   * whether or not the id is known. Guarded by stored-keys.test.ts.
   */
  find(key: string, digest: Buffer): Caller | undefined {
    const known = this.#valid.get(FORM.exec(key)?.[1] ?? "");
    const fits = timingSafeEqual(known?.digest ?? NO_DIGEST, digest);
    if (known === undefined || !fits || this.#isExpired(known.row)) return undefined;
    this.#used.set(known.row.id, this.#parts.clock.nowMs());
    return known.caller;
  }

  isValid(keyId: string): boolean {
    const known = this.#valid.get(keyId);
    return known !== undefined && !this.#isExpired(known.row);
  }

  async create(
    caller: Caller,
    options: CreateKeyOptions,
  ): Promise<{ readonly key: KeyView; readonly secret: string }> {
    requireAdmin(caller, "create keys");
    if (this.#valid.size >= MAX_KEYS)
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        `the limit of ${MAX_KEYS} keys is reached; revoke some first`,
      );
    const { store, clock, events } = this.#parts;
    const { expiresInMs, owner = options.name, ...rest } = options;
    const now = clock.nowMs();
    const id = `key_${randomBytes(8).toString("hex")}`;
    const secret = `sk-sandbox-${id}-${randomBytes(32).toString("base64url")}`;
    const row: KeyRow = {
      ...rest,
      id,
      owner,
      digest: hash("sha256", secret),
      createdAtMs: now,
      ...(expiresInMs !== undefined && { expiresAtMs: now + expiresInMs }),
    };
    await store.forgetRevokedBefore(now - REMEMBERED_MS);
    await store.insert(row);
    this.#changes++;
    this.#admit(row);
    const data = { key_id: id, name: row.name, scope: row.scope };
    await events.recordNow({ type: "key.created", owner: "", data });
    return { key: viewOf(row), secret };
  }

  async list(caller: Caller): Promise<readonly KeyView[]> {
    requireAdmin(caller, "list keys");
    const configured = this.#parts.configured.map(({ owner, scope }) => ({
      id: configuredId(owner),
      name: owner,
      owner,
      scope,
      source: "config" as const,
    }));
    const rows = await this.#parts.store.list();
    const withLastUse = (row: KeyRow): KeyRow => {
      const lastUsedAtMs = this.#used.get(row.id) ?? row.lastUsedAtMs;
      return { ...row, ...(lastUsedAtMs !== undefined && { lastUsedAtMs }) };
    };
    return [...configured, ...rows.map((row) => viewOf(withLastUse(row)))];
  }

  async revoke(caller: Caller, id: string): Promise<void> {
    requireAdmin(caller, "revoke keys");
    if (this.#parts.configured.some(({ owner }) => configuredId(owner) === id))
      throw new SandboxError(
        "CONFLICT",
        `the key ${id} comes from the configuration; remove it there and restart the daemon`,
      );
    const revoked = await this.#parts.store.revoke(id, this.#parts.clock.nowMs());
    if (revoked === undefined)
      throw new SandboxError("KEY_NOT_FOUND", `there is no key ${id}; list the keys to see them`);
    this.#changes++;
    this.#end(id);
    if (!revoked.isNew) return;
    const data = { key_id: id, name: revoked.row.name };
    await this.#parts.events.recordNow({ type: "key.revoked", owner: "", data });
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#touch();
    await this.#parts.store.close();
  }

  /**
   * SECURITY: a list that was read before a key was revoked here must not restore that key. Guarded
   * by "persists with an outdated list" in stored-keys.test.ts.
   */
  async #load(): Promise<void> {
    const changes = this.#changes;
    const rows = await this.#parts.store.list();
    if (changes !== this.#changes) return;
    const valid = rows.filter((row) => row.revokedAtMs === undefined && !this.#isExpired(row));
    const ids = new Set(valid.map(({ id }) => id));
    for (const id of this.#valid.keys()) if (!ids.has(id)) this.#end(id);
    for (const row of valid) if (!this.#valid.has(row.id)) this.#admit(row);
  }

  #admit(row: KeyRow): void {
    const { quotas } = this.#parts;
    const { id, owner, scope, expiresAtMs } = row;
    const caller: Caller = {
      owner,
      keyId: id,
      isAdmin: scope === "admin",
      ...(scope === "read" && { isReadOnly: true }),
      ...(expiresAtMs !== undefined && { expiresAtMs }),
      maxSessions: row.maxSessions ?? quotas.maxSessions,
      maxRunningExecs: row.maxRunningExecs ?? quotas.maxRunningExecs,
      maxWorkspaces: quotas.maxWorkspaces,
      maxImageBytes: row.maxImageBytes ?? quotas.maxImageBytes,
    };
    this.#valid.set(id, { row, digest: Buffer.from(row.digest, "hex"), caller });
  }

  #end(id: string): void {
    if (this.#valid.delete(id)) for (const listener of this.#listeners) listener(id);
  }

  #isExpired({ expiresAtMs }: KeyRow): boolean {
    return expiresAtMs !== undefined && expiresAtMs <= this.#parts.clock.nowMs();
  }

  /** Ends expired keys, and picks up changes by other daemons. */
  async #look(): Promise<void> {
    const { store, clock, log } = this.#parts;
    for (const [id, { row }] of this.#valid) if (this.#isExpired(row)) this.#end(id);
    try {
      if (store.isShared) await this.#load();
      if (clock.monotonicMs() - this.#touchedMs >= TOUCH_INTERVAL_MS) await this.#touch();
    } catch (error) {
      log.error({ err: error }, "cannot refresh the keys; will retry shortly");
    }
  }

  async #touch(): Promise<void> {
    this.#touchedMs = this.#parts.clock.monotonicMs();
    if (this.#used.size === 0) return;
    const used = new Map(this.#used);
    this.#used.clear();
    await this.#parts.store.touch(used);
  }
}

/** SECURITY: a caller who can create keys can impersonate any owner. Guarded by routes/keys.test.ts. */
function requireAdmin({ isAdmin }: Caller, what: string): void {
  if (!isAdmin)
    throw new SandboxError(
      "FORBIDDEN",
      `only a key with the admin scope can ${what}; ask an administrator`,
    );
}

/** Deliberately unlike the ids of stored keys. */
function configuredId(owner: string): string {
  return `config-${owner}`;
}

/** SECURITY: not even the digest leaves this file. Guarded by routes/keys.test.ts. */
function viewOf(row: KeyRow): KeyView {
  const view: KeyView & { digest?: string } = { ...row, source: "stored" };
  delete view.digest;
  return view;
}
