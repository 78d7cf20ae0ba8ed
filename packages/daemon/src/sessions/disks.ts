/** The disks of persistent workspaces: maps an owner's workspace to a disk of the backend. */
import { SandboxError } from "@sandkasten/protocol";
import type { WorkspaceSpec } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionStore, WorkspaceRow } from "../ports/session-store.ts";
import { newDiskId } from "./ids.ts";
import type { Membership } from "./membership.ts";
import type { Providers } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { SessionSettings } from "./settings.ts";

/** How often a workspace may vanish before it is used. */
const MAX_ATTEMPTS = 5;

export interface DisksParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly membership: Membership;
  readonly settings: SessionSettings;
}

export class Disks {
  readonly #parts: DisksParts;
  readonly #dying = new Set<string>();
  /** How many operations are about to use a disk. */
  readonly #users = new Map<string, number>();
  /** Workspaces whose destruction this daemon has not finished. All daemons refuse them until then. */
  readonly #unfinished = new Map<string, WorkspaceRow>();
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
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const written = await store.insertWorkspace(row, caller.maxWorkspaces);
      if (written.inserted) {
        this.#unproven.add(row.diskId);
        return row;
      }
      if ("overQuota" in written) throw tooMany(caller);
      const { existing } = written;
      if (this.#dying.has(existing.diskId)) throw beingDestroyed(id);
      requireHere(existing, row);
      if (existing.endingFence !== undefined) await this.destroy(existing);
      // Until it is proven it is only being created, here, and may vanish again.
      else if (this.#unproven.has(existing.diskId)) return existing;
      else if (await store.touchWorkspace(existing.diskId, now)) return existing;
    }
    throw beingDestroyed(id);
  }

  /**
   * Destroys a workspace without users. The store has the mark before uses are looked for, and a use
   * is recorded before the mark is looked for: at least one of the two gives way. A marked workspace
   * stays so until its disk is gone, since a disk's id is never used again: a daemon that stood still
   * in between destroys nothing that is in use.
   */
  async destroy(
    row: WorkspaceRow,
    {
      ifUnused = false,
      requireNoUse,
    }: { readonly ifUnused?: boolean; readonly requireNoUse?: () => Promise<void> } = {},
  ): Promise<void> {
    const { store, providers, membership } = this.#parts;
    const { diskId } = row;
    const { fence } = membership;
    if (this.#dying.has(diskId)) throw beingDestroyed(row.id);
    this.#dying.add(diskId);
    try {
      const end = await store.endWorkspace(diskId, fence, { ifUnused });
      if (end === undefined && ifUnused) return;
      if (end === undefined) throw beingDestroyed(row.id);
      let isKept = true;
      try {
        await requireNoUse?.();
        isKept = false;
        await providers.backendOf(row.backend).destroyWorkspace(diskId);
      } catch (error) {
        // An engine that did not refuse may still destroy the disk later. So may an earlier daemon
        // that only stands still.
        isKept ||= isRefusal(error);
        if (isKept && end === "begun") await store.keepWorkspace(diskId, fence);
        else this.#unfinished.set(diskId, row);
        throw error;
      }
      this.#unfinished.set(diskId, row);
      await store.deleteWorkspace(diskId);
      this.#unfinished.delete(diskId);
    } finally {
      this.#dying.delete(diskId);
    }
  }

  get unfinished(): readonly WorkspaceRow[] {
    return [...this.#unfinished.values()];
  }

  /** Destroys a workspace whose destruction failed half-way. */
  async finish(row: WorkspaceRow): Promise<void> {
    const stored = await this.#parts.store.getWorkspace(row.owner, row.id);
    if (stored?.diskId === row.diskId && stored.endingFence !== undefined) await this.destroy(row);
    else this.#unfinished.delete(row.diskId);
  }

  /** Whether the disk belongs to the workspace and is not being destroyed. */
  async isKept({ owner, id, diskId }: WorkspaceRow): Promise<boolean> {
    const row = await this.#parts.store.getWorkspace(owner, id);
    return row?.diskId === diskId && row.endingFence === undefined;
  }

  specOf(row: WorkspaceRow): WorkspaceSpec {
    return { id: row.diskId, ...this.#parts.settings.workspaceDisk };
  }

  async #release(row: WorkspaceRow): Promise<void> {
    const { diskId } = row;
    const users = (this.#users.get(diskId) ?? 1) - 1;
    if (users > 0) {
      this.#users.set(diskId, users);
      return;
    }
    this.#users.delete(diskId);
    if (!this.#unproven.delete(diskId)) return;
    await this.destroy(row, { ifUnused: true });
  }
}

/** Whether the backend answered that it keeps the disk, because a sandbox uses it. */
function isRefusal(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "CONFLICT";
}

/** CONFLICT if the disk is on another backend or machine. */
function requireHere(existing: WorkspaceRow, wanted: WorkspaceRow): void {
  const { id } = existing;
  if (existing.backend !== wanted.backend)
    throw new SandboxError(
      "CONFLICT",
      `the workspace ${id} is on the backend ${existing.backend}, not ${wanted.backend}; ` +
        "open the session there, or use another workspace",
      { details: { backend: existing.backend } },
    );
  // A workspace without a recorded place belongs to the single daemon that existed then.
  if (existing.place !== "" && existing.place !== wanted.place)
    throw new SandboxError(
      "CONFLICT",
      `the workspace ${id} is on another machine; open the session through the daemon there, or use another workspace`,
      { details: { place: existing.place } },
    );
}

function beingDestroyed(id: string): SandboxError {
  return new SandboxError(
    "CONFLICT",
    `the workspace ${id} is being destroyed; try again when it is gone`,
  );
}

function tooMany({ maxWorkspaces }: Caller): SandboxError {
  return new SandboxError(
    "QUOTA_EXCEEDED",
    `at most ${maxWorkspaces} workspaces may exist at once; delete some first`,
    { details: { max_workspaces: maxWorkspaces } },
  );
}
