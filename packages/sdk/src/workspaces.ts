/** Workspaces: directories that outlive sessions. */
import type { WorkspaceBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import { Files } from "./files.ts";
import { toWorkspaceInfo, type WorkspaceInfo } from "./session-types.ts";
import { path, type Transport } from "./transport.ts";
import type { WorkspaceListBody } from "./wire-bodies.ts";

/** The caller's workspaces. A session mounts one with `workspaceId`. */
export class Workspaces {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** All workspaces. */
  async list(options: CallOptions = {}): Promise<readonly WorkspaceInfo[]> {
    const { workspaces } = await this.#transport.json<WorkspaceListBody>({
      method: "GET",
      path: "/v1/workspaces",
      signal: options.signal,
    });
    return workspaces.map(toWorkspaceInfo);
  }

  /** One workspace. */
  async get(id: string, options: CallOptions = {}): Promise<WorkspaceInfo> {
    const body = await this.#transport.json<WorkspaceBody>({
      method: "GET",
      path: path`/v1/workspaces/${id}`,
      signal: options.signal,
    });
    return toWorkspaceInfo(body);
  }

  /** Creates an empty one, or returns the existing one with this id. */
  async create(id: string, options: CallOptions = {}): Promise<WorkspaceInfo> {
    const body = await this.#transport.json<WorkspaceBody>({
      method: "PUT",
      path: path`/v1/workspaces/${id}`,
      signal: options.signal,
    });
    return toWorkspaceInfo(body);
  }

  /** Deletes one with its files; `CONFLICT` while a session uses it. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: path`/v1/workspaces/${id}`,
      doneWhenRepeated: "FILE_NOT_FOUND",
      signal: options.signal,
    });
  }

  /** The files of one, even without a session. */
  files(id: string): Files {
    return new Files(this.#transport, path`/v1/workspaces/${id}`);
  }
}
