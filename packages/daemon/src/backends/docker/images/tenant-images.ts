/**
 * The images of an engine as owners other than the administrator may use them.
 *
 * SECURITY: an engine has one set of names for all, so changing or removing a name affects every tenant
 * (threat: hostile archives and images). Owners can have the engine pull missing images, and nothing
 * else. Guarded by docker-image-store.test.ts.
 */
import { SandboxError } from "@sandkasten/protocol";
import type {
  EnsureOptions,
  ImageInfo,
  ImageProgress,
  Images,
  ImageStore,
  ResolvedImage,
} from "../../../ports/image-store.ts";

export class TenantImages implements Images {
  readonly #store: ImageStore;

  constructor(store: ImageStore) {
    this.#store = store;
  }

  async resolve(name: string): Promise<ResolvedImage> {
    return await this.#store.resolve(name);
  }

  async ensure(reference: string, options?: EnsureOptions): Promise<ImageInfo> {
    return await this.#store.ensure(reference, options);
  }

  async list(): Promise<ImageInfo[]> {
    return await this.#store.list();
  }

  async inspect(reference: string): Promise<ImageInfo> {
    return await this.#store.inspect(reference);
  }

  /** Images that are present stay unchanged. */
  async pull(
    reference: string,
    onProgress?: (progress: ImageProgress) => void,
  ): Promise<ImageInfo> {
    try {
      return await this.#store.inspect(reference);
    } catch (error) {
      if (!(error instanceof SandboxError) || error.code !== "INVALID_IMAGE") throw error;
      return await this.#store.pull(reference, onProgress);
    }
  }

  async importRootfs(): Promise<never> {
    return await Promise.reject(refusal("imports images"));
  }

  async importOciArchive(): Promise<never> {
    return await Promise.reject(refusal("imports images"));
  }

  async remove(reference: string): Promise<never> {
    await this.#store.inspect(reference);
    throw refusal("removes images");
  }
}

function refusal(what: string): SandboxError {
  return new SandboxError(
    "PERMISSION_DENIED",
    `All keys share the images of the Docker engine; only an administrator's key ${what} there.`,
  );
}
