/** Labels of containers and volumes: everything that a restarted daemon must know about them. */
import { SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { SandboxHandle, SandboxProfile, SandboxLimits } from "../../ports/backend.ts";
import { limitsSchema } from "../../limits-schema.ts";
import type { Labels } from "./engine-view.ts";

export const LABEL = {
  /** The owner: a daemon never changes another's resources. */
  instance: "sandkasten.instance",
  sessionId: "sandkasten.session_id",
  spec: "sandkasten.spec",
  workspaceId: "sandkasten.workspace_id",
  diskBytes: "sandkasten.disk_bytes",
  /** Set on resources shared by all sandboxes of a daemon. */
  role: "sandkasten.role",
} as const;

export type StrategyName = "bind" | "shared-volume" | "volume" | "exec";

/** The parameters that a sandbox was created with. */
export interface SandboxNotes {
  readonly image: string;
  readonly imageDigest: string;
  readonly profile: SandboxProfile;
  readonly limits: SandboxLimits;
  readonly workspaceId?: string | undefined;
  readonly strategy: StrategyName;
  readonly createdAtMs: number;
}

const notesSchema = z.object({
  image: z.string(),
  imageDigest: z.string(),
  profile: z.enum(["restricted", "root"]),
  limits: limitsSchema,
  workspaceId: z.string().optional(),
  strategy: z.enum(["bind", "shared-volume", "volume", "exec"]),
  createdAtMs: z.number(),
});

export function sandboxLabels(instance: string, id: string, notes?: SandboxNotes): Labels {
  return {
    [LABEL.instance]: instance,
    [LABEL.sessionId]: id,
    ...(notes !== undefined && { [LABEL.spec]: JSON.stringify(notes) }),
    ...(notes?.workspaceId !== undefined && { [LABEL.workspaceId]: notes.workspaceId }),
  };
}

export function readNotes(id: string, labels: Labels): SandboxNotes {
  try {
    return notesSchema.parse(JSON.parse(labels[LABEL.spec] ?? ""));
  } catch (cause) {
    throw new SandboxError(
      "INTERNAL_ERROR",
      `the labels of the container ${id} are damaged; destroy the sandbox`,
      { cause },
    );
  }
}

export function handleOf(id: string, notes: SandboxNotes): SandboxHandle {
  return {
    id,
    image: notes.image,
    imageDigest: notes.imageDigest,
    profile: notes.profile,
    limits: notes.limits,
    ...(notes.workspaceId !== undefined && { workspaceId: notes.workspaceId }),
    createdAtMs: notes.createdAtMs,
  };
}
