/** Keys in the HTTP API. */
import { z } from "zod";
import { count, timestamp } from "./common.ts";

const KEY_SCOPES = ["admin", "use", "read"] as const;
const scope = z.enum(KEY_SCOPES).meta({
  description:
    "`use` does everything for its own owner; `admin` also reads the events of all owners and the metrics, shares images and manages keys, but has no access to the sessions of others; `read` cannot change anything",
});
const name = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "must be 1 to 64 of A–Z a–z 0–9 _ . -");
const most = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional();

export const createKeySchema = z
  .object({
    name: name.meta({ description: "A display name" }),
    owner: name.optional().meta({
      description:
        "The owner of the key's sessions, images and workspaces. Several keys can share one. `name` if absent",
    }),
    scope: scope.optional().meta({ description: "Default `use`" }),
    expires_in_seconds: z
      .number()
      .int()
      .min(1)
      .max(10 * 365 * 86_400)
      .optional()
      .meta({ description: "When the key expires. Never if absent" }),
    max_sessions: most,
    max_running_execs: most,
    max_image_bytes: most,
  })
  .meta({ id: "CreateKey" });

export const keySchema = z
  .object({
    id: z.string(),
    name: z.string(),
    owner: z.string(),
    scope,
    source: z.enum(["config", "stored"]).meta({
      description: "Configured keys are changed in the configuration and cannot be revoked here",
    }),
    created_at: timestamp.optional(),
    expires_at: timestamp.optional(),
    revoked_at: timestamp.optional(),
    last_used_at: timestamp.optional().meta({ description: "Accurate to a few minutes" }),
    max_sessions: count.optional(),
    max_running_execs: count.optional(),
    max_image_bytes: count.optional(),
  })
  .meta({ id: "Key" });
export type KeyBody = z.output<typeof keySchema>;

export const createdKeySchema = keySchema
  .extend({ key: z.string().meta({ description: "The key itself. It is not shown again" }) })
  .meta({ id: "CreatedKey" });
export const keyListSchema = z.object({ keys: z.array(keySchema) });
