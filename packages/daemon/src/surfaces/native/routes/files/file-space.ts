/** Where file calls go: to a session, or to a workspace without one. */
import { posix } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { z } from "zod";
import type { Caller } from "../../../../sessions/services/caller.ts";
import type { OpenFiles } from "../../../../sessions/services/file-service.ts";
import type { Services } from "../../../../sessions/services/services.ts";
import type { SandboxPath } from "../../../../ports/channel.ts";
import { resolvedText, shownPath, WORKSPACE } from "../../bodies/path-body.ts";
import { sessionParams, workspaceParams } from "../params.ts";

export interface FileSpace {
  readonly prefix: "/sessions/:id" | "/workspaces/:id";
  readonly tag: string;
  readonly params: z.ZodType<{ readonly id: string }>;
  /** The path in the sandbox. Throws INVALID_REQUEST for a path outside the space. */
  readonly place: (path: SandboxPath) => SandboxPath;
  /** Refuses before opening anything if one of the paths is outside the space. */
  readonly open: (
    caller: Caller,
    id: string,
    ...paths: readonly SandboxPath[]
  ) => Promise<OpenFiles>;
  /** Like `open`, but creates what can be created by writing to it. */
  readonly openToWrite: FileSpace["open"];
}

export function fileSpaces({ files }: Services): readonly FileSpace[] {
  const openSession: FileSpace["open"] = async (caller, id) =>
    await files.open(caller, { kind: "session", id });
  const openWorkspace =
    (options: { readonly create?: boolean }): FileSpace["open"] =>
    async (caller, id, ...paths) => {
      for (const path of paths) checkWorkspacePath(path);
      return await files.open(caller, { kind: "workspace", id }, options);
    };
  return [
    {
      prefix: "/sessions/:id",
      tag: "files",
      params: sessionParams,
      place: (path) => path,
      open: openSession,
      openToWrite: openSession,
    },
    {
      prefix: "/workspaces/:id",
      tag: "workspaces",
      params: workspaceParams,
      place: (path) => {
        checkWorkspacePath(placed(path));
        return placed(path);
      },
      open: openWorkspace({}),
      openToWrite: openWorkspace({ create: true }),
    },
  ];
}

/** `/work` is an alias of it. */
const WORKSPACE_PATH = /^\/+work(?:space)?(?:\/|$)/;

/**
 * The path in the sandbox of a workspace path: an absolute path that does not name the workspace
 * starts at the workspace's root, as clients without a sandbox write it.
 */
function placed(asked: string): string;
function placed(asked: SandboxPath): SandboxPath;
function placed(asked: SandboxPath): SandboxPath {
  const text = Buffer.from(asked).toString("latin1");
  if (!text.startsWith("/") || WORKSPACE_PATH.test(text)) return asked;
  const below = posix.resolve(text);
  const end = below !== "/" && text.endsWith("/") ? "/" : "";
  const path = Buffer.from(WORKSPACE + (below === "/" ? "" : below) + end, "latin1");
  return typeof asked === "string" ? path.toString() : path;
}

/** Fields of queries and bodies that are paths, and those that are the bytes of paths. */
const PATH_FIELDS = ["path", "from", "to"] as const;

/** Maps the paths of a validated query or body, for calls on workspaces. */
export function placePaths(fields: unknown): void {
  if (typeof fields !== "object" || fields === null) return;
  const given = fields as Record<string, unknown>;
  for (const name of PATH_FIELDS) {
    const path = given[name];
    if (typeof path === "string") given[name] = placed(path);
    const raw = given[`raw_${name}`];
    if (typeof raw === "string")
      given[`raw_${name}`] = Buffer.from(placed(Buffer.from(raw, "base64"))).toString("base64");
  }
}

/**
 * Other paths belong to the sandbox that happens to serve the call, and disappear with it. Checked
 * lexically: the check catches mistakes, the sandbox is the security boundary.
 */
function checkWorkspacePath(asked: SandboxPath): void {
  if (WORKSPACE_PATH.test(resolvedText(asked))) return;
  const path = shownPath(asked);
  throw new SandboxError(
    "INVALID_REQUEST",
    `${JSON.stringify(path)} is not in the workspace; use a path below ${WORKSPACE}, or a relative one`,
    { details: { path, allowed: [WORKSPACE, "/work"] } },
  );
}
