/** All sandboxes of one run: opened by name, kept alive while in use, destroyed with the run. */
import { randomUUID } from "node:crypto";
import type { CreateSessionOptions, SandboxClient, Session, SessionInfo } from "@sandkasten/sdk";
import { SandboxError } from "@sandkasten/sdk";
import { ToolError } from "../tool-error.ts";
import { unlessAborted } from "./abort.ts";
import { HeldSession } from "./held-session.ts";
import { ScopeNames, unknownSandbox } from "./scope-names.ts";

const DEFAULT_LEASE_SECONDS = 240;
const MAX_TTL_SECONDS = 86_400;
/** The metadata that names the run of a session. */
const SCOPE_LABEL = "sandkasten.scope";
const ENDED = new Set(["destroying", "destroyed", "expired", "crashed", "failed"]);

export interface SandboxScopeOptions {
  readonly client: SandboxClient;
  readonly namespace: "workflow" | "agent" | "user";
  /** The run's id: 1 to 128 letters, digits, `_`, `.` or `-`. */
  readonly id: string;
  /** How long a sandbox outlives the process that created it; 240 by default. */
  readonly leaseSeconds?: number | undefined;
  /**
   * Called for each session that could not be destroyed; by default the process emits a warning.
   */
  readonly onCleanupFailure?: ((key: string, error: unknown) => void) | undefined;
}

/** What to create. */
export interface FreshOptions {
  readonly create: Omit<CreateSessionOptions, "key" | "metadata" | "ttlSeconds" | "signal">;
  readonly maxLifetimeSeconds: number;
  /** Runs once in a new session; if it fails, the session is destroyed. */
  readonly prepare?: ((session: Session) => Promise<void>) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Which session of a scope to open, and what to create if there is none. */
export interface OpenOptions extends FreshOptions {
  /** A name, a key or an alias. */
  readonly name: string;
  /** Whether a live session with another image is an error, or is used as it is. */
  readonly isImageGiven: boolean;
  readonly idleTimeoutSeconds: number;
}

export class SandboxScope implements AsyncDisposable {
  readonly leaseSeconds: number;
  readonly #client: SandboxClient;
  readonly #names: ScopeNames;
  readonly #onCleanupFailure: (key: string, error: unknown) => void;
  readonly #held = new Map<string, HeldSession>();
  /** Pending operations that may still create or destroy a session. */
  readonly #unfinished = new Set<Promise<unknown>>();
  /** One at a time for each name, so that a second opener finds a prepared sandbox. */
  readonly #turns = new Map<string, Promise<unknown>>();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(options: SandboxScopeOptions) {
    const { client, namespace, id, leaseSeconds = DEFAULT_LEASE_SECONDS } = options;
    this.#client = client;
    this.#names = new ScopeNames(namespace, id);
    this.leaseSeconds = leaseSeconds;
    this.#onCleanupFailure = options.onCleanupFailure ?? warnOfCleanupFailure;
  }

  /** The session with a name: the live one, or a new one. Concurrent calls get the same one. */
  async open(options: OpenOptions): Promise<HeldSession> {
    if (this.#isOver)
      throw new ToolError("SANDBOX_NOT_FOUND", "The run has ended, and its sandboxes with it.");
    const name = this.#names.nameOf(options.name);
    const before = this.#turns.get(name);
    const opening = (async () => {
      await before?.catch(() => undefined);
      return this.#open({ ...options, name });
    })();
    this.#turns.set(name, opening);
    this.#track(opening, () => {
      if (this.#turns.get(name) === opening) this.#turns.delete(name);
    });
    return await unlessAborted(opening, options.signal);
  }

  /** A session for this caller only, which must end it. */
  async openFresh(options: FreshOptions): Promise<HeldSession> {
    const { signal, ...rest } = options;
    // Its name belongs to the run, so if the process dies the sandbox expires.
    const name = `run-${randomUUID()}`;
    const opening = this.open({
      ...rest,
      name,
      isImageGiven: true,
      idleTimeoutSeconds: this.leaseSeconds,
    });
    try {
      return await unlessAborted(opening, signal);
    } catch (error) {
      // The caller has given up: a session created after that has no other owner.
      this.#track(opening.then((held) => this.end(held)));
      throw error;
    }
  }

  /** The session with a name, if this object has opened it and does not know that it has ended. */
  held(name: string): HeldSession | undefined {
    return this.#held.get(name);
  }

  /** All sessions that this object has opened and does not know to have ended. */
  heldSessions(): readonly HeldSession[] {
    return [...this.#held.values()];
  }

  /**
   * The live session with an id, a key or an alias.
   *
   * SECURITY: only sessions of this scope are considered, so another run's id gets exactly the same
   * answer as one that does not exist, after the same requests. Guarded by
   * scope-attack.serial.test.ts.
   */
  async find(
    id: string,
    limits: Pick<OpenOptions, "idleTimeoutSeconds" | "maxLifetimeSeconds">,
  ): Promise<HeldSession> {
    const known = [...this.#held.values()].find((held) => this.#names.isNamed(held.info, id));
    if (known !== undefined) return known;
    const info = (await this.#live()).find((session) => this.#names.isNamed(session, id));
    if (info === undefined) throw unknownSandbox(id);
    const session = await this.#client.getSession(info.id);
    return this.#hold(this.#names.nameOf(info.key ?? ""), session, limits);
  }

  /** Forgets a session that has ended. */
  forget(held: HeldSession): void {
    if (this.#held.get(held.name) === held) this.#held.delete(held.name);
  }

  /** Destroys a session; a failure is reported and not thrown. */
  async end(held: HeldSession): Promise<void> {
    this.forget(held);
    await this.#cleanUp(held.info, () => held.session.destroy());
  }

  /**
   * Destroys every session of the scope, including those of an earlier process; a failure is reported
   * and does not stop the others. With `retainSeconds` they are left to expire instead.
   */
  async close(options: { readonly retainSeconds?: number | undefined } = {}): Promise<void> {
    this.detach();
    // A session that is currently being opened belongs to the run as well.
    await Promise.allSettled(this.#unfinished);
    const { retainSeconds = 0 } = options;
    const end = async (info: SessionInfo): Promise<void> => {
      const session = await this.#client.getSession(info.id);
      if (retainSeconds <= 0) return session.destroy();
      await session.renew({ ttlSeconds: Math.min(retainSeconds, MAX_TTL_SECONDS) });
    };
    const sessions = await this.#live();
    await Promise.all(sessions.map((info) => this.#cleanUp(info, () => end(info))));
    this.#held.clear();
  }

  /** Stops keeping sessions alive and destroys nothing: another process continues the run. */
  detach(): void {
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(options: OpenOptions): Promise<HeldSession> {
    const session = await this.#create(options);
    try {
      if (session.created) await options.prepare?.(session);
    } catch (error) {
      await this.#cleanUp(session, () => session.destroy());
      throw error;
    }
    return this.#hold(options.name, session, options);
  }

  async #create({ name, create, isImageGiven, idleTimeoutSeconds }: OpenOptions): Promise<Session> {
    const request: CreateSessionOptions = {
      ...create,
      key: this.#names.key(name),
      metadata: { [SCOPE_LABEL]: this.#names.label },
      ttlSeconds: Math.min(this.leaseSeconds, idleTimeoutSeconds),
    };
    try {
      return await this.#client.createSession(request);
    } catch (error) {
      const isOther = error instanceof SandboxError && error.code === "CONFLICT";
      if (!isOther || isImageGiven) throw error;
      // A caller that requests no particular image gets the live session as it is.
      return await this.#client.createSession({ ...request, image: undefined });
    }
  }

  #hold(
    name: string,
    session: Session,
    limits: Pick<OpenOptions, "idleTimeoutSeconds" | "maxLifetimeSeconds">,
  ): HeldSession {
    const before = this.#held.get(name);
    if (before?.session.id === session.id) {
      before.adopt(session, limits);
      return before;
    }
    const { idleTimeoutSeconds, maxLifetimeSeconds } = limits;
    const held = new HeldSession(name, session, {
      leaseSeconds: this.leaseSeconds,
      idleTimeoutSeconds,
      maxLifetimeSeconds,
    });
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
        if (held.isOver) this.forget(held);
      } catch (error) {
        // If the daemon does not respond now, the next turn is still in time.
        if (hasEnded(error)) this.forget(held);
      }
    }
  }

  /** The sessions of the scope that have not ended. */
  async #live(): Promise<readonly SessionInfo[]> {
    const metadata = { [SCOPE_LABEL]: this.#names.label };
    // The first page of a list without a limit has all sessions that have not ended.
    const page = await this.#client.listSessions({ metadata });
    // SECURITY: anyone with the API key can set metadata; only the key names the owner.
    return page.filter((session) => this.#names.owns(session) && !ENDED.has(session.status));
  }

  async #cleanUp(info: SessionInfo, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!hasEnded(error)) this.#onCleanupFailure(info.key ?? info.id, error);
    }
  }

  #track(work: Promise<unknown>, onEnd: () => void = () => {}): void {
    // The waiting callers get its failure.
    const settled = work.then(
      () => undefined,
      () => undefined,
    );
    const ended = settled.finally(() => {
      this.#unfinished.delete(ended);
      onEnd();
    });
    this.#unfinished.add(ended);
  }
}

/** Whether the daemon says that a session no longer exists. */
export function hasEnded(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "SESSION_NOT_FOUND" ||
      error.code === "SESSION_EXPIRED" ||
      (error.code === "CONFLICT" && ENDED.has(String(error.details?.["status"]))))
  );
}

function warnOfCleanupFailure(key: string, error: unknown): void {
  process.emitWarning(`failed to cleanup session ${key}: ${String(error)}`);
}
