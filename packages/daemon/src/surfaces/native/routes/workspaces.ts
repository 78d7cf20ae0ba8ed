/** Workspaces: directories that outlive sessions. */
import { okSchema, SandboxError, workspaceListSchema, workspaceSchema } from "@sandkasten/protocol";
import type { WorkspaceBody } from "@sandkasten/protocol";
import type { Caller } from "../../../sessions/services/caller.ts";
import type { WorkspaceView } from "../../../sessions/services/workspace-service.ts";
import { errors } from "../openapi/documented-responses.ts";
import { isoTime } from "../bodies/session-body.ts";
import type { App } from "../../http/app.ts";
import type { NativeContext } from "../context.ts";
import { workspaceParams } from "./params.ts";

const tags = ["workspaces"];

export function workspaceRoutes(app: App, { services: { workspaces } }: NativeContext): void {
  app.get(
    "/workspaces",
    {
      schema: {
        tags,
        summary: "List workspaces",
        response: { 200: workspaceListSchema, ...errors() },
      },
    },
    async ({ caller }) => ({ workspaces: (await workspaces.list(caller)).map(workspaceBody) }),
  );

  app.get(
    "/workspaces/:id",
    {
      schema: {
        tags,
        summary: "Get a workspace",
        params: workspaceParams,
        response: { 200: workspaceSchema, ...errors("FILE_NOT_FOUND") },
      },
    },
    async ({ caller, params }) => workspaceBody(await workspaces.get(caller, params.id)),
  );

  app.put(
    "/workspaces/:id",
    {
      schema: {
        tags,
        summary: "Create an empty workspace, or return the existing one with this id",
        description:
          "A workspace is also created by the first session or file that names it. Use this call to create it beforehand.",
        params: workspaceParams,
        response: { 200: workspaceSchema, ...errors("QUOTA_EXCEEDED", "STORAGE_FULL") },
      },
    },
    async ({ caller, params }) => workspaceBody(await workspaces.create(caller, params.id)),
  );

  app.delete(
    "/workspaces/:id",
    {
      schema: {
        tags,
        summary: "Delete a workspace with all its files. Idempotent",
        params: workspaceParams,
        response: { 200: okSchema, ...errors("CONFLICT") },
      },
    },
    async ({ caller, params }) => {
      await destroyIfThere(caller, params.id);
      return { ok: true as const };
    },
  );

  /** Clients clean up without checking what exists. */
  async function destroyIfThere(caller: Caller, id: string): Promise<void> {
    try {
      await workspaces.destroy(caller, id);
    } catch (error) {
      if (!(error instanceof SandboxError) || error.code !== "FILE_NOT_FOUND") throw error;
    }
  }
}

function workspaceBody(workspace: WorkspaceView): WorkspaceBody {
  return {
    id: workspace.id,
    created_at: isoTime(workspace.createdAtMs),
    backend: workspace.backend,
    last_used_at: isoTime(workspace.lastUsedAtMs),
    sessions: [...workspace.sessionIds],
  };
}
