/** Persistent workspaces of the embedded backend: disks that the launcher creates, shares and removes. */
import { SandboxError } from "@sandkasten/protocol";
import type { WorkspaceListing, WorkspaceSpec } from "../../ports/backend.ts";
import type { Launcher, LauncherCreate } from "./launcher.ts";

export interface WorkspaceDirectories {
  readonly workspacesDir: string;
  readonly sandboxesDir: string;
  readonly templatesDir: string;
}

export class WorkspaceDisks {
  readonly #launcher: Launcher;
  readonly #directories: WorkspaceDirectories;

  constructor(launcher: Launcher, directories: WorkspaceDirectories) {
    this.#launcher = launcher;
    this.#directories = directories;
  }

  /** The launcher's request for a sandbox's workspace. */
  request({ id, diskBytes, diskInodes }: WorkspaceSpec): NonNullable<LauncherCreate["workspace"]> {
    const { workspacesDir, templatesDir } = this.#directories;
    return {
      id,
      workspaces_dir: workspacesDir,
      disk: { bytes: diskBytes, inodes: diskInodes, templates_dir: templatesDir },
    };
  }

  async list(): Promise<WorkspaceListing[]> {
    const { workspacesDir } = this.#directories;
    const found = await this.#launcher.listWorkspaces({ workspaces_dir: workspacesDir });
    return found.map(({ id, bytes }) => ({ id, diskLimitBytes: bytes }));
  }

  async destroy(id: string): Promise<void> {
    const answer = await this.#launcher.destroyWorkspace({
      id,
      workspaces_dir: this.#directories.workspacesDir,
      sandboxes_dir: this.#directories.sandboxesDir,
    });
    if (answer.destroyed) return;
    const users = answer.in_use_by;
    throw new SandboxError(
      "CONFLICT",
      users.length === 0
        ? `the disk of the workspace ${id} is attached, but not by a sandbox of this daemon; detach it first`
        : `the workspace ${id} is in use by ${users.join(", ")}; destroy these sandboxes first`,
      { details: { sandboxes: users } },
    );
  }
}
