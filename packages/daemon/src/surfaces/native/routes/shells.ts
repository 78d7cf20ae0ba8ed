/** Lists and closes the shells of a session. The first command that names a shell creates it. */
import { okSchema, shellListBodySchema } from "@sandkasten/protocol";
import type { ShellBody } from "@sandkasten/protocol";
import type { ShellView } from "../../../sessions/services/shell-service.ts";
import { errors, LIVING_ERRORS } from "../openapi/documented-responses.ts";
import type { App } from "../../http/app.ts";
import type { NativeContext } from "../context.ts";
import { sessionParams, shellParams } from "./params.ts";

const tags = ["commands"];

export function shellRoutes(app: App, { services }: NativeContext): void {
  const { shells } = services;

  app.get(
    "/sessions/:id/shells",
    {
      schema: {
        tags,
        summary: "List a session's shells",
        params: sessionParams,
        response: { 200: shellListBodySchema, ...errors(LIVING_ERRORS) },
      },
    },
    async ({ caller, params }) => ({
      shells: (await shells.list(caller, params.id)).map(shellBody),
    }),
  );

  app.delete(
    "/sessions/:id/shells/:name",
    {
      schema: {
        tags,
        summary: "Close a shell",
        description:
          "Cancels the commands that run or wait in it. Its background jobs continue. The next command that names the shell gets a new one.",
        params: shellParams,
        response: { 200: okSchema, ...errors(LIVING_ERRORS, "SHELL_NOT_FOUND") },
      },
    },
    async ({ caller, params }) => {
      await shells.close(caller, params.id, params.name);
      return { ok: true as const };
    },
  );
}

function shellBody(shell: ShellView): ShellBody {
  return {
    name: shell.name,
    kind: shell.kind,
    cwd: shell.cwd,
    busy: shell.busy,
    queued: shell.queued,
    ...(shell.execId !== undefined && { exec_id: shell.execId }),
  };
}
