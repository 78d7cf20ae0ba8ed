/** Sandboxes made in advance. Each is handed out once, never comes back, and is looked at before it goes. */
import type { SandboxHandle, SandboxLimits, SandboxProfile } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Log } from "../ports/log.ts";
import { newSandboxId } from "./ids.ts";
import type { Providers } from "./providers.ts";
import type { PoolEntry } from "./settings.ts";

const REFILL_DELAY_MS = 50;

export interface PoolParts {
  /** Sandboxes are made in advance by the default one alone. */
  readonly providers: Providers;
  readonly log: Log;
  readonly limits: SandboxLimits;
}

export interface Pooled {
  readonly handle: SandboxHandle;
  readonly channel: Channel;
}

interface Shelf {
  readonly entry: PoolEntry;
  readonly waiting: Pooled[];
}

export class Pool {
  readonly #parts: PoolParts;
  readonly #shelves: readonly Shelf[];
  /** Those that could not be destroyed yet. */
  readonly #unwanted = new Set<string>();
  #filling: Promise<void> | undefined;
  #soon: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(entries: readonly PoolEntry[], parts: PoolParts) {
    this.#parts = parts;
    this.#shelves = entries.map((entry) => ({ entry, waiting: [] }));
  }

  get size(): number {
    return this.#shelves.reduce((sum, { waiting }) => sum + waiting.length, 0);
  }

  digests(): readonly string[] {
    return this.#shelves.flatMap(({ waiting }) => waiting.map(({ handle }) => handle.imageDigest));
  }

  /** Makes what is missing, in the background. Called at the start, after each hand-out and at every tick of the reaper. */
  refill(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    if (this.#stopped || this.#shelves.length === 0) return;
    this.#filling ??= this.#destroyUnwanted()
      .then(() => this.#fill())
      .finally(() => {
        this.#filling = undefined;
      });
  }

  /** Resolves when nothing is being made, nor about to be. */
  async settled(): Promise<void> {
    if (this.#soon !== undefined) this.refill();
    await this.#filling;
  }

  /** Making a sandbox takes the machine's time, which the one who just got one shall have first. */
  #refillSoon(): void {
    this.#soon ??= setTimeout(() => this.refill(), REFILL_DELAY_MS);
  }

  /** A living sandbox of this image as it is now, if there is one. */
  async take(reference: string, profile: SandboxProfile): Promise<Pooled | undefined> {
    for (const shelf of this.#shelves) {
      if (shelf.entry.profile !== profile) continue;
      for (;;) {
        const place = shelf.waiting.findIndex(({ handle }) => handle.image === reference);
        const [pooled] = place < 0 ? [] : shelf.waiting.splice(place, 1);
        if (pooled === undefined) break;
        if (await this.#isGood(pooled)) {
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

  async #fill(): Promise<void> {
    for (const { entry, waiting } of this.#shelves) {
      while (!this.#isStopped() && waiting.length < entry.size) {
        try {
          waiting.push(await this.#make(entry));
        } catch (error) {
          // Tried again at the next tick; sessions are made cold meanwhile.
          this.#parts.log.warn(
            { err: error, image: entry.image },
            "cannot make a sandbox in advance",
          );
          break;
        }
      }
    }
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  async #make({ image, profile }: PoolEntry): Promise<Pooled> {
    const { providers, limits } = this.#parts;
    const { backend, images } = providers.default;
    await providers.ready(backend);
    const { reference } = await images.resolve(image);
    await images.ensure(reference);
    const handle = await backend.create({
      id: newSandboxId(),
      image: reference,
      profile,
      limits,
      env: {},
    });
    try {
      return { handle, channel: await backend.open(handle.id) };
    } catch (error) {
      await backend.destroy(handle.id);
      throw error;
    }
  }

  /** Alive, and of the image that the name stands for today. */
  async #isGood({ handle, channel }: Pooled): Promise<boolean> {
    try {
      const { images } = this.#parts.providers.default;
      const [info] = await Promise.all([images.inspect(handle.image), channel.ping()]);
      return info.digest === handle.imageDigest;
    } catch (error) {
      this.#parts.log.warn(
        { err: error, sandbox: handle.id },
        "a sandbox made in advance is unfit",
      );
      return false;
    }
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
