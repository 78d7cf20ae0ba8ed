/** The disks of persistent workspaces: which owner's workspace is which disk of the backend. */
import { SandboxError } from "@sandkasten/protocol";
import type { WorkspaceSpec } from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionStore, WorkspaceRow } from "../ports/session-store.ts";
import { newDiskId } from "./ids.ts";
import type { SessionSettings } from "./settings.ts";

export interface DisksParts {
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly settings: SessionSettings;
}

export class Disks {
  readonly #parts: DisksParts;
  readonly #dying = new Set<string>();

  constructor(parts: DisksParts) {
    this.#parts = parts;
  }

  /** The disk of a workspace, which is given one when it has none. */
  async make(owner: string, id: string): Promise<WorkspaceSpec> {
    const { store, clock } = this.#parts;
    const now = clock.nowMs();
    const row = { id, owner, diskId: newDiskId(), createdAtMs: now, lastUsedAtMs: now };
    const written = await store.insertWorkspace(row);
    if (written.inserted) return this.specOf(row);
    if (this.#dying.has(written.existing.diskId))
      throw new SandboxError(
        "CONFLICT",
        `the workspace ${id} is being destroyed; try again when it is gone`,
      );
    await store.touchWorkspace(owner, id, now);
    return this.specOf(written.existing);
  }

  /** While a disk is destroyed nobody gets it. */
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
}
