/** The backends of this daemon, each with its images, and which of them is meant. */
import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../ports/backend.ts";
import type { ImageStore, Images } from "../ports/image-store.ts";
import type { Caller } from "./services.ts";

/** One kind of sandboxes, and what they are made of. */
export interface Provider {
  readonly backend: Backend;
  /** Where its sandboxes are: daemons with the same place reach the same ones. */
  readonly place: string;
  readonly images: ImageStore;
  /** Image of sessions that name none. */
  readonly defaultImage: string;
  /** For sandboxes that only serve file calls on a workspace, which need no more of it than to be there. */
  readonly workspaceImage: string;
}

/**
 * SECURITY: images as a caller may see and change them; only the administrator's are shared (threat:
 * hostile archives and images). Guarded by image-owners.test.ts and
 * surfaces/native/routes/images/image-owners.test.ts.
 */
export function imagesFor({ owner, isAdmin, maxImageBytes }: Caller, images: ImageStore): Images {
  return isAdmin ? images : images.of({ name: owner, maxBytes: maxImageBytes });
}

export class Providers {
  readonly all: readonly Provider[];
  /** That of sessions that ask for none. */
  readonly default: Provider;
  /** By name: what has to be done before anything is made on a backend. */
  readonly #due = new Map<string, () => Promise<void>>();

  /** By name: settles when what an earlier daemon left is taken over, or cannot be reached. */
  readonly #takeOvers = new Map<string, Promise<unknown>>();

  constructor(usual: Provider, others: readonly Provider[] = []) {
    this.default = usual;
    this.all = [usual, ...others];
  }

  /** The usual one first. */
  get names(): readonly [string, ...string[]] {
    const [, ...others] = this.all;
    return [this.default.backend.name, ...others.map(({ backend }) => backend.name)];
  }

  get places(): readonly string[] {
    return this.all.map(({ place }) => place);
  }

  /** Of a backend that is configured; nothing is known of others. */
  placeOf(backend: Backend): string {
    return this.all.find((provider) => provider.backend === backend)?.place ?? "";
  }

  /** The one that a caller asks for by name. */
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

  /** To be called before anything is made on a backend or done in a session of it. */
  async ready(backend: Backend): Promise<void> {
    await this.#due.get(backend.name)?.();
  }

  /** Until `work` has succeeded once nothing is made on the backend. Whoever needs it has it tried. */
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

  /** The answer is to be told of the take-over when it begins. */
  expectTakeOver<T>(backend: Backend): (takeOver: Promise<T>) => Promise<T> {
    const begun = Promise.withResolvers<unknown>();
    this.#takeOvers.set(backend.name, begun.promise);
    return async (takeOver) => {
      begun.resolve(takeOver.catch(() => undefined));
      return await takeOver;
    };
  }

  /** Resolves when nothing of an earlier daemon is in the way any more: the disk of a workspace is free then. */
  async tidied(backend: Backend): Promise<void> {
    await this.#takeOvers.get(backend.name);
    await this.ready(backend);
  }

  /** That of a session or workspace which exists, perhaps since a configuration that had others. */
  backendOf(name: string): Backend {
    return this.all.find(({ backend }) => backend.name === name)?.backend ?? absentBackend(name);
  }
}

/** What it made may well be there still, so it is as one that cannot be reached. */
function absentBackend(name: string): Backend {
  const reject = async (): Promise<never> => {
    return await Promise.reject(
      new SandboxError(
        "ENGINE_UNREACHABLE",
        `the backend ${name} is not configured any more; add it to \`backends\` and start the daemon again`,
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

/** Whether a backend could not be asked, so that nothing is known of its sandboxes. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "ENGINE_UNREACHABLE";
}
