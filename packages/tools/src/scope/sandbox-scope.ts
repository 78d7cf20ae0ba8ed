/** All sandboxes of one run: opened by name, kept alive while they are used, destroyed with the run. */
import type { CreateSessionOptions, SandboxClient, Session, SessionInfo } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { ToolError } from "../tool-error.ts";
import { HeldSession } from "./held-session.ts";

const DEFAULT_LEASE_SECONDS = 240;
const MAX_TTL_SECONDS = 86_400;
/** The metadata that says which run a session belongs to. */
const SCOPE_LABEL = "sandkasten.scope";
const ID_PATTERN = /^[A-Za-z0-9_.-]{1,128}$/;
const NAME_PATTERN = /^[A-Za-z0-9_.-]{1,64}$/;
const ENDED = new Set(["destroying", "destroyed", "expired", "crashed", "failed"]);

export interface SandboxScopeOptions {
  readonly client: SandboxClient;
  readonly namespace: "workflow" | "agent" | "user";
  /** The run's id: 1 to 128 letters, digits, `_`, `.` or `-`. */
  readonly id: string;
  /** How long a sandbox outlives a process that died; 240 unless set. */
  readonly leaseSeconds?: number | undefined;
  /** Told of each session that could not be destroyed. */
  readonly onCleanupFailure?: ((key: string, error: unknown) => void) | undefined;
}

/** What a session of a scope shall be like. */
export interface OpenOptions {
  readonly name: string;
  readonly create: Omit<CreateSessionOptions, "key" | "metadata" | "ttlSeconds" | "signal">;
  /** Whether a live session with another image is an error, or is used as it is. */
  readonly isImageGiven: boolean;
  readonly idleTimeoutSeconds: number;
  readonly maxLifetimeSeconds: number;
  /** Done once in a session that was just created; when it fails, the session is destroyed. */
  readonly prepare?: ((session: Session) => Promise<void>) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class SandboxScope implements AsyncDisposable {
  readonly namespace: string;
  readonly id: string;
  readonly leaseSeconds: number;
  readonly #client: SandboxClient;
  readonly #onCleanupFailure: SandboxScopeOptions["onCleanupFailure"];
  readonly #held = new Map<string, HeldSession>();
  readonly #opening = new Set<Promise<unknown>>();
  /** One after the other for each name, so that a second opener finds a prepared sandbox. */
  readonly #turns = new Map<string, Promise<unknown>>();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(options: SandboxScopeOptions) {
    const { client, namespace, id, leaseSeconds = DEFAULT_LEASE_SECONDS } = options;
    if (!ID_PATTERN.test(id))
      throw new TypeError(
        `the id of a scope must be 1 to 128 letters, digits, "_", "." or "-", not "${id}"`,
      );
    this.#client = client;
    this.namespace = namespace;
    this.id = id;
    this.leaseSeconds = leaseSeconds;
    this.#onCleanupFailure = options.onCleanupFailure;
  }

  /** The daemon's key for a session of this scope. */
  key(name: string): string {
    return `${this.#prefix}${name}`;
  }

  /** The session of a name: the live one, or a new one. Calls at the same time get the same one. */
  async open(options: OpenOptions): Promise<HeldSession> {
    if (this.#isOver)
      throw new ToolError("SANDBOX_NOT_FOUND", "The run has ended, and its sandboxes with it.");
    if (!NAME_PATTERN.test(options.name)) throw unknownSandbox(options.name);
    const before = this.#turns.get(options.name);
    const opening = (async () => {
      await before?.catch(() => undefined);
      return this.#open(options);
    })();
    this.#turns.set(options.name, opening);
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
      if (this.#turns.get(options.name) === opening) this.#turns.delete(options.name);
    }
  }

  /** The session of a name, if this object has opened it and it is not known to have ended. */
  held(name: string): HeldSession | undefined {
    return this.#held.get(name);
  }

  /** All sessions that this object has opened and that are not known to have ended. */
  heldSessions(): readonly HeldSession[] {
    return [...this.#held.values()];
  }

  /**
   * The live session of an id, a key or an alias.
   *
   * SECURITY: only sessions of this scope are looked at, so that another run's id is answered exactly
   * like one that does not exist, after the same requests. Guarded by scope-attack.serial.test.ts.
   */
  async find(id: string, idleTimeoutSeconds: number): Promise<HeldSession> {
    const known = [...this.#held.values()].find((held) => this.#isNamed(held.info, id));
    if (known !== undefined) return known;
    const info = (await this.#live()).find((session) => this.#isNamed(session, id));
    if (info === undefined) throw unknownSandbox(id);
    const session = await this.#client.getSession(info.id);
    return this.#hold(nameOf(info), session, { idleTimeoutSeconds });
  }

  /** Forgets a session that has ended. */
  forget(held: HeldSession): void {
    if (this.#held.get(held.name) === held) this.#held.delete(held.name);
  }

  /**
   * Destroys every session of the scope, also those of an earlier process. One that cannot be
   * destroyed is reported, and the rest go on. With `retainSeconds` they are left to expire instead.
   */
  async close(options: { readonly retainSeconds?: number | undefined } = {}): Promise<void> {
    this.detach();
    // A session that is being opened right now belongs to the run as well.
    await Promise.allSettled(this.#opening);
    const { retainSeconds = 0 } = options;
    const failures: unknown[] = [];
    const end = async (info: SessionInfo): Promise<void> => {
      try {
        const session = await this.#client.getSession(info.id);
        if (retainSeconds > 0)
          await session.renew({ ttlSeconds: Math.min(retainSeconds, MAX_TTL_SECONDS) });
        else await session.destroy();
      } catch (error) {
        if (hasEnded(error)) return;
        failures.push(error);
        this.#onCleanupFailure?.(info.key ?? info.id, error);
      }
    };
    await Promise.all((await this.#live()).map(end));
    this.#held.clear();
    if (failures.length > 0 && this.#onCleanupFailure === undefined)
      throw new AggregateError(failures, `Failed to clean up sessions of ${this.#prefix}`);
  }

  /** Stops keeping sessions alive and destroys nothing: the run goes on in another process. */
  detach(): void {
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #prefix(): string {
    return `${this.namespace}:${this.id}:`;
  }

  get #label(): string {
    return `${this.namespace}:${this.id}`;
  }

  async #open(options: OpenOptions): Promise<HeldSession> {
    const session = await this.#create(options);
    if (session.created && options.prepare !== undefined) {
      try {
        await options.prepare(session);
      } catch (error) {
        await session.destroy();
        throw error;
      }
    }
    return this.#hold(options.name, session, options);
  }

  async #create({ name, create, isImageGiven, ...options }: OpenOptions): Promise<Session> {
    const { signal } = options;
    const request: CreateSessionOptions = {
      ...create,
      key: this.key(name),
      metadata: { [SCOPE_LABEL]: this.#label },
      ttlSeconds: Math.min(this.leaseSeconds, options.idleTimeoutSeconds),
      signal,
    };
    try {
      return await this.#client.createSession(request);
    } catch (error) {
      const isOther = error instanceof SandboxError && error.code === "CONFLICT";
      if (!isOther || isImageGiven) throw error;
      // Who asks for no particular image takes the live session as it is.
      return await this.#client.createSession({ ...request, image: undefined });
    }
  }

  #hold(
    name: string,
    session: Session,
    limits: { readonly idleTimeoutSeconds: number; readonly maxLifetimeSeconds?: number },
  ): HeldSession {
    const before = this.#held.get(name);
    if (before?.session.id === session.id) {
      before.adopt(session, limits);
      return before;
    }
    const held = new HeldSession(name, session, { leaseSeconds: this.leaseSeconds, ...limits });
    this.#held.set(name, held);
    this.#keepAlive();
    return held;
  }

  #keepAlive(): void {
    if (this.#isOver || this.#timer !== undefined) return;
    this.#timer = setInterval(() => void this.#renew(), (this.leaseSeconds * 1000) / 4);
    this.#timer.unref();
  }

  async #renew(): Promise<void> {
    for (const held of this.#held.values()) {
      try {
        await held.renew();
      } catch (error) {
        // A daemon that does not answer now may do so at the next turn, which comes in time.
        if (hasEnded(error)) this.forget(held);
      }
    }
  }

  /** The sessions of the scope that have not ended. */
  async #live(): Promise<readonly SessionInfo[]> {
    // The first page of a list without a limit has all sessions that have not ended.
    const page = await this.#client.listSessions({ metadata: { [SCOPE_LABEL]: this.#label } });
    return page.filter(
      // SECURITY: metadata can be set by anyone with the API key; the key is what names the owner.
      ({ key, status }) => key?.startsWith(this.#prefix) === true && !ENDED.has(status),
    );
  }

  #isNamed({ id: sessionId, key = "" }: SessionInfo, id: string): boolean {
    if (id === sessionId || id === key) return true;
    if (key !== this.key("default")) return false;
    return (
      id === this.#label ||
      id === `${this.namespace}_${this.id}_sandbox` ||
      id === `${this.id}_sandbox`
    );
  }
}

/** The one answer for a sandbox that is not there for the caller, whatever the reason. */
function unknownSandbox(id: string): ToolError {
  return new ToolError(
    "SANDBOX_NOT_FOUND",
    `There is no sandbox ${JSON.stringify(id.slice(0, 256))} in this run. Leave sandbox_id out to use the run's own sandbox, or call sandbox_open.`,
  );
}

/** Whether the daemon says that a session is no more. */
export function hasEnded(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "SESSION_NOT_FOUND" ||
      error.code === "SESSION_EXPIRED" ||
      (error.code === "CONFLICT" && /crashed|failed/.test(error.message)))
  );
}

function nameOf({ key = "" }: SessionInfo): string {
  return key.split(":").at(2) ?? "default";
}
