/** Determines whose resources a caller may see. */
import { SandboxError } from "@sandkasten/protocol";
import type { Caller } from "./services/caller.ts";

/**
 * All owners if the result names none.
 *
 * SECURITY: the owner comes from the key, and only an administrator's key reads the data of others
 * (threat: reaching another tenant). Guarded by routes/events.test.ts and tenants.test.ts.
 */
export function ownersOf(caller: Caller, asked: string | undefined): { readonly owner?: string } {
  if (caller.isAdmin) return asked === undefined ? {} : { owner: asked };
  if (asked !== undefined && asked !== caller.owner)
    throw new SandboxError(
      "PERMISSION_DENIED",
      "only an administrator's key can see resources of another owner; omit `owner` to see your own",
    );
  return { owner: caller.owner };
}
