/** Sandboxes without an owner: their creator died before it could record what they were for. */
import type { Backend } from "../ports/backend.ts";
import type { Log } from "../ports/log.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { Providers } from "./providers.ts";

export interface OrphanParts {
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly log: Log;
}

/**
 * Which of the listed sandboxes belong to no daemon.
 *
 * SECURITY: sandboxes are created while this runs, here and by other daemons. Each is recorded before
 * it is created, and the store is queried after the sandboxes were listed, so a daemon's sandbox is
 * never taken for an orphan (threat: interrupted creation). Guarded by "never count as orphans" in
 * reconcile.test.ts.
 */
export async function orphansAmong(
  backend: Backend,
  listedIds: Iterable<string>,
  { store, providers }: OrphanParts,
): Promise<readonly string[]> {
  const known = await store.sandboxesAt(providers.placeOf(backend));
  return [...listedIds].filter((id) => !known.has(id));
}

/** Never rejects: an orphan that cannot be removed now is found again. */
export async function removeOrphan(backend: Backend, id: string, log: Log): Promise<void> {
  try {
    await backend.destroy(id);
    log.info({ sandbox: id }, "removed a sandbox that belongs to no session");
  } catch (error) {
    log.error({ err: error, sandbox: id }, "cannot remove a sandbox that belongs to no session");
  }
}
