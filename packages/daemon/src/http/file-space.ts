/** Where file calls go: into a session, or into a workspace without one. */
import type { z } from "zod";
import type { Caller, Services, Visit } from "../sessions/services.ts";
import { sessionParams, workspaceParams } from "./routes/params.ts";

export interface FileSpace {
  readonly prefix: "/sessions/:id" | "/workspaces/:id";
  readonly tag: string;
  readonly params: z.ZodType<{ readonly id: string }>;
  readonly enter: (caller: Caller, id: string) => Promise<Visit>;
  /** Like `enter`, but makes what can be made by writing to it. */
  readonly enterToWrite: (caller: Caller, id: string) => Promise<Visit>;
}

export function fileSpaces({ sessions, workspaces }: Services): readonly FileSpace[] {
  const intoSession = async (caller: Caller, id: string): Promise<Visit> =>
    await sessions.enter(caller, id);
  return [
    {
      prefix: "/sessions/:id",
      tag: "files",
      params: sessionParams,
      enter: intoSession,
      enterToWrite: intoSession,
    },
    {
      prefix: "/workspaces/:id",
      tag: "workspaces",
      params: workspaceParams,
      enter: async (caller, id) => await workspaces.enter(caller, id),
      enterToWrite: async (caller, id) => await workspaces.enter(caller, id, { make: true }),
    },
  ];
}
