/** Converts keys to the API's format. */
import type { createKeySchema, KeyBody } from "@sandkasten/protocol";
import type { z } from "zod";
import type { CreateKeyOptions, KeyView } from "../../../sessions/services/key-service.ts";

export function createKeyOptions(body: z.output<typeof createKeySchema>): CreateKeyOptions {
  const { name, owner, scope = "use", expires_in_seconds: seconds } = body;
  return {
    name,
    scope,
    ...(owner !== undefined && { owner }),
    ...(seconds !== undefined && { expiresInMs: seconds * 1000 }),
    ...(body.max_sessions !== undefined && { maxSessions: body.max_sessions }),
    ...(body.max_running_execs !== undefined && { maxRunningExecs: body.max_running_execs }),
    ...(body.max_image_bytes !== undefined && { maxImageBytes: body.max_image_bytes }),
  };
}

export function keyBody(key: KeyView): KeyBody {
  const { id, name, owner, scope, source, maxSessions, maxRunningExecs, maxImageBytes } = key;
  return {
    id,
    name,
    owner,
    scope,
    source,
    ...at("created_at", key.createdAtMs),
    ...at("expires_at", key.expiresAtMs),
    ...at("revoked_at", key.revokedAtMs),
    ...at("last_used_at", key.lastUsedAtMs),
    ...(maxSessions !== undefined && { max_sessions: maxSessions }),
    ...(maxRunningExecs !== undefined && { max_running_execs: maxRunningExecs }),
    ...(maxImageBytes !== undefined && { max_image_bytes: maxImageBytes }),
  };
}

function at<Name extends string>(name: Name, ms: number | undefined): { [_ in Name]?: string } {
  return (ms === undefined ? {} : { [name]: new Date(ms).toISOString() }) as {
    [_ in Name]?: string;
  };
}
