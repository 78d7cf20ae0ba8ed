/** Workspaces: directories that outlive sessions. */
import { okSchema, workspaceListSchema, workspaceSchema } from "@sandkasten/protocol";
import type { WorkspaceBody } from "@sandkasten/protocol";
import type { WorkspaceView } from "../../sessions/services.ts";
import { errors } from "../answers.ts";
import { isoTime } from "../bodies/session-body.ts";
import type { App, HttpContext } from "../context.ts";
import { workspaceParams } from "./params.ts";

const tags = ["workspaces"];

export function workspaceRoutes(app: App, { services: { workspaces } }: HttpContext): void {
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
        summary: "Look at a workspace",
        params: workspaceParams,
        response: { 200: workspaceSchema, ...errors("FILE_NOT_FOUND") },
      },
    },
    async ({ caller, params }) => workspaceBody(await workspaces.get(caller, params.id)),
  );

  app.delete(
    "/workspaces/:id",
    {
      schema: {
        tags,
        summary: "Remove a workspace with all its files",
        params: workspaceParams,
        response: { 200: okSchema, ...errors("FILE_NOT_FOUND", "CONFLICT") },
      },
    },
    async ({ caller, params }) => {
      await workspaces.destroy(caller, params.id);
      return { ok: true as const };
    },
  );
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
