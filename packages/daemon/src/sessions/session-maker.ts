/** Creates a session's row and its sandbox, from the pool or cold. */
import type {
  MountedWorkspace,
  SandboxHandle,
  SandboxNetwork,
  SandboxSpec,
} from "../ports/backend.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionNetwork, SessionRow } from "../ports/session-store.ts";
import type { CreateQueue } from "./create-queue.ts";
import type { Disks } from "./disks.ts";
import { newSessionId } from "./ids.ts";
import { newLease } from "./lease.ts";
import type { Membership } from "./membership.ts";
import { sandboxOf } from "./live-session.ts";
import type { LiveSession } from "./live-session.ts";
import type { Pool, Pooled } from "./pool.ts";
import { imagesFor } from "./providers.ts";
import type { Provider, Providers } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { CreateSessionOptions } from "./services/session-service.ts";
import type { SessionPlan } from "./session-plan.ts";
import type { SessionSettings } from "./settings.ts";

export interface SessionMakerParts {
  readonly providers: Providers;
  readonly clock: Clock;
  readonly membership: Membership;
  readonly pool: Pool;
  readonly queue: CreateQueue;
  readonly disks: Disks;
  readonly settings: SessionSettings;
}

function sandboxNetwork(network: SessionNetwork): SandboxNetwork {
  if (network === "none") return "none";
  return network === "engine" ? "full" : "gateway";
}

export class SessionMaker {
  readonly #parts: SessionMakerParts;

  constructor(parts: SessionMakerParts) {
    this.#parts = parts;
  }

  /** A pooled sandbox for this plan, if one is ready. */
  async reserve(
    { fromPool, imageDigest, profile, network }: SessionPlan,
    provider: Provider,
  ): Promise<Pooled | undefined> {
    const { pool, providers } = this.#parts;
    if (!fromPool || imageDigest === undefined || provider !== providers.default) return undefined;
    return await pool.reserve(imageDigest, profile, sandboxNetwork(network));
  }

  /** The row as recorded before anything is created. A session has the id of its sandbox. */
  newRow(
    caller: Caller,
    options: CreateSessionOptions,
    plan: SessionPlan,
    { backend, place }: Provider,
    pooled?: Pooled,
  ): SessionRow {
    const { clock, membership, settings } = this.#parts;
    const { key, workspaceId, idempotencyKey } = options;
    const now = clock.nowMs();
    return {
      id: pooled?.handle.id ?? newSessionId(),
      owner: caller.owner,
      status: "creating",
      fence: membership.fence,
      requestedImage: plan.requestedImage,
      image: plan.image,
      backend: backend.name,
      place,
      profile: plan.profile,
      network: plan.network,
      isolation: plan.isolation,
      limits: plan.limits,
      metadata: options.metadata ?? {},
      workspaces: plan.workspaces,
      acquireSource: pooled === undefined ? "cold" : "pool",
      cwd: "/workspace",
      ttlMs: plan.ttlMs,
      createdAtMs: now,
      lastActivityAtMs: now,
      ...newLease(membership, plan.ttlMs, settings.maxLifetimeMs),
      ...(key !== undefined && { key }),
      ...(workspaceId !== undefined && { workspaceId }),
      ...(idempotencyKey !== undefined && { idempotencyKey, requestHash: plan.requestHash }),
    };
  }

  /** The sandbox of a recorded session. */
  async acquire(
    caller: Caller,
    session: LiveSession,
    plan: SessionPlan,
    provider: Provider,
    pooled?: Pooled,
  ): Promise<SandboxHandle> {
    const { pool, providers } = this.#parts;
    if (pooled !== undefined) {
      pool.handOut(pooled);
      session.makingDigest = pooled.handle.imageDigest;
      session.adoptChannel(pooled.channel);
      return pooled.handle;
    }
    const { backend, images } = provider;
    const { signal } = session.creation;
    session.makingDigest = plan.imageDigest;
    const ensure = async (): Promise<string> => {
      const { digest } = await imagesFor(caller, images).ensure(plan.image, { signal });
      session.makingDigest = digest;
      return digest;
    };
    // A download takes no slot from creations that can begin at once.
    if (plan.imageDigest === undefined) await ensure();
    const spec: SandboxSpec = {
      id: sandboxOf(session),
      image: plan.image,
      limits: plan.limits,
      profile: plan.profile,
      env: plan.env,
      network: sandboxNetwork(plan.network),
      isolation: plan.isolation,
      fence: session.sandboxFence,
      ...(plan.trustedCertificate !== undefined && { trustedCertificate: plan.trustedCertificate }),
    };
    const { workspaceId } = session.row;
    const create = (complete: SandboxSpec): Promise<SandboxHandle> =>
      this.#parts.queue.run(
        caller.owner,
        // In its turn: in a burst, the first would otherwise wait until all have checked their
        // images.
        async () => {
          const imageDigest = await ensure();
          const made = await backend.create({ ...complete, imageDigest }, signal);
          // The backend already opened a channel to check that the runner answers.
          session.adoptChannel(await backend.open(made.id, session.sandboxFence));
          return made;
        },
        signal,
      );
    if (workspaceId === undefined && plan.workspaces.length === 0) return await create(spec);
    await providers.tidied(backend);
    const withOthers = (complete: SandboxSpec): Promise<SandboxHandle> =>
      this.#withDisks(caller, backend.name, plan.workspaces, (workspaces) =>
        create({ ...complete, workspaces }),
      );
    if (workspaceId === undefined) return await withOthers(spec);
    return await this.#parts.disks.withDisk(caller, workspaceId, backend.name, (workspace) =>
      withOthers({ ...spec, workspace }),
    );
  }

  /** The disks of further workspaces, all held while their sandbox is created. */
  async #withDisks<T>(
    caller: Caller,
    backend: string,
    [first, ...others]: SessionPlan["workspaces"],
    work: (disks: readonly MountedWorkspace[]) => Promise<T>,
  ): Promise<T> {
    if (first === undefined) return await work([]);
    const { id, path, readOnly } = first;
    return await this.#parts.disks.withDisk(caller, id, backend, (disk) =>
      this.#withDisks(caller, backend, others, (disks) =>
        work([{ ...disk, path, readOnly }, ...disks]),
      ),
    );
  }
}
