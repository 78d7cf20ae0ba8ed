/**
 * Takes over what another daemon left on one backend: live sandboxes are adopted, everything else
 * is removed.
 */
import { setImmediate as otherWork } from "node:timers/promises";
import { SandboxError } from "@sandkasten/protocol";
import { isLostOwnership } from "../ports/lost-ownership.ts";
import type { Backend, SandboxState } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { ExecRow, SessionRow, SessionStore } from "../ports/session-store.ts";
import { aFewAtOnce } from "./a-few-at-once.ts";
import type { Execs } from "./execs.ts";
import { sandboxIdOf } from "./ids.ts";
import type { LiveSession } from "./live-session.ts";
import type { Membership } from "./membership.ts";
import type { ReservedPlace } from "./ordered-events.ts";
import { orphansAmong, removeOrphan } from "./orphans.ts";
import type { Providers } from "./providers.ts";
import { execEnded } from "./session-events.ts";
import type { Sessions } from "./sessions.ts";
import { isUp, UNFINISHED } from "./states.ts";
import type { EndStatus } from "./states.ts";

export interface TakeOverParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly sessions: Sessions;
  readonly execs: Execs;
  readonly membership: Membership;
  /** Fires when the daemon stops: the rest is left to the next one. */
  readonly stopping: AbortSignal;
}

/** What another daemon, or an earlier run of this one, recorded for one backend. */
export interface Inheritance {
  readonly backend: Backend;
  readonly sessions: readonly LiveSession[];
  readonly execs: readonly ExecRow[];
  /** The daemon is starting: a new database may then mean that the old one was lost. */
  readonly atStart: boolean;
}

export interface Reconciled {
  readonly adopted: number;
  readonly ended: number;
  readonly orphans: number;
}

export class TakeOver {
  readonly #parts: TakeOverParts;
  readonly #backend: Backend;
  readonly #atStart: boolean;
  /** Sessions still to be checked, in order. */
  readonly #left: Set<LiveSession>;
  readonly #execs: ReadonlyMap<string, readonly ExecRow[]>;
  readonly #inherited: ReadonlySet<string>;
  readonly #looks = new Map<LiveSession, Promise<void>>();
  readonly #dead: (() => Promise<void>)[] = [];
  /** Adopted sessions whose programs are without their network until the channel is open. */
  readonly #cutOff: LiveSession[] = [];
  #listing: Promise<ReadonlyMap<string, SandboxState>> | undefined;
  #adopted = 0;
  #ended = 0;

  constructor({ backend, sessions, execs, atStart }: Inheritance, parts: TakeOverParts) {
    this.#parts = parts;
    this.#backend = backend;
    this.#atStart = atStart;
    this.#left = new Set(sessions);
    this.#execs = Map.groupBy(execs, ({ sessionId }) => sessionId);
    this.#inherited = new Set(sessions.map(({ row }) => sandboxIdOf(row)));
    for (const session of sessions) session.adoption = () => this.#adoptNow(session);
  }

  /** Rejects if the backend is unreachable; then nothing was ended, and it can be retried. */
  async run(): Promise<Reconciled> {
    const states = await this.#states();
    for (const session of this.#left) {
      if (this.#parts.stopping.aborted) break;
      await this.#look(session, () => stateIn(states, session)).catch((error: unknown) => {
        if (!isLostOwnership(error)) throw error;
        this.#left.delete(session); // Another daemon checks it.
      });
      await otherWork();
    }
    void this.#reconnect();
    await this.#endDead();
    const left = await orphansAmong(this.#backend, states.keys(), this.#parts);
    const orphans = left.filter((id) => !this.#inherited.has(id));
    for (const id of orphans)
      if (!this.#parts.stopping.aborted) await removeOrphan(this.#backend, id, this.#parts.log);
    return { adopted: this.#adopted, ended: this.#ended, orphans: orphans.length };
  }

  /** A request waits for this session, so it is checked separately, before its turn. */
  async #adoptNow(session: LiveSession): Promise<void> {
    await this.#parts.providers.ready(this.#backend);
    await this.#look(session, async () => {
      try {
        return (await this.#backend.adopt(sandboxIdOf(session.row))).state;
      } catch (error) {
        if (!isDeath(error)) throw error;
        return stateIn(await this.#states(), session);
      }
    });
  }

  /** Once for each session; a failed check is repeated on the next request. */
  async #look(session: LiveSession, stateOf: () => StateOrPromise): Promise<void> {
    if (!this.#left.has(session)) return;
    let look = this.#looks.get(session);
    if (look === undefined) {
      look = this.#judge(session, stateOf).finally(() => this.#looks.delete(session));
      this.#looks.set(session, look);
    }
    await look;
  }

  async #judge(session: LiveSession, stateOf: () => StateOrPromise): Promise<void> {
    const { row } = session;
    const execs = this.#execs.get(row.id) ?? [];
    const state = await this.#settledState(session, await stateOf());
    const isAlive = state === "running" || state === "paused";
    if ((row.status === "running" || row.status === "paused") && isAlive) {
      if (row.status !== state) await session.save({ status: state });
      if (typeof row.network === "object" && state === "running") this.#cutOff.push(session);
      // Before new requests are admitted: commands that waited for the shell come first.
      await this.#parts.execs.adopt(session, execs);
      this.#adopted++;
    } else {
      const [status, reason] = endOf(row);
      if (row.status !== "destroying") await session.save({ status: "destroying" });
      const { earlierEnds } = session;
      await Promise.all(
        execs.map((exec) => endExec(exec, earlierEnds.placeOf(exec.id), this.#parts)),
      );
      this.#dead.push(() => this.#end(session, status, reason));
      this.#ended++;
    }
    this.#left.delete(session);
    session.adoption = undefined;
  }

  /**
   * A recorded status that differs from the sandbox's state means that the daemon before this one was
   * about to pause or resume it. If that daemon only stands still, its request must not take effect
   * later.
   */
  async #settledState(
    { row, sandboxFence, backend }: LiveSession,
    state: SandboxState | undefined,
  ): Promise<SandboxState | undefined> {
    const { status } = row;
    if (sandboxFence === undefined || state === status) return state;
    if (!isUp(status) || (state !== "running" && state !== "paused")) return state;
    try {
      return (await backend.takeOver(sandboxIdOf(row), sandboxFence)).state;
    } catch (error) {
      if (isLostOwnership(error) || !isDeath(error)) throw error;
      return "dead";
    }
  }

  /**
   * Gives running programs their network back.
   *
   * SECURITY: a compromised sandbox may refuse or never answer, so the take-over does not wait for
   * it, and other sessions are adopted first (threat: a stalling runner). Guarded by "sandbox without an
   * answer" in reconcile.test.ts.
   */
  async #reconnect(): Promise<void> {
    const { log, stopping } = this.#parts;
    const next = (): LiveSession | undefined =>
      stopping.aborted ? undefined : this.#cutOff.shift();
    await aFewAtOnce(next, async (session) => {
      if (session.ending !== undefined || session.isReleased) return;
      try {
        await session.channel();
      } catch (error) {
        const fields = { err: error, session: session.row.id };
        log.warn(fields, "a session has no network until it is used; its sandbox does not respond");
      }
    });
  }

  async #end(session: LiveSession, status: EndStatus, reason: string | undefined): Promise<void> {
    try {
      await this.#parts.sessions.end(session, status, reason);
    } catch (error) {
      // It stays in the table as `destroying`, and the reaper retries.
      this.#parts.log.error({ err: error, session: session.row.id }, "cannot clean up a session");
    }
  }

  async #endDead(): Promise<void> {
    const next = (): (() => Promise<void>) | undefined =>
      this.#parts.stopping.aborted ? undefined : this.#dead.shift();
    await aFewAtOnce(next, (end) => end());
  }

  async #states(): Promise<ReadonlyMap<string, SandboxState>> {
    this.#listing ??= listed(this.#backend).catch((error: unknown) => {
      this.#listing = undefined;
      throw error;
    });
    const states = await this.#listing;
    if (this.#atStart) refuseForeign(this.#parts.store, states);
    return states;
  }
}

type StateOrPromise = SandboxState | undefined | Promise<SandboxState | undefined>;

function stateIn(
  states: ReadonlyMap<string, SandboxState>,
  { row }: LiveSession,
): SandboxState | undefined {
  return states.get(sandboxIdOf(row));
}

export async function listed(backend: Backend): Promise<ReadonlyMap<string, SandboxState>> {
  return new Map((await backend.list()).map(({ id, state }) => [id, state]));
}

/**
 * SECURITY: an empty store next to live sandboxes more likely means a lost database than a reason
 * to destroy them all (threat: a damaged database). Guarded by "refuses to start" in
 * tests/torture/daemon-faults.test.ts.
 */
export function refuseForeign(
  store: SessionStore,
  states: ReadonlyMap<string, SandboxState>,
): void {
  const living = [...states.values()].filter((state) => state !== "dead");
  if (!store.isNew || living.length === 0) return;
  throw new SandboxError(
    "CONFLICT",
    `the database is new, but ${living.length} sandboxes of this daemon are running; ` +
      "restore the database, or remove the sandboxes with `sandkasten sweep --yes`",
  );
}

/** Records that a command ended with its sandbox, or that it never began. */
export async function endExec(
  row: ExecRow,
  reserved: ReservedPlace,
  { store, clock, membership }: Pick<TakeOverParts, "store" | "clock" | "membership">,
): Promise<void> {
  using place = reserved;
  const isQueued = row.status === "queued";
  const end = {
    status: "done",
    endReason: isQueued ? "not_started" : "sandbox_gone",
    endedAtMs: clock.nowMs(),
    durationMs: isQueued ? 0 : Math.max(0, clock.nowMs() - row.startedAtMs),
    request: "",
  } as const;
  await store.updateExec(row.sessionId, row.id, membership.fence, end);
  place.fill(execEnded({ ...row, ...end }));
}

function endOf({ status }: SessionRow): [EndStatus, string | undefined] {
  if (status === "creating") return ["failed", UNFINISHED];
  if (status === "destroying") return ["destroyed", undefined];
  return ["crashed", "its sandbox was gone when the daemon restarted"];
}

/** Whether the backend reports the sandbox as dead, rather than being unreachable. */
function isDeath(error: unknown): boolean {
  return (
    error instanceof SandboxError &&
    (error.code === "SANDBOX_NOT_FOUND" || error.code === "SANDBOX_UNREACHABLE")
  );
}
