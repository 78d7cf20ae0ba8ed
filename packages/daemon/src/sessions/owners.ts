/** Whose things a caller is shown. */
import { SandboxError } from "@sandkasten/protocol";
import type { Caller } from "./services.ts";

/**
 * All owners' when the answer names none.
 *
 * SECURITY: the owner of what is read comes from the key, and only an administrator's key reads what is
 * of others (threat: reaching another tenant). Guarded by routes/events.test.ts and tenants.test.ts.
 */
export function ownersOf(caller: Caller, asked: string | undefined): { readonly owner?: string } {
  if (caller.isAdmin) return asked === undefined ? {} : { owner: asked };
  if (asked !== undefined && asked !== caller.owner)
    throw new SandboxError(
      "PERMISSION_DENIED",
      "only an administrator's key sees what belongs to another owner; leave `owner` out for your own",
    );
  return { owner: caller.owner };
}
