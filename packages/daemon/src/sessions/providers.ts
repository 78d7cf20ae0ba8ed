/** The daemon's backends, each with its images, and how one is chosen. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import type { ImageStore, Images } from "../ports/image-store.ts";
import type { Caller } from "./services/caller.ts";

/** A backend and the images for its sandboxes. */
export interface Provider {
  readonly backend: Backend;
  /** Where its sandboxes are: daemons with the same place reach the same sandboxes. */
  readonly place: string;
  readonly images: ImageStore;
  /** Image of sessions that do not name one. */
  readonly defaultImage: string;
  /** For sandboxes that only serve file calls on a workspace; any image that is present will do. */
  readonly workspaceImage: string;
}

/**
 * SECURITY: images that a caller may see and change; only the administrator's are shared (threat:
 * hostile archives and images). Guarded by image-owners.test.ts and
 * surfaces/native/routes/images/image-owners.test.ts.
 */
export function imagesFor({ owner, isAdmin, maxImageBytes }: Caller, images: ImageStore): Images {
  return isAdmin ? images : images.of({ name: owner, maxBytes: maxImageBytes });
}

export class Providers {
  readonly all: readonly Provider[];
  /** For sessions that do not choose a backend. */
  readonly default: Provider;
  /** Work that must succeed before anything is created on a backend, by name. */
  readonly #due = new Map<string, () => Promise<void>>();

  /** Settles when what an earlier daemon left is taken over, or is unreachable, by name. */
  readonly #takeOvers = new Map<string, Promise<unknown>>();

  constructor(usual: Provider, others: readonly Provider[] = []) {
    this.default = usual;
    this.all = [usual, ...others];
  }

  /** The default backend first. */
  get names(): readonly [string, ...string[]] {
    const [, ...others] = this.all;
    return [this.default.backend.name, ...others.map(({ backend }) => backend.name)];
  }

  get places(): readonly string[] {
    return this.all.map(({ place }) => place);
  }

  /** The place of a configured backend; unknown for others. */
  placeOf(backend: Backend): string {
    return this.all.find((provider) => provider.backend === backend)?.place ?? "";
  }

  /** The backend that a caller requested by name. */
  choose(name?: string): Provider {
    if (name === undefined) return this.default;
    const found = this.all.find(({ backend }) => backend.name === name);
    if (found !== undefined) return found;
    throw new SandboxError(
      "INVALID_REQUEST",
      `there is no backend ${JSON.stringify(name.slice(0, 64))} here; choose one of: ${this.names.join(", ")}`,
      { details: { backends: this.names } },
    );
  }

  /** Call before creating anything on a backend or using one of its sessions. */
  async ready(backend: Backend): Promise<void> {
    await this.#due.get(backend.name)?.();
  }

  /** Blocks creation on the backend until `work` has succeeded once; each caller that needs it retries it. */
  holdUntil(backend: Backend, work: () => Promise<void>): void {
    let trying: Promise<void> | undefined;
    this.#due.set(backend.name, async () => {
      trying ??= work()
        .then(() => {
          this.#due.delete(backend.name);
        })
        .finally(() => {
          trying = undefined;
        });
      await trying;
    });
  }

  /** The returned function must be called with the take-over when it begins. */
  expectTakeOver<T>(backend: Backend): (takeOver: Promise<T>) => Promise<T> {
    const begun = Promise.withResolvers<unknown>();
    this.#takeOvers.set(backend.name, begun.promise);
    return async (takeOver) => {
      begun.resolve(takeOver.catch(() => undefined));
      return await takeOver;
    };
  }

  /** Resolves when an earlier daemon's remains are cleaned up: the disk of a workspace is then free. */
  async tidied(backend: Backend): Promise<void> {
    await this.#takeOvers.get(backend.name);
    await this.ready(backend);
  }

  /** The backend of an existing session or workspace, which may no longer be configured. */
  backendOf(name: string): Backend {
    return this.all.find(({ backend }) => backend.name === name)?.backend ?? absentBackend(name);
  }
}

/** What it created may still exist, so treat it as unreachable. */
function absentBackend(name: string): Backend {
  const reject = async (): Promise<never> => {
    return await Promise.reject(
      new SandboxError(
        "ENGINE_UNREACHABLE",
        `the backend ${name} is no longer configured; add it to \`backends\` and restart the daemon`,
      ),
    );
  };
  return {
    name,
    capabilities: {
      isolations: ["standard"],
      network: false,
      pause: false,
      quota: false,
      snapshot: false,
    },
    reachable: () => Promise.resolve(false),
    ready: () => Promise.resolve(false),
    storage: () => Promise.resolve([]),
    tidy: () => Promise.resolve(),
    create: reject,
    adopt: reject,
    takeOver: reject,
    open: reject,
    pause: reject,
    resume: reject,
    destroy: reject,
    list: reject,
    stats: reject,
    isolation: reject,
    health: reject,
    listWorkspaces: reject,
    destroyWorkspace: reject,
  };
}

/** Whether a backend could not be queried, so the state of its sandboxes is unknown. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "ENGINE_UNREACHABLE";
}
