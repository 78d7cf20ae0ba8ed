/** The variable parts of paths. */
import { execIdSchema, idInPath, shellNameSchema, workspaceIdSchema } from "@sandkasten/protocol";
import { z } from "zod";

export const sessionParams = z.object({ id: idInPath });
export const execParams = z.object({ id: idInPath, eid: execIdSchema });
export const workspaceParams = z.object({ id: workspaceIdSchema });
export const shellParams = sessionParams.extend({ name: shellNameSchema });
