/** Sandboxes made in advance. Each is handed out once, never comes back, and is looked at before it goes. */
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxHandle, SandboxLimits, SandboxProfile } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { ResolvedImage } from "../ports/image-store.ts";
import type { Log } from "../ports/log.ts";
import type { CreateQueue } from "./create-queue.ts";
import { newSandboxId } from "./ids.ts";
import type { Providers } from "./providers.ts";
import type { PoolEntry } from "./settings.ts";

const REFILL_DELAY_MS = 50;
/** Instead of a digest: the image was looked for and is not present. */
const MISSING = Symbol("missing");

export interface PoolParts {
  /** Sandboxes are made in advance by the default one alone. */
  readonly providers: Providers;
  readonly log: Log;
  readonly limits: SandboxLimits;
  readonly queue: CreateQueue;
}

export interface Pooled {
  readonly handle: SandboxHandle;
  readonly channel: Channel;
}

interface Shelf {
  readonly entry: PoolEntry;
  readonly waiting: Pooled[];
  /** What the entry's image stood for when it was last looked up. */
  digest: string | typeof MISSING | undefined;
}

interface PresentImage extends ResolvedImage {
  readonly digest: string;
}

export class Pool {
  readonly #parts: PoolParts;
  readonly #shelves: readonly Shelf[];
  /** Those that could not be destroyed yet. */
  readonly #unwanted = new Set<string>();
  #filling: Promise<void> | undefined;
  /** Something changed while the pool was being filled. */
  #again = false;
  #soon: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(entries: readonly PoolEntry[], parts: PoolParts) {
    this.#parts = parts;
    this.#shelves = entries.map((entry) => ({ entry, waiting: [], digest: undefined }));
  }

  /** Those that can be handed out. */
  get size(): number {
    return this.#shelves.reduce((sum, shelf) => sum + usableOn(shelf).length, 0);
  }

  digests(): readonly string[] {
    return this.#shelves.flatMap(({ waiting }) => waiting.map(({ handle }) => handle.imageDigest));
  }

  /** Replaces what is stale and makes what is missing, in the background. */
  refill(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    if (this.#stopped || this.#shelves.length === 0) return;
    this.#again = true;
    this.#filling ??= this.#fillUntilSettled().finally(() => {
      this.#filling = undefined;
    });
  }

  /** Lets go of sandboxes that have died, then refills. */
  async tend(): Promise<void> {
    for (const { waiting } of this.#shelves) {
      const alive = await Promise.all(waiting.map((pooled) => this.#isAlive(pooled)));
      const dead = waiting.filter((_, at) => alive[at] === false);
      for (const pooled of dead) await this.#drop(waiting, pooled);
    }
    this.refill();
  }

  /** Resolves when nothing is being made, nor about to be. */
  async settled(): Promise<void> {
    if (this.#soon !== undefined) this.refill();
    await this.#filling;
  }

  /** A living sandbox of this content, if there is one. */
  async take(imageDigest: string, profile: SandboxProfile): Promise<Pooled | undefined> {
    for (const shelf of this.#shelves) {
      if (shelf.entry.profile !== profile) continue;
      for (;;) {
        const place = shelf.waiting.findIndex(({ handle }) => handle.imageDigest === imageDigest);
        const [pooled] = place < 0 ? [] : shelf.waiting.splice(place, 1);
        if (pooled === undefined) break;
        if (await this.#isAlive(pooled)) {
          this.#refillSoon();
          return pooled;
        }
        await this.#discard(pooled);
      }
    }
    this.refill();
    return undefined;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#soon);
    await this.#filling;
    for (const { waiting } of this.#shelves)
      for (const pooled of waiting.splice(0)) await this.#discard(pooled);
  }

  /** Making a sandbox takes the machine's time, which the one who just got one shall have first. */
  #refillSoon(): void {
    this.#soon ??= setTimeout(() => this.refill(), REFILL_DELAY_MS);
  }

  async #fillUntilSettled(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      await this.#destroyUnwanted();
      for (const shelf of this.#shelves) await this.#fill(shelf);
    }
  }

  async #fill(shelf: Shelf): Promise<void> {
    const { entry, waiting } = shelf;
    try {
      const image = await this.#present(shelf);
      for (const pooled of waiting.filter(({ handle }) => handle.imageDigest !== shelf.digest))
        await this.#drop(waiting, pooled);
      while (image !== undefined && !this.#isStopped() && waiting.length < entry.size)
        waiting.push(await this.#make(entry, image));
    } catch (error) {
      // Tried again at the next tick; sessions are made cold meanwhile.
      this.#parts.log.warn({ err: error, image: entry.image }, "cannot make a sandbox in advance");
    }
  }

  /** The image of a shelf as it is now. Nothing is made of an image that only takes its place. */
  async #present(shelf: Shelf): Promise<PresentImage | undefined> {
    const { log, providers } = this.#parts;
    const { backend, images } = providers.default;
    await providers.ready(backend);
    const image = await images.resolve(shelf.entry.image).catch((error: unknown) => {
      if (error instanceof SandboxError && error.code === "INVALID_IMAGE") return undefined;
      throw error;
    });
    if (image === undefined || image.isSubstitute) {
      if (shelf.digest !== MISSING)
        log.warn({ image: shelf.entry.image }, "the pool waits for an image that is not present");
      shelf.digest = MISSING;
      return undefined;
    }
    shelf.digest = image.digest ?? (await images.ensure(image.reference)).digest;
    return { ...image, digest: shelf.digest };
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  async #make({ profile }: PoolEntry, image: PresentImage): Promise<Pooled> {
    const { providers, limits, queue } = this.#parts;
    const { backend } = providers.default;
    const handle = await queue.runInBackground(() =>
      providers.create(backend, {
        id: newSandboxId(),
        image: image.reference,
        imageDigest: image.digest,
        profile,
        limits,
        env: {},
      }),
    );
    try {
      return { handle, channel: await backend.open(handle.id) };
    } catch (error) {
      await backend.destroy(handle.id);
      throw error;
    }
  }

  async #isAlive({ handle, channel }: Pooled): Promise<boolean> {
    try {
      await channel.ping();
      return true;
    } catch (error) {
      this.#parts.log.warn(
        { err: error, sandbox: handle.id },
        "a sandbox made in advance is unfit",
      );
      return false;
    }
  }

  /** Unless it was handed out meanwhile. */
  async #drop(waiting: Pooled[], pooled: Pooled): Promise<void> {
    const place = waiting.indexOf(pooled);
    if (place < 0) return;
    waiting.splice(place, 1);
    await this.#discard(pooled);
  }

  async #discard({ handle, channel }: Pooled): Promise<void> {
    channel.close();
    this.#unwanted.add(handle.id);
    await this.#destroyUnwanted();
  }

  /** What fails is tried again when the pool is next filled. */
  async #destroyUnwanted(): Promise<void> {
    for (const id of this.#unwanted) {
      try {
        await this.#parts.providers.default.backend.destroy(id);
        this.#unwanted.delete(id);
      } catch (error) {
        this.#parts.log.error({ err: error, sandbox: id }, "cannot destroy a pooled sandbox");
      }
    }
  }
}

function usableOn({ waiting, digest }: Shelf): readonly Pooled[] {
  return waiting.filter(({ handle }) => handle.imageDigest === digest);
}
