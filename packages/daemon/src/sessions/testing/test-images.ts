/** The images of a core in tests. */
import { SandboxError } from "@sandkasten/protocol";
import type { FakeMachine } from "@sandkasten/testkit";
import type {
  ImageInfo,
  Images,
  ImageStore,
  ImageUsage,
  ResolvedImage,
} from "../../ports/image-store.ts";

/** Names resolve to themselves; digests can be changed, as a new pull does. */
export class TestImages implements ImageStore {
  readonly #machine: FakeMachine;
  readonly digests = new Map<string, string>();
  /** Substitutes for images that are not present. */
  readonly substitutes = new Map<string, string>();
  readonly #listeners = new Set<() => void>();

  constructor(machine: FakeMachine) {
    this.#machine = machine;
  }

  of(): Images {
    return this;
  }

  usage(): ImageUsage {
    return { images: 2, bytes: 3000, maxBytes: 4000 };
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Gives a name new content, as a pull does. */
  move(name: string, digest: string): void {
    this.digests.set(name, digest);
    for (const listener of this.#listeners) listener();
  }

  async resolve(name: string): Promise<ResolvedImage> {
    const { images } = this.#machine;
    const substitute = this.substitutes.get(name);
    if (!images.has(name) && substitute !== undefined)
      return { ...(await this.resolve(substitute)), requested: name, isSubstitute: true };
    if (!images.has(name)) throw new SandboxError("INVALID_IMAGE", `there is no image ${name}`);
    const digest = this.#digestOf(name);
    return await Promise.resolve({ reference: name, requested: name, digest, isSubstitute: false });
  }

  async inspect(reference: string): Promise<ImageInfo> {
    await this.resolve(reference);
    return {
      reference,
      digest: this.#digestOf(reference),
      source: "rootfs",
      sizeBytes: 1,
      createdAtMs: 0,
      env: {},
      shared: true,
    };
  }

  #digestOf(reference: string): string {
    return this.digests.get(reference) ?? `fake:${reference}`;
  }

  async list(): Promise<ImageInfo[]> {
    return await Promise.all([...this.#machine.images].map((name) => this.inspect(name)));
  }

  async ensure(reference: string): Promise<ImageInfo> {
    return await this.inspect(reference);
  }

  importRootfs = unsupported;
  importOciArchive = unsupported;
  pull = unsupported;

  async remove(reference: string): Promise<void> {
    await this.inspect(reference);
    this.#machine.images.delete(reference);
  }

  /** The digests that were to be kept, one set per collection. */
  readonly collections: ReadonlySet<string>[] = [];

  async collectGarbage(inUse: ReadonlySet<string>): Promise<{ removed: 0; freedBytes: 0 }> {
    this.collections.push(inUse);
    return await Promise.resolve({ removed: 0, freedBytes: 0 });
  }
}

function unsupported(): Promise<never> {
  return Promise.reject(new SandboxError("UNSUPPORTED", "sandboxes in memory have no images"));
}
