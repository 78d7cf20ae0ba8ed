/** The entry point: a client of one daemon. */
import type { SessionBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import { type ClientOptions, toTransportOptions } from "./client-options.ts";
import { type EventOptions, followEvents, type SandboxEvent } from "./events.ts";
import { Images } from "./images.ts";
import { Keys } from "./keys.ts";
import { Session } from "./session.ts";
import { Snapshots } from "./snapshots.ts";
import { camelOptions, withSnakeNames } from "./snake-names.ts";
import {
  type CreateSessionOptions,
  type ListSessionsOptions,
  type SessionFilter,
  type SessionInfo,
  type SessionPage,
  toCreateSession,
  toSessionInfo,
  type WorkspaceInfo,
} from "./session-types.ts";
import { path, Transport } from "./transport.ts";
import type { VersionBody } from "./wire-bodies.ts";
import { Workspaces } from "./workspaces.ts";

/** A daemon's version and backends. */
export interface DaemonVersion {
  readonly version: string;
  /** The default backend. */
  readonly backend: string;
  /** All backends that sessions can use. */
  readonly backends: readonly string[];
  readonly node: string;
}

/** A client of one daemon. It holds no connection and need not be closed. */
export class SandboxClient {
  /** The images that sandboxes are created from. */
  readonly images: Images;
  /** Directories that outlive sessions. */
  readonly workspaces: Workspaces;
  /** Copies of sessions, from which new sessions start. */
  readonly snapshots: Snapshots;
  /** Who may use the daemon, for administrators. */
  readonly keys: Keys;
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(toTransportOptions(options));
    this.images = new Images(this.#transport);
    this.keys = new Keys(this.#transport);
    this.workspaces = new Workspaces(this.#transport);
    this.snapshots = new Snapshots(this.workspaces, this.images, (asked) =>
      this.createSession(asked),
    );
  }

  /** Creates a session, or returns the active session for the `key`. */
  async createSession(options: CreateSessionOptions = {}): Promise<Session> {
    const asked = camelOptions(options);
    return this.#transport.send(
      {
        method: "POST",
        path: "/v1/sessions",
        json: toCreateSession(asked),
        idempotencyKey: asked.idempotencyKey ?? crypto.randomUUID(),
        signal: asked.signal,
      },
      async (response) => {
        const body = (await response.json()) as SessionBody;
        return new Session(this.#transport, toSessionInfo(body), response.status === 201);
      },
    );
  }

  /** The session with an id, active or ended. */
  async getSession(id: string, options: CallOptions = {}): Promise<Session> {
    const body = await this.#transport.json<SessionBody>({
      method: "GET",
      path: path`/v1/sessions/${id}`,
      signal: options.signal,
    });
    return new Session(this.#transport, toSessionInfo(body));
  }

  /**
   * One page of sessions: those that have not ended first, each group newest first. `sessions`
   * iterates over all pages.
   */
  async listSessions(options: ListSessionsOptions = {}): Promise<SessionPage> {
    const { owner, status, key, metadata = {}, limit, cursor, signal } = options;
    const pairs = Object.entries(metadata).map(([name, value]) => `${name}=${value}`);
    return this.#transport.send(
      {
        method: "GET",
        path: "/v1/sessions",
        query: { owner, status, key, limit, cursor, metadata: pairs },
        signal,
      },
      async (response) => {
        const bodies = (await response.json()) as readonly SessionBody[];
        const nextCursor = response.headers.get("x-next-cursor") ?? undefined;
        return withSnakeNames(Object.assign(bodies.map(toSessionInfo), { nextCursor }));
      },
    );
  }

  /** All matching sessions, in the same order, loading pages as needed. */
  async *sessions(
    filter: SessionFilter & CallOptions = {},
  ): AsyncGenerator<SessionInfo, void, undefined> {
    let cursor: string | undefined;
    do {
      const page: SessionPage = await this.listSessions({ ...filter, cursor });
      yield* page;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /**
   * All events that the key can see: each event once and in order, even if the connection breaks or
   * the daemon restarts. A `gap` means that some are missing.
   */
  events(options: EventOptions = {}): AsyncGenerator<SandboxEvent, void, undefined> {
    return followEvents(this.#transport, "/v1/events", options);
  }

  /** All workspaces; the same as `workspaces.list`. */
  listWorkspaces(options?: CallOptions): Promise<readonly WorkspaceInfo[]> {
    return this.workspaces.list(options);
  }

  /** Deletes a workspace with its files; the same as `workspaces.delete`. */
  deleteWorkspace(id: string, options?: CallOptions): Promise<void> {
    return this.workspaces.delete(id, options);
  }

  /** Whether the daemon is up. It needs no key. */
  health(options: CallOptions = {}): Promise<{ readonly status: "ok" }> {
    return this.#transport.json({ method: "GET", path: "/healthz", signal: options.signal });
  }

  /** The daemon's version and backends. */
  version(options: CallOptions = {}): Promise<DaemonVersion> {
    const call = { method: "GET", path: "/v1/version", signal: options.signal } as const;
    return this.#transport.json<VersionBody>(call);
  }
}
