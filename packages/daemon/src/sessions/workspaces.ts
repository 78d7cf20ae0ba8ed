/** Persistent workspaces: files that outlive sessions, and file calls on them without a session. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend, WorkspaceSpec } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { SessionRow, SessionStore, WorkspaceRow } from "../ports/session-store.ts";
import { KeyedMutex } from "../keyed-mutex.ts";
import type { CreateQueue } from "./create-queue.ts";
import type { Disks } from "./disks.ts";
import { newSandboxId } from "./ids.ts";
import type { LiveSession } from "./live-session.ts";
import type { Membership } from "./membership.ts";
import { removeOrphan } from "./orphans.ts";
import type { Providers } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { SandboxAccess } from "./services/session-service.ts";
import type { WorkspaceService, WorkspaceView } from "./services/workspace-service.ts";
import type { LiveSessions } from "./live-sessions.ts";
import type { Sessions } from "./sessions.ts";
import type { SessionSettings } from "./settings.ts";

const MIB = 1024 * 1024;
/** A sandbox that only serves file calls is removed after being idle this long. */
const IDLE_MS = 60_000;
/** How often a call restarts because its workspace was destroyed meanwhile. */
const MAX_ATTEMPTS = 5;
/** The maximum per owner. */
const MAX_FILE_SANDBOXES = 16;
/** It runs only the runner. */
const FILE_SANDBOX_LIMITS = {
  memoryBytes: 128 * MIB,
  cpuMillicores: 1000,
  pids: 32,
  diskBytes: 16 * MIB,
  diskInodes: 1024,
};

export interface WorkspacesParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly membership: Membership;
  readonly log: Log;
  readonly table: LiveSessions;
  readonly sessions: Sessions;
  readonly disks: Disks;
  readonly queue: CreateQueue;
  readonly settings: SessionSettings;
}

/** A sandbox that mounts a workspace only to serve file calls. */
interface FileSandbox {
  readonly owner: string;
  readonly backend: Backend;
  readonly sandboxId: string;
  readonly channel: Promise<Channel>;
  users: number;
  usedMs: number;
}

export class Workspaces implements WorkspaceService {
  readonly #parts: WorkspacesParts;
  readonly #fileSandboxes = new Map<string, FileSandbox>();
  /** Serializes, per disk, creating and removing file sandboxes and removing the disk. */
  readonly #mutex = new KeyedMutex();

  constructor(parts: WorkspacesParts) {
    this.#parts = parts;
  }

  async list(caller: Caller): Promise<readonly WorkspaceView[]> {
    const { store } = this.#parts;
    const rows = await store.listWorkspaces(caller.owner);
    const living = await store.livingSessions(caller.owner);
    return rows.map((row) => viewOf(row, living));
  }

  async get(caller: Caller, id: string): Promise<WorkspaceView> {
    const row = await this.#row(caller, id);
    return viewOf(row, await this.#parts.store.livingSessions(caller.owner));
  }

  /** Entering it creates the disk, within the owner's quotas, as a first file call does. */
  async create(caller: Caller, id: string): Promise<WorkspaceView> {
    if ((await this.#parts.store.getWorkspace(caller.owner, id)) === undefined) {
      using _ = await this.enter(caller, id, { make: true });
    }
    return await this.get(caller, id);
  }

  async destroy(caller: Caller, id: string): Promise<void> {
    const row = await this.#row(caller, id);
    await this.#mutex.run(row.diskId, async () => {
      await this.#parts.providers.tidied(this.#parts.providers.backendOf(row.backend));
      await this.#parts.disks.destroy(row, { requireNoUse: () => this.#requireNoUse(row) });
    });
  }

  /**
   * For file calls: through a session that has it, or through a dedicated sandbox. `make` creates
   * an unknown one.
   */
  async enter(
    caller: Caller,
    id: string,
    options: { readonly make?: boolean } = {},
  ): Promise<SandboxAccess> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const backend = await this.#backendFor(caller, id, options.make === true);
      const access =
        (await this.#enterSession(caller, id)) ??
        (await this.#parts.disks.withDisk(caller, id, backend, (disk) =>
          this.#mutex.run(disk.id, () => this.#enterFileSandbox(caller, id, disk)),
        ));
      if (access !== undefined) return access;
    }
    throw new SandboxError("CONFLICT", `the workspace ${id} keeps being destroyed`);
  }

  /** Removes idle file sandboxes, and finishes what failed; called by the reaper. */
  async tidy(): Promise<void> {
    const now = this.#parts.clock.monotonicMs();
    for (const row of this.#parts.disks.unfinished) await this.#finish(row);
    for (const [diskId, sandbox] of this.#fileSandboxes)
      if (sandbox.users === 0 && now - sandbox.usedMs >= IDLE_MS)
        await this.#dismissIdle(diskId, sandbox);
  }

  async #finish(row: WorkspaceRow): Promise<void> {
    const { disks, log } = this.#parts;
    try {
      await this.#mutex.run(row.diskId, () => disks.finish(row));
    } catch (error) {
      log.warn({ err: error, workspace: row.id }, "cannot destroy a workspace yet; will retry");
    }
  }

  /**
   * The other daemons forgot the file sandboxes together with this one's token, and remove them as
   * orphans: none is used again.
   */
  async lose(): Promise<void> {
    const lost = [...this.#fileSandboxes.keys()];
    await Promise.all(lost.map((diskId) => this.#mutex.run(diskId, () => this.#abandon(diskId))));
  }

  async stop(): Promise<void> {
    for (const diskId of this.#fileSandboxes.keys())
      await this.#mutex.run(diskId, () => this.#dismiss(diskId));
  }

  /** Sandboxes that other daemons have for file calls keep the backend from removing the disk. */
  async #requireNoUse(row: WorkspaceRow): Promise<void> {
    // Checks all daemons: another one may serve the session.
    const [used] = (await this.#parts.store.livingSessions(row.owner)).filter((session) =>
      hasWorkspace(session, row.id),
    );
    if (used !== undefined)
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${row.id} is in use by session ${used.id}; destroy that session first`,
        { details: { session_id: used.id } },
      );
    await this.#dismiss(row.diskId);
  }

  /** Through a session that has it, if one can be entered. */
  async #enterSession(caller: Caller, id: string): Promise<SandboxAccess | undefined> {
    for (const session of this.#sessionsOf({ owner: caller.owner, id })) {
      const { row, ending, isOver } = session;
      // Mounted elsewhere, it is not /workspace, which file calls use.
      if (row.workspaceId !== id) continue;
      if (row.status !== "running" || ending !== undefined || isOver) continue;
      try {
        return await this.#parts.sessions.enter(caller, row.id);
      } catch (error) {
        // The session ended meanwhile; the files still exist.
        this.#parts.log.info({ err: error, session: row.id }, "a session of a workspace has ended");
      }
    }
    return undefined;
  }

  /** Called in the disk's turn. Undefined if the previous turn has destroyed it. */
  async #enterFileSandbox(
    caller: Caller,
    id: string,
    disk: WorkspaceSpec,
  ): Promise<SandboxAccess | undefined> {
    const row = await this.#parts.store.getWorkspace(caller.owner, id);
    if (row?.diskId !== disk.id) return undefined;
    const sandbox = (await this.#livingFileSandbox(row)) ?? (await this.#newFileSandbox(row));
    if (sandbox === undefined) return undefined;
    sandbox.users += 1;
    const leave = (): void => {
      sandbox.users -= 1;
      sandbox.usedMs = this.#parts.clock.monotonicMs();
    };
    try {
      const channel = await sandbox.channel;
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

  /** The workspace's file sandbox, unless it has died. */
  async #livingFileSandbox(row: WorkspaceRow): Promise<FileSandbox | undefined> {
    const sandbox = this.#fileSandboxes.get(row.diskId);
    try {
      await (await sandbox?.channel)?.ping();
      return sandbox;
    } catch (error) {
      const { log } = this.#parts;
      log.info({ err: error, workspace: row.id }, "the sandbox for file calls has died");
      await this.#dismiss(row.diskId);
      return undefined;
    }
  }

  /** Undefined if the workspace is being destroyed: its disk must not come back. */
  async #newFileSandbox(row: WorkspaceRow): Promise<FileSandbox | undefined> {
    await this.#makeRoom(row.owner);
    const sandboxId = newSandboxId();
    const backend = this.#parts.providers.backendOf(row.backend);
    const channel = this.#openFileSandbox(sandboxId, row);
    channel.catch(() => undefined);
    const usedMs = this.#parts.clock.monotonicMs();
    const sandbox = { owner: row.owner, backend, sandboxId, channel, users: 0, usedMs };
    this.#fileSandboxes.set(row.diskId, sandbox);
    const isMade = await channel.then(
      () => true,
      () => false, // The caller gets the error.
    );
    if (!isMade || (await this.#parts.disks.isKept(row))) return sandbox;
    await this.#dismiss(row.diskId);
    await backend.destroyWorkspace(row.diskId);
    return undefined;
  }

  /**
   * SECURITY: file calls on many workspaces must not fill the machine with sandboxes (threat:
   * exceeding quotas). Guarded by workspaces.test.ts.
   */
  async #makeRoom(owner: string): Promise<void> {
    const own = [...this.#fileSandboxes].filter(([, sandbox]) => sandbox.owner === owner);
    if (own.length < MAX_FILE_SANDBOXES) return;
    const idle = own
      .filter(([, { users }]) => users === 0)
      .toSorted(([, a], [, b]) => a.usedMs - b.usedMs)[0];
    if (idle === undefined)
      throw new SandboxError(
        "QUOTA_EXCEEDED",
        `at most ${MAX_FILE_SANDBOXES} workspaces without a session can be used at once; try again in a moment`,
      );
    await this.#dismissIdle(...idle);
  }

  async #dismissIdle(diskId: string, sandbox: FileSandbox): Promise<void> {
    await this.#mutex.run(diskId, async () => {
      if (sandbox.users === 0 && this.#fileSandboxes.get(diskId) === sandbox)
        await this.#dismiss(diskId);
    });
  }

  async #openFileSandbox(sandboxId: string, row: WorkspaceRow): Promise<Channel> {
    const { providers, disks, queue, store, membership } = this.#parts;
    const { backend, images, workspaceImage, place } = providers.choose(row.backend);
    await providers.tidied(backend);
    const { reference: image } = await images.resolve(workspaceImage);
    await images.ensure(image);
    const { fence } = membership;
    await store.insertSideSandbox({ id: sandboxId, fence, place, purpose: "workspace" });
    await queue.run(row.owner, () =>
      backend.create({
        id: sandboxId,
        image,
        profile: "restricted",
        limits: FILE_SANDBOX_LIMITS,
        env: {},
        workspace: disks.specOf(row),
      }),
    );
    return await backend.open(sandboxId);
  }

  async #abandon(diskId: string): Promise<void> {
    const sandbox = this.#fileSandboxes.get(diskId);
    if (sandbox === undefined) return;
    this.#fileSandboxes.delete(diskId);
    await closeChannel(sandbox);
    await removeOrphan(sandbox.backend, sandbox.sandboxId, this.#parts.log);
  }

  async #dismiss(diskId: string): Promise<void> {
    const sandbox = this.#fileSandboxes.get(diskId);
    if (sandbox === undefined) return;
    await closeChannel(sandbox);
    await sandbox.backend.destroy(sandbox.sandboxId);
    await this.#parts.store.deleteSideSandbox(sandbox.sandboxId);
    this.#fileSandboxes.delete(diskId);
  }

  /** Sessions served here that use it, at any mount point. */
  #sessionsOf({ owner, id }: Pick<WorkspaceRow, "owner" | "id">): readonly LiveSession[] {
    return this.#parts.table
      .all()
      .filter(({ row }) => row.owner === owner && hasWorkspace(row, id));
  }

  /** Where the workspace is, or will be created. */
  async #backendFor(caller: Caller, id: string, make: boolean): Promise<string> {
    const { store, providers } = this.#parts;
    const row = make ? await store.getWorkspace(caller.owner, id) : await this.#row(caller, id);
    return row?.backend ?? providers.default.backend.name;
  }

  async #row(caller: Caller, id: string): Promise<WorkspaceRow> {
    const row = await this.#parts.store.getWorkspace(caller.owner, id);
    if (row !== undefined) return row;
    throw new SandboxError(
      "FILE_NOT_FOUND",
      `there is no workspace ${id}; list the workspaces to find the id`,
    );
  }
}

async function closeChannel({ channel }: FileSandbox): Promise<void> {
  await channel.then(
    (open) => open.close(),
    () => undefined, // It never opened; the caller already got the error.
  );
}

function hasWorkspace({ workspaceId, workspaces }: SessionRow, id: string): boolean {
  return workspaceId === id || workspaces.some((mount) => mount.id === id);
}

function viewOf(row: WorkspaceRow, living: readonly SessionRow[]): WorkspaceView {
  const sessionIds = living.filter((session) => hasWorkspace(session, row.id)).map(({ id }) => id);
  return { ...row, sessionIds };
}
