/**
 * The images of a Docker engine, and the rules for creating sandboxes from them.
 *
 * An image's digest here is the id that its engine gives it: a container created from it reports the
 * same id, and a moved tag is detected. A pin (`name@sha256:…`) matches this id, or the digest under
 * which the registry has the image.
 *
 * All owners share the images of an engine, which has no concept of owners; only an administrator
 * changes what a name refers to (see tenant-images.ts).
 *
 * An engine also has images that are not ours. Images outside the allowlist are neither shown nor
 * removed. Garbage is what has lost its name and is certainly ours: root file systems that we
 * imported, which we can label, and what this process has pulled by a tag that was moved since.
 * Images pulled before a restart, or loaded from an archive, are left to `docker image prune`.
 */
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { imageFailure, invalidImage } from "../../images/image-failure.ts";
import type { ImagePolicy } from "../../images/local-image-store.ts";
import type { ImageReference } from "../../images/reference.ts";
import { DEFAULT_REGISTRIES, RegistryPolicy } from "../../images/registry-policy.ts";
import { DEFAULT_UNPACK_LIMITS } from "../../images/unpack-budget.ts";
import type {
  EnsureOptions,
  ImageInfo,
  ImageOrigin,
  ImageProgress,
  Images,
  ImageStore,
  ResolvedImage,
} from "../../ports/image-store.ts";
import { STANDARD_PATH } from "../../find-program.ts";
import type { Log } from "../../ports/log.ts";
import type { DockerConnection } from "./engine-connection.ts";
import { CommittedImages } from "./images/committed-images.ts";
import { EngineImages, SOURCE_LABEL } from "./images/engine-images.ts";
import type { EngineImage } from "./images/engine-images.ts";
import { findImage } from "./images/find-image.ts";
import type { FoundImage } from "./images/find-image.ts";
import { ImageDownloads } from "./images/image-downloads.ts";
import { ImageImports } from "./images/image-imports.ts";
import { infoOf } from "./images/image-info.ts";
import { readName } from "./images/image-names.ts";
import type { NamedImage } from "./images/image-names.ts";
import { ImageRules } from "./images/image-rules.ts";
import { TenantImages } from "./images/tenant-images.ts";

/**
 * When a session's image is pulled: `never` refuses missing images, `missing` pulls them, `always`
 * asks the registry each time. Explicit pulls are allowed under each policy.
 */
export type PullPolicy = "never" | "missing" | "always";

export interface DockerImageStoreOptions {
  readonly connection: DockerConnection;
  /** The engine itself decides which registries use TLS, and at which address. */
  readonly policy: ImagePolicy;
  readonly pullPolicy: PullPolicy;
  /** Where `docker login` stores credentials: `~/.docker`. */
  readonly dockerConfigDir: string;
  /** The whole environment of credential helpers, which are looked up on its PATH. */
  readonly helperEnv?: Readonly<Record<string, string>>;
  readonly helperTimeoutMs?: number;
  /** Path of the `xz` program. */
  readonly xz?: string;
  /** Must have space for the layers of an imported archive. */
  readonly temporaryDir?: string;
  /** Gets the reasons why images cannot be pulled; clients are not told everything. */
  readonly log?: Log;
}

const DEFAULT_HELPER_TIMEOUT_MS = 15_000;
const DEFAULT_TRANSFER_TIMEOUT_MS = 30 * 60_000;
const INSPECTS_AT_ONCE = 8;

export class DockerImageStore implements ImageStore {
  readonly #engine: EngineImages;
  readonly #rules: ImageRules;
  readonly #pullPolicy: PullPolicy;
  readonly #downloads: ImageDownloads;
  readonly #imports: ImageImports;
  readonly #committed: CommittedImages;
  /** Ids of images pulled by tag, and of images used by a pin, since this process began. */
  readonly #pulled = new Set<string>();
  readonly #pinned = new Set<string>();
  readonly #listeners = new Set<() => void>();

  constructor(options: DockerImageStoreOptions) {
    const { policy, dockerConfigDir } = options;
    const limits = { ...DEFAULT_UNPACK_LIMITS, ...policy.limits };
    const timeoutMs = policy.pullTimeoutMs ?? DEFAULT_TRANSFER_TIMEOUT_MS;
    const engine = new EngineImages(options.connection);
    this.#engine = engine;
    this.#committed = new CommittedImages(engine);
    this.#rules = new ImageRules(policy.allowedImages);
    this.#pullPolicy = options.pullPolicy;
    this.#downloads = new ImageDownloads({
      engine,
      credentialsFile: join(dockerConfigDir, "config.json"),
      registries: new RegistryPolicy({
        registries: policy.registries ?? DEFAULT_REGISTRIES,
        insecureRegistries: policy.insecureRegistries ?? [],
      }),
      helpers: {
        env: {
          PATH: STANDARD_PATH,
          HOME: dirname(dockerConfigDir),
          DOCKER_CONFIG: dockerConfigDir,
          ...options.helperEnv,
        },
        timeoutMs: options.helperTimeoutMs ?? DEFAULT_HELPER_TIMEOUT_MS,
      },
      timeoutMs,
      maxBytes: limits.archiveBytes,
      requireDigests: policy.requireDigests ?? false,
      ...(options.log !== undefined && { log: options.log }),
    });
    this.#imports = new ImageImports({
      engine,
      limits,
      xz: options.xz ?? "xz",
      temporaryDir: options.temporaryDir ?? tmpdir(),
      timeoutMs,
    });
  }

  of(): Images {
    return new TenantImages(this);
  }

  /** The engine owns the disk. */
  usage(): undefined {
    return undefined;
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  async resolve(name: string): Promise<ResolvedImage> {
    return await guard("resolving a name", async () => {
      const named = readName(name);
      const own = await this.#findOwn(named);
      const wanted = own?.reference ?? (await this.#admit(named));
      const present = own ?? (await this.#find(wanted));
      if (this.#pullPolicy === "never" && present === undefined) throw notPresent(wanted);
      return {
        reference: wanted.canonical,
        requested: name,
        ...(present !== undefined && { digest: present.image.id }),
        isSubstitute: false,
      };
    });
  }

  async ensure(reference: string, options: EnsureOptions = {}): Promise<ImageInfo> {
    return await guard("getting an image", async () => {
      const named = readName(reference);
      const own = await this.#findOwn(named);
      if (own !== undefined) return infoOf(own.reference.canonical, own.image);
      const wanted = await this.#admit(named);
      const present = await this.#find(wanted);
      if (this.#pullPolicy === "always" || (this.#pullPolicy === "missing" && !present)) {
        const advice =
          present &&
          "It is present; the pull policy `missing` would use it without asking the registry.";
        return await this.#pull(wanted, present, options, advice);
      }
      if (present === undefined) throw notPresent(wanted);
      return this.#infoOfUsed(present);
    });
  }

  async pull(
    reference: string,
    onProgress?: (progress: ImageProgress) => void,
  ): Promise<ImageInfo> {
    return await guard("pulling an image", async () => {
      const wanted = await this.#admit(readName(reference));
      const present = await this.#find(wanted);
      return await this.#pull(wanted, present, onProgress === undefined ? {} : { onProgress });
    });
  }

  async importRootfs(
    reference: string,
    tarball: string,
    onProgress?: (progress: ImageProgress) => void,
    _env?: Readonly<Record<string, string>>,
    origin?: ImageOrigin,
  ): Promise<ImageInfo> {
    return await guard("importing a root file system", async () => {
      const name = this.#importable(reference);
      const importAs = (given: ImageReference): Promise<void> =>
        this.#imports.importRootfs(given, tarball, onProgress);
      if (origin === undefined) await importAs(name);
      else await this.#committed.add(name, origin, importAs);
      this.#tellOfChange();
      return await this.#require(name);
    });
  }

  async importOciArchive(
    reference: string,
    archive: string,
    onProgress?: (progress: ImageProgress) => void,
  ): Promise<ImageInfo> {
    return await guard("importing an OCI archive", async () => {
      const name = this.#importable(reference);
      await this.#imports.importOciArchive(name, archive, onProgress);
      this.#tellOfChange();
      return await this.#require(name);
    });
  }

  async list(): Promise<ImageInfo[]> {
    return await guard("listing images", async () => {
      const named = (await this.#engine.list("all"))
        .map((image) => ({ id: image.id, references: this.#shownNames(image) }))
        .filter(({ references }) => references.length > 0);
      const infos: ImageInfo[] = [];
      for (let at = 0; at < named.length; at += INSPECTS_AT_ONCE) {
        const some = named.slice(at, at + INSPECTS_AT_ONCE);
        const found = await Promise.all(some.map(({ id }) => this.#engine.find(id)));
        for (const [index, image] of found.entries()) {
          // It was removed meanwhile.
          if (image === undefined) continue;
          const references = some[index]?.references ?? [];
          infos.push(...references.map((name) => infoOf(name, image, { env: false })));
        }
      }
      return infos;
    });
  }

  async inspect(reference: string): Promise<ImageInfo> {
    return await guard("inspecting an image", async () => {
      const named = readName(reference);
      const own = await this.#findOwn(named);
      if (own !== undefined) return infoOf(own.reference.canonical, own.image);
      const wanted = this.#rules.admit(named.wanted) ?? named.wanted;
      return await this.#require(wanted);
    });
  }

  async remove(reference: string): Promise<void> {
    await guard("removing an image", async () => {
      const named = readName(reference);
      const found = (await this.#findOwn(named)) ?? (await this.#find(await this.#admit(named)));
      if (found === undefined) throw notPresent(named.wanted);
      const outcome = await this.#engine.remove(found.engineName);
      if (outcome === "absent") throw notPresent(found.reference);
      if (outcome === "in use")
        throw new SandboxError(
          "CONFLICT",
          `The image ${found.reference.canonical} is in use by a container. End the sessions that use it, or remove the containers, and try again.`,
        );
      this.#tellOfChange();
    });
  }

  async collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }> {
    return await guard("collecting garbage", async () => {
      let removed = 0;
      let freedBytes = 0;
      await this.#committed.tidy();
      for (const image of await this.#engine.list("untagged")) {
        if (!this.#isGarbage(image, inUse)) continue;
        // The engine keeps images of any container, even ones that are not ours.
        if ((await this.#engine.remove(image.id)) !== "removed") continue;
        this.#pulled.delete(image.id);
        removed += 1;
        // Includes layers shared with other images: the engine does not distinguish them.
        freedBytes += image.sizeBytes;
      }
      return { removed, freedBytes };
    });
  }

  #isGarbage(image: EngineImage, inUse: ReadonlySet<string>): boolean {
    const { id, tags, digests, labels } = image;
    if (tags.length > 0 || inUse.has(id) || this.#pinned.has(id)) return false;
    if (digests.some((name) => this.#rules.isPinned(name))) return false;
    return this.#pulled.has(id) || labels[SOURCE_LABEL] !== undefined;
  }

  async #pull(
    wanted: ImageReference,
    before: FoundImage | undefined,
    options: EnsureOptions,
    advice?: string,
  ): Promise<ImageInfo> {
    await this.#downloads.fetch(wanted, options, advice);
    const found = await this.#find(wanted);
    if (found === undefined)
      throw invalidImage(
        `${wanted.canonical} was pulled, but the engine does not have it under that name. Check the digest, and whether it was removed meanwhile.`,
      );
    const { id } = found.image;
    if (before?.image.id !== id) this.#tellOfChange();
    if (wanted.digest === undefined && before?.image.id !== id) this.#pulled.add(id);
    return this.#infoOfUsed(found);
  }

  #tellOfChange(): void {
    for (const listener of this.#listeners) listener();
  }

  #infoOfUsed({ reference, image }: FoundImage): ImageInfo {
    if (reference.digest !== undefined) this.#pinned.add(image.id);
    return infoOf(reference.canonical, image);
  }

  async #require(reference: ImageReference): Promise<ImageInfo> {
    const found = await this.#find(reference);
    if (found === undefined) throw notPresent(reference);
    return infoOf(reference.canonical, found.image);
  }

  /** Our own image for a shortcut, if present and allowed. */
  async #findOwn(named: NamedImage): Promise<FoundImage | undefined> {
    if (named.own === undefined || !this.#rules.admitsOwn(named)) return undefined;
    return await this.#find(named.own);
  }

  async #find(reference: ImageReference): Promise<FoundImage | undefined> {
    return await findImage(this.#engine, reference);
  }

  /** The reference to use for a name. Rejects with INVALID_IMAGE if policy forbids it. */
  async #admit(named: NamedImage): Promise<ImageReference> {
    const { own, wanted } = named;
    const admitted = this.#rules.admit(wanted);
    if (admitted !== undefined) return admitted;
    // A pin is also allowed if the engine's name for that content is.
    const found = wanted.digest === undefined ? undefined : await this.#find(wanted);
    if (found?.image.tags.some((tag) => this.#rules.admit(tag) === tag) === true) return wanted;
    if (own !== undefined && this.#rules.admitsOwn(named)) throw notPresent(own);
    throw this.#rules.refusal(wanted);
  }

  /** The names under which an image can be requested. */
  #shownNames({ tags, digests }: EngineImage): readonly string[] {
    const isShown = (name: ImageReference): boolean => {
      if (this.#committed.isTemporary(name)) return false;
      const named = readName(name.canonical);
      return named.own?.canonical === name.canonical
        ? this.#rules.admitsOwn(named)
        : this.#rules.admit(name) !== undefined;
    };
    return (tags.length > 0 ? tags : digests).filter(isShown).map(({ canonical }) => canonical);
  }

  /** The name for an import: our own images do not take the names of public ones. */
  #importable(name: string): ImageReference {
    const named = readName(name);
    const isOwn = named.own?.canonical === name;
    const reference = isOwn && named.own !== undefined ? named.own : named.wanted;
    if (reference.digest !== undefined)
      throw invalidImage(
        `${reference.canonical} cannot be the name of an import: its digest comes from the engine. Leave @sha256:… out.`,
      );
    const isAllowed = isOwn
      ? this.#rules.admitsOwn(named)
      : this.#rules.admit(reference) === reference;
    if (!isAllowed) throw this.#rules.refusal(reference);
    return reference;
  }
}

async function guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw imageFailure(error, doing);
  }
}

function notPresent(wanted: ImageReference): SandboxError {
  const { canonical } = wanted;
  return invalidImage(
    `The image ${canonical} is not present on the Docker engine. Get it with \`sandkasten image pull ${canonical}\` or \`docker pull ${canonical}\`, or import an archive under this name.`,
  );
}
