/** Persistent workspaces: files that outlive sessions, and file calls on them without one. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore, WorkspaceRow } from "../ports/session-store.ts";
import type { Disks } from "./disks.ts";
import { newSandboxId } from "./ids.ts";
import type { LiveSession } from "./live-session.ts";
import type { Caller, Visit, WorkspaceService, WorkspaceView } from "./services.ts";
import type { SessionTable } from "./session-table.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";
import { WaitingLine } from "./waiting-line.ts";

const MIB = 1024 * 1024;
/** A sandbox that only serves file calls goes when it was not used for so long. */
const IDLE_MS = 60_000;
/** It runs nothing but the runner. */
const KEEPER_LIMITS = {
  memoryBytes: 128 * MIB,
  cpuMillicores: 1000,
  pids: 32,
  diskBytes: 16 * MIB,
  diskInodes: 1024,
};

export interface WorkspacesParts {
  readonly backend: Backend;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly table: SessionTable;
  readonly sessions: Sessions;
  readonly disks: Disks;
  readonly settings: SessionSettings;
}

/** A sandbox that has a workspace for the sake of file calls alone. */
interface Keeper {
  readonly sandboxId: string;
  readonly channel: Promise<Channel>;
  visits: number;
  usedMs: number;
}

export class Workspaces implements WorkspaceService {
  readonly #parts: WorkspacesParts;
  readonly #keepers = new Map<string, Keeper>();
  /** By disk: making and removing keepers, and removing the disk, take turns. */
  readonly #lines = new Map<string, WaitingLine>();

  constructor(parts: WorkspacesParts) {
    this.#parts = parts;
  }

  async list(caller: Caller): Promise<readonly WorkspaceView[]> {
    const rows = await this.#parts.store.listWorkspaces(caller.owner);
    return rows.map((row) => this.#view(row));
  }

  async get(caller: Caller, id: string): Promise<WorkspaceView> {
    return this.#view(await this.#row(caller, id));
  }

  async destroy(caller: Caller, id: string): Promise<void> {
    const row = await this.#row(caller, id);
    await this.#line(row.diskId).run(() =>
      this.#parts.disks.whileDying(row.diskId, () => this.#destroy(row)),
    );
  }

  async enter(
    caller: Caller,
    id: string,
    options: { readonly make?: boolean } = {},
  ): Promise<Visit> {
    const row = options.make === true ? await this.#made(caller, id) : await this.#row(caller, id);
    const session = this.#sessionsOf(row).find(({ row: { status } }) => status === "running");
    if (session !== undefined) return await this.#parts.sessions.enter(caller, session.row.id);
    return await this.#line(row.diskId).run(() => this.#enterKeeper(row));
  }

  /** Takes away what was not used for a while; the reaper calls it. */
  async tidy(): Promise<void> {
    const now = this.#parts.clock.monotonicMs();
    for (const [diskId, keeper] of this.#keepers) {
      if (keeper.visits > 0 || now - keeper.usedMs < IDLE_MS) continue;
      await this.#line(diskId).run(async () => {
        if (keeper.visits === 0) await this.#dismiss(diskId);
      });
    }
  }

  async stop(): Promise<void> {
    for (const diskId of this.#keepers.keys())
      await this.#line(diskId).run(() => this.#dismiss(diskId));
  }

  async #destroy(row: WorkspaceRow): Promise<void> {
    const [used] = this.#sessionsOf(row);
    if (used !== undefined)
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${row.id} is in the session ${used.row.id}; destroy that first`,
        { details: { session_id: used.row.id } },
      );
    await this.#dismiss(row.diskId);
    await this.#parts.backend.destroyWorkspace(row.diskId);
    await this.#parts.store.deleteWorkspace(row.owner, row.id);
  }

  async #enterKeeper(row: WorkspaceRow): Promise<Visit> {
    const keeper = this.#keepers.get(row.diskId) ?? this.#newKeeper(row);
    keeper.visits += 1;
    const leave = (): void => {
      keeper.visits -= 1;
      keeper.usedMs = this.#parts.clock.monotonicMs();
    };
    try {
      const channel = await keeper.channel;
      await channel.ping();
      let left = false;
      return {
        channel,
        [Symbol.dispose]: () => {
          if (!left) leave();
          left = true;
        },
      };
    } catch (error) {
      leave();
      // The next call gets a new one.
      await this.#dismiss(row.diskId);
      throw error;
    }
  }

  #newKeeper(row: WorkspaceRow): Keeper {
    const sandboxId = newSandboxId();
    const channel = this.#openKeeper(sandboxId, row);
    channel.catch(() => undefined);
    const keeper = { sandboxId, channel, visits: 0, usedMs: this.#parts.clock.monotonicMs() };
    this.#keepers.set(row.diskId, keeper);
    return keeper;
  }

  async #openKeeper(sandboxId: string, row: WorkspaceRow): Promise<Channel> {
    const { backend, disks, settings } = this.#parts;
    await backend.create({
      id: sandboxId,
      image: settings.workspaceImage,
      profile: "restricted",
      limits: KEEPER_LIMITS,
      env: {},
      workspace: disks.specOf(row),
    });
    return await backend.open(sandboxId);
  }

  async #dismiss(diskId: string): Promise<void> {
    const keeper = this.#keepers.get(diskId);
    if (keeper === undefined) return;
    this.#keepers.delete(diskId);
    await keeper.channel.then(
      (channel) => channel.close(),
      () => undefined, // It never opened; whoever asked for it was told.
    );
    await this.#parts.backend.destroy(keeper.sandboxId);
  }

  #line(diskId: string): WaitingLine {
    const line = this.#lines.get(diskId) ?? new WaitingLine();
    this.#lines.set(diskId, line);
    return line;
  }

  #sessionsOf(row: WorkspaceRow): readonly LiveSession[] {
    return this.#parts.table
      .all()
      .filter((session) => session.row.owner === row.owner && session.row.workspaceId === row.id);
  }

  #view(row: WorkspaceRow): WorkspaceView {
    return { ...row, sessionIds: this.#sessionsOf(row).map((session) => session.row.id) };
  }

  async #made(caller: Caller, id: string): Promise<WorkspaceRow> {
    await this.#parts.disks.make(caller.owner, id);
    return await this.#row(caller, id);
  }

  async #row(caller: Caller, id: string): Promise<WorkspaceRow> {
    const row = await this.#parts.store.getWorkspace(caller.owner, id);
    if (row !== undefined) return row;
    throw new SandboxError(
      "FILE_NOT_FOUND",
      `there is no workspace ${id}; list the workspaces to see which there are`,
    );
  }
}
