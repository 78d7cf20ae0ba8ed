/** What the launcher wrote down about a sandbox, read back and checked against the living process. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { launcherRecordSchema, SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { SandboxHandle } from "../../ports/backend.ts";
import { limitsSchema } from "../container/limits.ts";

/** What the daemon has the launcher write down, to be found again by the next daemon. */
const metaSchema = z.object({
  image: z.string(),
  image_digest: z.string(),
  profile: z.enum(["restricted", "root"]),
  limits: limitsSchema,
});

export const recordSchema = launcherRecordSchema.extend({ meta: metaSchema });

export type SandboxMeta = z.infer<typeof metaSchema>;
export type SandboxRecord = z.infer<typeof recordSchema>;

/** Undefined when there is no (whole) record: the sandbox was never finished, or is gone. */
export async function readRecord(stateDir: string): Promise<SandboxRecord | undefined> {
  const path = join(stateDir, "sandbox.json");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new SandboxError("INTERNAL_ERROR", `the notes of a sandbox are damaged; destroy it`, {
      cause,
      details: { path },
    });
  }
}

/** A pid alone may have been given to another process meanwhile; with its start time it is one. */
export function isAlive(record: SandboxRecord): boolean {
  try {
    const stat = readFileSync(`/proc/${record.pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] !== "Z" && Number(fields[19]) === record.start_time;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

export function handleOf(record: SandboxRecord): SandboxHandle {
  return {
    id: record.id,
    image: record.meta.image,
    imageDigest: record.meta.image_digest,
    profile: record.meta.profile,
    limits: record.meta.limits,
    ...(record.workspace !== undefined && { workspaceId: record.workspace.id }),
    createdAtMs: record.created_at_ms,
  };
}

/** The process, or file, is not there (any more). */
export function isMissing(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ESRCH" || code === "ENODEV";
}
