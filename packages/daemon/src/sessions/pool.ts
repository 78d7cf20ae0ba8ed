/**
 * Sandboxes created in advance, under the ids of the sessions that they will belong to. Each is
 * checked, handed out once, and never returned.
 */
import { SandboxError } from "@sandkasten/protocol";
import type {
  SandboxHandle,
  SandboxLimits,
  SandboxNetwork,
  SandboxProfile,
} from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { ResolvedImage } from "../ports/image-store.ts";
import type { Events } from "../events/recorder.ts";
import type { Log } from "../ports/log.ts";
import { heldForDead } from "../ports/lost-ownership.ts";
import type { SessionStore } from "../ports/session-store.ts";
import type { CreateQueue } from "./create-queue.ts";
import { newSessionId } from "./ids.ts";
import { sandboxFence } from "./membership.ts";
import type { Membership } from "./membership.ts";
import type { Providers } from "./providers.ts";
import type { PoolEntry } from "./settings.ts";

const REFILL_DELAY_MS = 50;
/** In place of a digest: the image was looked up and is not present. */
const MISSING = Symbol("missing");

export interface PoolParts {
  /** Only the default provider fills the pool. */
  readonly providers: Providers;
  readonly store: SessionStore;
  readonly membership: Membership;
  readonly log: Log;
  readonly events: Events;
  readonly limits: SandboxLimits;
  readonly queue: CreateQueue;
}

export interface Pooled {
  readonly handle: SandboxHandle;
  readonly channel: Channel;
  readonly pooledBy: ReadySandboxes;
}

/** The sandboxes that are ready for one entry of the pool. */
interface ReadySandboxes {
  readonly entry: PoolEntry;
  readonly waiting: Pooled[];
  /** The digest of the entry's image at the last lookup. */
  digest: string | typeof MISSING | undefined;
}

interface PresentImage extends ResolvedImage {
  readonly digest: string;
}

export class Pool {
  readonly #parts: PoolParts;
  readonly #entries: readonly ReadySandboxes[];
  /** Sandboxes that could not be destroyed yet. */
  readonly #unwanted = new Set<string>();
  #filling: Promise<void> | undefined;
  /** The pool changed while it was being filled. */
  #again = false;
  #soon: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(entries: readonly PoolEntry[], parts: PoolParts) {
    this.#parts = parts;
    this.#entries = entries.map((entry) => ({ entry, waiting: [], digest: undefined }));
  }

  /** The number of sandboxes ready to hand out. */
  get size(): number {
    return this.#entries.reduce((sum, ready) => sum + usable(ready).length, 0);
  }

  digests(): readonly string[] {
    return this.#entries.flatMap(({ waiting }) => waiting.map(({ handle }) => handle.imageDigest));
  }

  /** Replaces stale sandboxes and creates missing ones, in the background. */
  refill(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    if (this.#stopped || this.#entries.length === 0) return;
    this.#again = true;
    this.#filling ??= this.#fillUntilSettled().finally(() => {
      this.#filling = undefined;
    });
  }

  /** Drops sandboxes that have died, then refills. */
  async tend(): Promise<void> {
    for (const { waiting } of this.#entries) {
      const alive = await Promise.all(waiting.map((pooled) => this.#isAlive(pooled)));
      const dead = waiting.filter((_, at) => alive[at] === false);
      for (const pooled of dead) await this.#drop(waiting, pooled);
    }
    this.refill();
  }

  /** The pooled sandboxes were recorded under an expired token: other daemons remove them as orphans. */
  async lose(): Promise<void> {
    const lost = this.#entries.flatMap(({ waiting }) => waiting.splice(0));
    for (const pooled of lost) await this.discard(pooled);
    this.refill();
  }

  /** Resolves when nothing is being created or about to be. */
  async settled(): Promise<void> {
    if (this.#soon !== undefined) this.refill();
    await this.#filling;
  }

  /** A live sandbox with this content, if there is one; then call `handOut`, `giveBack` or `discard`. */
  async reserve(
    imageDigest: string,
    profile: SandboxProfile,
    network: SandboxNetwork,
  ): Promise<Pooled | undefined> {
    for (const ready of this.#entries) {
      // The gateway's rules are not part of the sandbox, but its connection to the gateway is.
      if (ready.entry.profile !== profile || networkOf(ready.entry) !== network) continue;
      for (;;) {
        const place = ready.waiting.findIndex(({ handle }) => handle.imageDigest === imageDigest);
        const [pooled] = place < 0 ? [] : ready.waiting.splice(place, 1);
        if (pooled === undefined) break;
        if (await this.#isAlive(pooled)) return pooled;
        await this.discard(pooled);
      }
    }
    this.refill();
    return undefined;
  }

  /** A session has it from here on. */
  handOut({ pooledBy }: Pooled): void {
    this.#refillSoon();
    this.#record("pool.taken", pooledBy);
  }

  /**
   * For a reserved sandbox that no session got: no client was told its id, so none has reached it.
   * If a session has it after all, because only the store's answer was lost, the store refuses it to
   * the next one.
   */
  async giveBack(pooled: Pooled): Promise<void> {
    const { waiting, entry } = pooled.pooledBy;
    if (this.#stopped || waiting.length >= entry.size) await this.discard(pooled);
    else waiting.unshift(pooled);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#soon);
    await this.#filling;
    for (const { waiting } of this.#entries)
      for (const pooled of waiting.splice(0)) await this.discard(pooled);
  }

  /** Delayed, so the caller that just got a sandbox is not slowed down by creating another. */
  #refillSoon(): void {
    this.#soon ??= setTimeout(() => this.refill(), REFILL_DELAY_MS);
  }

  async #fillUntilSettled(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      await this.#destroyUnwanted();
      for (const ready of this.#entries) await this.#fill(ready);
    }
  }

  async #fill(ready: ReadySandboxes): Promise<void> {
    const { entry, waiting } = ready;
    try {
      const image = await this.#present(ready);
      for (const pooled of waiting.filter(({ handle }) => handle.imageDigest !== ready.digest))
        await this.#drop(waiting, pooled);
      while (image !== undefined && !this.#isStopped() && waiting.length < entry.size)
        await this.#add(ready, image);
    } catch (error) {
      this.#parts.events.record({
        type: "pool.failed",
        owner: "",
        data: { image: entry.image, profile: entry.profile, reason: failureCode(error) },
      });
      // Retried at the next tick; sessions are created cold meanwhile.
      this.#parts.log.warn(
        { err: error, image: entry.image },
        "cannot create a sandbox for the pool",
      );
    }
  }

  /** The entry's current image. Substitute images are not pooled. */
  async #present(ready: ReadySandboxes): Promise<PresentImage | undefined> {
    const { log, providers } = this.#parts;
    const { backend, images } = providers.default;
    await providers.ready(backend);
    const image = await images.resolve(ready.entry.image).catch((error: unknown) => {
      if (error instanceof SandboxError && error.code === "INVALID_IMAGE") return undefined;
      throw error;
    });
    const { isImplied = false, image: name } = ready.entry;
    if (image === undefined || image.isSubstitute || (isImplied && image.digest === undefined)) {
      if (ready.digest !== MISSING && !isImplied)
        log.warn({ image: name }, "the pool is waiting for an image that is not present");
      ready.digest = MISSING;
      return undefined;
    }
    ready.digest = image.digest ?? (await images.ensure(image.reference)).digest;
    return { ...image, digest: ready.digest };
  }

  async #add(ready: ReadySandboxes, image: PresentImage): Promise<void> {
    ready.waiting.push(await this.#make(ready, image));
    this.#record("pool.added", ready);
  }

  #record(type: "pool.added" | "pool.taken", { entry, waiting }: ReadySandboxes): void {
    const { image, profile } = entry;
    this.#parts.events.record({ type, owner: "", data: { image, profile, ready: waiting.length } });
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  async #make(pooledBy: ReadySandboxes, image: PresentImage): Promise<Pooled> {
    const { entry } = pooledBy;
    const { profile } = entry;
    const { providers, limits, queue, store, membership } = this.#parts;
    const { backend, place } = providers.default;
    const id = newSessionId();
    const { fence } = membership;
    // Recorded before it is created, so it is never taken for an orphan.
    await store.insertSideSandbox({ id, fence, place, purpose: "pool" });
    try {
      const handle = await queue.runInBackground(() =>
        backend.create({
          id,
          image: image.reference,
          imageDigest: image.digest,
          profile,
          limits,
          env: {},
          network: networkOf(entry),
          fence: sandboxFence(store, fence),
        }),
      );
      const channel = await backend.open(id, sandboxFence(store, fence));
      const pooled = { handle, channel, pooledBy };
      if (fence === membership.fence) return pooled;
      pooled.channel.close();
      throw heldForDead();
    } catch (error) {
      this.#unwanted.add(id);
      await this.#destroyUnwanted();
      throw error;
    }
  }

  async #isAlive({ handle, channel }: Pooled): Promise<boolean> {
    try {
      await channel.ping();
      return true;
    } catch (error) {
      this.#parts.log.warn({ err: error, sandbox: handle.id }, "a pooled sandbox is unusable");
      return false;
    }
  }

  /** Unless it was handed out meanwhile. */
  async #drop(waiting: Pooled[], pooled: Pooled): Promise<void> {
    const place = waiting.indexOf(pooled);
    if (place < 0) return;
    waiting.splice(place, 1);
    await this.discard(pooled);
  }

  /** Destroys a sandbox that is no longer useful, now or later. Never rejects. */
  async discard({ handle, channel }: Pooled): Promise<void> {
    channel.close();
    this.#unwanted.add(handle.id);
    await this.#destroyUnwanted();
  }

  async #destroy(id: string): Promise<void> {
    const { providers, store } = this.#parts;
    await providers.default.backend.destroy(id);
    await store.deleteSideSandbox(id);
  }

  /** Failures are retried when the pool is next filled. */
  async #destroyUnwanted(): Promise<void> {
    for (const id of this.#unwanted) {
      try {
        await this.#destroy(id);
        this.#unwanted.delete(id);
      } catch (error) {
        this.#parts.log.error({ err: error, sandbox: id }, "cannot destroy a pooled sandbox");
      }
    }
  }
}

/** Its message may name paths of the host. */
function failureCode(error: unknown): string {
  return error instanceof SandboxError ? error.code : "INTERNAL_ERROR";
}

function networkOf({ network = false }: PoolEntry): SandboxNetwork {
  return network ? "gateway" : "none";
}

function usable({ waiting, digest }: ReadySandboxes): readonly Pooled[] {
  return waiting.filter(({ handle }) => handle.imageDigest === digest);
}
