/** The launcher's record of a sandbox, read and checked against the running process. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { launcherRecordSchema, SandboxError } from "@sandkasten/protocol";
import { z } from "zod";
import type { SandboxHandle } from "../../ports/backend.ts";
import { limitsSchema } from "../../limits-schema.ts";
import { systemCode } from "../../system-errors.ts";
import { readOnce } from "./kernel-files.ts";
import type { ReadFile } from "./kernel-files.ts";

/** The daemon's metadata in the record, for the next daemon. */
const metaSchema = z.object({
  image: z.string(),
  image_digest: z.string(),
  profile: z.enum(["restricted", "root"]),
  limits: limitsSchema,
});

export const recordSchema = launcherRecordSchema.extend({ meta: metaSchema });

export type SandboxMeta = z.infer<typeof metaSchema>;
export type SandboxRecord = z.infer<typeof recordSchema>;

/** Undefined if there is no complete record: the sandbox was never finished, or is gone. */
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
    throw new SandboxError(
      "INTERNAL_ERROR",
      `the record of a sandbox is damaged; destroy the sandbox`,
      {
        cause,
        details: { path },
      },
    );
  }
}

/** A pid alone may have been reused; with the start time it is unique. */
export function isAlive(record: SandboxRecord, read: ReadFile = readOnce): boolean {
  try {
    const stat = read(`/proc/${record.pid}/stat`);
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

/** Whether the process or file does not exist. */
export function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ESRCH" || code === "ENODEV";
}
