/** The keys of a daemon, for administrators. */
import type { KeyBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import { type CamelKeys, camelKeys } from "./camel-keys.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import { path, type Transport } from "./transport.ts";
import type { KeyScope } from "./wire-names.ts";

interface KeyFields {
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scope: KeyScope;
  /** Configured keys are changed in the configuration and cannot be revoked here. */
  readonly source: "config" | "stored";
  readonly createdAt?: string;
  readonly expiresAt?: string;
  readonly revokedAt?: string;
  /** Accurate to a few minutes. */
  readonly lastUsedAt?: string;
  readonly maxSessions?: number;
  readonly maxRunningExecs?: number;
  readonly maxImageBytes?: number;
}

/** A key without its secret. */
export type KeyInfo = WithSnakeNames<KeyFields>;

/** A new key including its secret, which is not shown again. */
export type CreatedKey = WithSnakeNames<KeyFields & { readonly key: string }>;

interface CreateKeyFields extends CallOptions {
  /** The owner of the key, which several keys can share. Its name by default. */
  readonly owner?: string | undefined;
  /** `use` by default. */
  readonly scope?: KeyScope | undefined;
  readonly expiresInSeconds?: number | undefined;
  readonly maxSessions?: number | undefined;
  readonly maxRunningExecs?: number | undefined;
  readonly maxImageBytes?: number | undefined;
}

/** A new key's permissions and lifetime. */
export type CreateKeyOptions = WithSnakeNames<CreateKeyFields>;

/** The keys of the daemon. */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a key. Not retried, because a repetition would create another key. */
  async create(name: string, options: CreateKeyOptions = {}): Promise<CreatedKey> {
    const asked = camelOptions(options);
    const body = await this.#transport.json<KeyBody & { readonly key: string }>({
      method: "POST",
      path: "/v1/keys",
      json: {
        name,
        owner: asked.owner,
        scope: asked.scope,
        expires_in_seconds: asked.expiresInSeconds,
        max_sessions: asked.maxSessions,
        max_running_execs: asked.maxRunningExecs,
        max_image_bytes: asked.maxImageBytes,
      },
      signal: asked.signal,
    });
    return withSnakeNames(camelKeys(body) as CamelKeys<typeof body> & CreatedKey);
  }

  /** All keys, including configured and revoked ones. */
  async list(options: CallOptions = {}): Promise<readonly KeyInfo[]> {
    const { keys } = await this.#transport.json<{ readonly keys: readonly KeyBody[] }>({
      method: "GET",
      path: "/v1/keys",
      signal: options.signal,
    });
    return keys.map((body) => withSnakeNames(camelKeys(body) as CamelKeys<KeyBody> & KeyInfo));
  }

  /** Revokes a key: its open connections and preview links end. */
  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: path`/v1/keys/${id}`,
      signal: options.signal,
    });
  }
}
