/** Where file calls go: into a session, or into a workspace without one. */
import { posix } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { z } from "zod";
import type { Caller, Services, Visit } from "../sessions/services.ts";
import { WORKSPACE } from "./bodies/file-body.ts";
import { sessionParams, workspaceParams } from "./routes/params.ts";

export interface FileSpace {
  readonly prefix: "/sessions/:id" | "/workspaces/:id";
  readonly tag: string;
  readonly params: z.ZodType<{ readonly id: string }>;
  /** Throws INVALID_REQUEST for a path that is not part of it. */
  readonly checkPath: (path: string) => void;
  /** Refuses before it enters when one of the paths is not part of it. */
  readonly enter: (caller: Caller, id: string, ...paths: readonly string[]) => Promise<Visit>;
  /** Like `enter`, but makes what can be made by writing to it. */
  readonly enterToWrite: FileSpace["enter"];
}

export function fileSpaces({ sessions, workspaces }: Services): readonly FileSpace[] {
  const intoSession = async (caller: Caller, id: string): Promise<Visit> =>
    await sessions.enter(caller, id);
  const intoWorkspace =
    (options: { readonly make?: boolean }): FileSpace["enter"] =>
    async (caller, id, ...paths) => {
      for (const path of paths) checkWorkspacePath(path);
      return await workspaces.enter(caller, id, options);
    };
  return [
    {
      prefix: "/sessions/:id",
      tag: "files",
      params: sessionParams,
      checkPath: () => undefined,
      enter: intoSession,
      enterToWrite: intoSession,
    },
    {
      prefix: "/workspaces/:id",
      tag: "workspaces",
      params: workspaceParams,
      checkPath: checkWorkspacePath,
      enter: intoWorkspace({}),
      enterToWrite: intoWorkspace({ make: true }),
    },
  ];
}

/** `/work` is another name of it. */
const WORKSPACE_PATH = /^\/work(?:space)?(?:\/|$)/;

/**
 * What else there is belongs to the sandbox that the call happens to go through, and is gone with
 * it. By the path's text alone: the check is for people's mistakes, the sandbox is the boundary.
 */
function checkWorkspacePath(path: string): void {
  if (WORKSPACE_PATH.test(posix.resolve(WORKSPACE, path))) return;
  throw new SandboxError(
    "INVALID_REQUEST",
    `${JSON.stringify(path)} is not in the workspace; name a path below ${WORKSPACE}, or one that is relative to it`,
    { details: { path, allowed: [WORKSPACE, "/work"] } },
  );
}
