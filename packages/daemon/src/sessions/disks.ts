/** The disks of persistent workspaces: maps an owner's workspace to a disk of the backend. */
import { SandboxError } from "@sandkasten/protocol";
import type { WorkspaceSpec } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionStore, WorkspaceRow } from "../ports/session-store.ts";
import { newDiskId } from "./ids.ts";
import type { Providers } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { SessionSettings } from "./settings.ts";

export interface DisksParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly settings: SessionSettings;
}

export class Disks {
  readonly #parts: DisksParts;
  readonly #dying = new Set<string>();
  /** How many operations are about to use a disk. */
  readonly #users = new Map<string, number>();
  /** New disks that have not been used successfully yet. */
  readonly #unproven = new Set<string>();

  constructor(parts: DisksParts) {
    this.#parts = parts;
  }

  /**
   * Works with a workspace's disk, which is created if missing; if the work then fails, the new
   * disk is removed.
   */
  async withDisk<T>(
    caller: Caller,
    id: string,
    backend: string,
    work: (disk: WorkspaceSpec) => Promise<T>,
  ): Promise<T> {
    const row = await this.make(caller, id, backend);
    this.#users.set(row.diskId, (this.#users.get(row.diskId) ?? 0) + 1);
    try {
      const done = await work(this.specOf(row));
      this.#unproven.delete(row.diskId);
      return done;
    } finally {
      await this.#release(row);
    }
  }

  /** The workspace with this name on that backend, recorded if new. */
  async make(caller: Caller, id: string, backend: string): Promise<WorkspaceRow> {
    const { store, clock, providers } = this.#parts;
    const { owner } = caller;
    const now = clock.nowMs();
    const place = providers.placeOf(providers.backendOf(backend));
    const times = { createdAtMs: now, lastUsedAtMs: now };
    const row = { id, owner, backend, place, diskId: newDiskId(), ...times };
    const written = await store.insertWorkspace(row, caller.maxWorkspaces);
    if (written.inserted) {
      this.#unproven.add(row.diskId);
      return row;
    }
    if ("overQuota" in written) throw tooMany(caller);
    if (this.#dying.has(written.existing.diskId))
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${id} is being destroyed; try again when it is gone`,
      );
    if (written.existing.backend !== backend)
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${id} is on the backend ${written.existing.backend}, not ${backend}; ` +
          "open the session there, or use another workspace",
        { details: { backend: written.existing.backend } },
      );
    // A workspace without a recorded place belongs to the single daemon that existed then.
    if (written.existing.place !== "" && written.existing.place !== place)
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${id} is on another machine; open the session through the daemon there, or use another workspace`,
        { details: { place: written.existing.place } },
      );
    // Until it is proven it is only being created, here, and may vanish again.
    if (!this.#unproven.has(written.existing.diskId)) await store.touchWorkspace(owner, id, now);
    return written.existing;
  }

  /** Prevents new uses of a disk while it is destroyed. */
  async whileDying(diskId: string, work: () => Promise<void>): Promise<void> {
    this.#dying.add(diskId);
    try {
      await work();
    } finally {
      this.#dying.delete(diskId);
    }
  }

  specOf(row: WorkspaceRow): WorkspaceSpec {
    return { id: row.diskId, ...this.#parts.settings.workspaceDisk };
  }

  async #release(row: WorkspaceRow): Promise<void> {
    const { backend, diskId } = row;
    const { store, providers } = this.#parts;
    const users = (this.#users.get(diskId) ?? 1) - 1;
    if (users > 0) {
      this.#users.set(diskId, users);
      return;
    }
    this.#users.delete(diskId);
    if (!this.#unproven.delete(diskId)) return;
    await this.whileDying(diskId, async () => {
      // The row first: another daemon that finds it uses the disk, and its files must stay.
      if (!(await store.deleteUnusedWorkspace(diskId))) return;
      try {
        await providers.backendOf(backend).destroyWorkspace(diskId);
      } catch (error) {
        // Without a row, what is left of the disk could never be removed.
        await store.insertWorkspace(row, Number.MAX_SAFE_INTEGER);
        throw error;
      }
    });
  }
}

function tooMany({ maxWorkspaces }: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `at most ${maxWorkspaces} workspaces may exist at once; delete some first`,
    { details: { max_workspaces: maxWorkspaces } },
  );
}
