/** The image store of the embedded backend: root file systems unpacked on this machine's disk. */
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { Log } from "../ports/log.ts";
import type {
  ImageInfo,
  ImageOrigin,
  ImageOwner,
  ImageRootfs,
  Images,
  ImageUsage,
  ResolvedImage,
  RootfsStore,
} from "../ports/image-store.ts";
import { ImageAllowlist } from "./allowlist.ts";
import { hostRootfs } from "./host-image.ts";
import { readHostFacts } from "./host-facts.ts";
import { ImageCreation } from "./image-creation.ts";
import type { ImageTools } from "./image-creation.ts";
import { imageFailure, invalidImage } from "./image-failure.ts";
import { ImageQuota } from "./image-quota.ts";
import { IMAGES_DIRECTORY } from "./image-directories.ts";
import { ImageLibrary, infoOf } from "./image-library.ts";
import type { PresentImage, ProgressHandler } from "./image-library.ts";
import { ownImageOf } from "./own-images.ts";
import { HOST_REFERENCE, parseReference, requireDigest } from "./reference.ts";
import type { ImageReference } from "./reference.ts";
import { RegistryImages } from "./registry-images.ts";
import { DEFAULT_REGISTRIES, RegistryPolicy } from "./registry-policy.ts";
import { DEFAULT_UNPACK_LIMITS } from "./unpack-budget.ts";
import type { UnpackLimits } from "./unpack-budget.ts";

export interface ImagePolicy {
  /** Allowed references and patterns (see allowlist.ts); empty allows all. */
  readonly allowedImages: readonly string[];
  /**
   * Registries that images may be pulled from (see registry-policy.ts); the default public ones
   * when absent.
   */
  readonly registries?: readonly string[];
  /** Registries (`host:port`) that are accessed without TLS. */
  readonly insecureRegistries?: readonly string[];
  /** The file with registry credentials, in the format of Docker's `config.json`. */
  readonly credentialsFile?: string;
  readonly limits?: Partial<UnpackLimits>;
  /** Disk space of all images together. */
  readonly maxTotalBytes?: number;
  readonly pullTimeoutMs?: number;
  /** Only images pinned by digest (`name@sha256:…`) may be pulled. */
  readonly requireDigests?: boolean;
}

export interface LocalImageStoreOptions {
  readonly dataDir: string;
  readonly policy: ImagePolicy;
  readonly tools: ImageTools;
  readonly nowMs: () => number;
  readonly log?: Log;
  /** The root of the machine's files; "/" except in tests. */
  readonly machine?: string;
}

const DEFAULT_PULL_TIMEOUT_MS = 30 * 60_000;
const HELPER_TIMEOUT_MS = 15_000;
export const DEFAULT_MAX_TOTAL_BYTES = 100 * 1024 ** 3;

/** Shared by the views of all owners. */
interface StoreParts {
  readonly tools: ImageTools;
  readonly machine: string;
  readonly limits: UnpackLimits;
  readonly allowlist: ImageAllowlist;
  readonly requireDigests: boolean;
  readonly registries: RegistryPolicy;
  readonly remote: RegistryImages;
  readonly library: ImageLibrary;
  readonly quota: ImageQuota;
  readonly listeners: Set<() => void>;
}

/** One owner's, or the administrator's, view of the images on this machine. */
export class LocalImageStore implements RootfsStore {
  readonly #parts: StoreParts;
  readonly #owner: ImageOwner | undefined;

  private constructor(parts: StoreParts, owner?: ImageOwner) {
    this.#parts = parts;
    this.#owner = owner;
  }

  /** Opens the store below `dataDir` and removes what killed imports left there. */
  static async open(options: LocalImageStoreOptions): Promise<LocalImageStore> {
    const { dataDir, policy, tools, machine, nowMs, log } = options;
    const registries = new RegistryPolicy({
      registries: policy.registries ?? DEFAULT_REGISTRIES,
      insecureRegistries: policy.insecureRegistries ?? [],
    });
    const library = await ImageLibrary.open(join(dataDir, IMAGES_DIRECTORY), nowMs);
    const quota = new ImageQuota(library, policy.maxTotalBytes ?? DEFAULT_MAX_TOTAL_BYTES);
    await quota.refresh();
    return new LocalImageStore({
      tools,
      machine: machine ?? "/",
      limits: { ...DEFAULT_UNPACK_LIMITS, ...policy.limits },
      allowlist: new ImageAllowlist(policy.allowedImages),
      requireDigests: policy.requireDigests ?? false,
      registries,
      remote: new RegistryImages({
        policy: registries,
        credentialsFile:
          policy.credentialsFile ?? `/run/containers/${process.getuid?.() ?? 0}/auth.json`,
        helpers: { env: tools.env, timeoutMs: HELPER_TIMEOUT_MS },
        timeoutMs: policy.pullTimeoutMs ?? DEFAULT_PULL_TIMEOUT_MS,
        ...(log !== undefined && { log }),
      }),
      library,
      quota,
      listeners: new Set(),
    });
  }

  of(owner: ImageOwner): Images {
    return new LocalImageStore(this.#parts, owner);
  }

  usage(): ImageUsage {
    return this.#parts.quota.usage;
  }

  onChange(listener: () => void): void {
    this.#parts.listeners.add(listener);
  }

  async resolve(name: string): Promise<ResolvedImage> {
    return await this.#guard("resolving a name", async () => {
      const wanted = parseReference(name);
      const { allowlist, machine } = this.#parts;
      const host = { reference: HOST_REFERENCE, requested: name };
      if (isHost(wanted)) {
        this.#requireAllowed(wanted, undefined);
        return { ...host, digest: readHostFacts(machine).fingerprint, isSubstitute: false };
      }
      const present = await this.#find(wanted);
      if (present !== undefined && this.#isAllowed(wanted, present)) {
        const { digest } = present.entry;
        const reference = nameOf(wanted, present);
        return { reference, requested: name, digest, isSubstitute: false };
      }
      if (wanted.shortcut && allowlist.allows(HOST_REFERENCE)) {
        return { ...host, digest: readHostFacts(machine).fingerprint, isSubstitute: true };
      }
      this.#requireAllowed(wanted, present);
      throw notPresent(wanted);
    });
  }

  /** Never pulls implicitly. */
  async ensure(reference: string): Promise<ImageInfo> {
    return await this.inspect(reference);
  }

  async rootfs(reference: string, digest?: string): Promise<ImageRootfs> {
    return await this.#guard("opening an image", async () => {
      const { library, machine } = this.#parts;
      const wanted = parseReference(reference);
      if (isHost(wanted)) return await hostRootfs(machine, library);
      const record =
        digest === undefined
          ? (await this.#find(wanted))?.record
          : await library.directories.read(digest);
      if (record === undefined) throw notPresent(wanted);
      const path = library.directories.rootfsPath(record.digest);
      return { digest: record.digest, env: record.env, path, binds: [] };
    });
  }

  async importRootfs(
    reference: string,
    tarball: string,
    onProgress?: ProgressHandler,
    env: Readonly<Record<string, string>> = {},
    origin?: ImageOrigin,
  ): Promise<ImageInfo> {
    return await this.#create("importing a root file system", async (creation) => {
      const wanted = this.#importable(reference);
      return await creation.fromRootfs(wanted, tarball, onProgress, env, origin);
    });
  }

  async importOciArchive(
    reference: string,
    archive: string,
    onProgress?: ProgressHandler,
  ): Promise<ImageInfo> {
    return await this.#create("importing an OCI archive", async (creation) => {
      const wanted = this.#importable(reference);
      return await creation.fromOciArchive(wanted, archive, onProgress);
    });
  }

  async pull(reference: string, onProgress?: ProgressHandler): Promise<ImageInfo> {
    return await this.#create("pulling an image", async (creation) => {
      const wanted = parseReference(reference);
      this.#requireAllowed(wanted, undefined);
      if (isHost(wanted)) return await this.#host();
      if (this.#parts.requireDigests) requireDigest(wanted);
      this.#parts.registries.requireAllowed(wanted);
      return await creation.fromRegistry(wanted, onProgress);
    });
  }

  async list(): Promise<ImageInfo[]> {
    return await this.#guard("listing images", async () => {
      const present = await this.#parts.library.list(this.#owner?.name);
      const infos = present.map(({ entry, record }) => infoOf(entry, record));
      return [await this.#host(), ...infos];
    });
  }

  async inspect(reference: string): Promise<ImageInfo> {
    return await this.#guard("inspecting an image", async () => {
      const wanted = parseReference(reference);
      if (isHost(wanted)) return await this.#host();
      const present = await this.#find(wanted);
      if (present === undefined) throw notPresent(wanted);
      return infoOf({ ...present.entry, reference: nameOf(wanted, present) }, present.record);
    });
  }

  async remove(reference: string): Promise<void> {
    await this.#guard("removing an image", async () => {
      const wanted = parseReference(reference);
      if (isHost(wanted))
        throw invalidImage(`"host" is this machine itself and cannot be removed.`);
      const present = await this.#find(wanted);
      if (present === undefined) throw notPresent(wanted);
      const canonical = nameOf(wanted, present);
      if (await this.#parts.library.removeName(canonical, this.#owner?.name)) {
        await this.#changed();
        return;
      }
      throw new SandboxError(
        "PERMISSION_DENIED",
        `The image ${canonical} is shared by the administrator; only an administrator's key can remove it.`,
      );
    });
  }

  async collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }> {
    return await this.#guard("collecting garbage", async () => {
      const { fingerprint } = readHostFacts(this.#parts.machine);
      const collected = await this.#parts.library.collect(new Set([...inUse, fingerprint]));
      await this.#parts.quota.refresh();
      return collected;
    });
  }

  async #host(): Promise<ImageInfo> {
    return (await hostRootfs(this.#parts.machine, this.#parts.library)).info;
  }

  /** A short name prefers our own image to the public one, and the owner's image to a shared one. */
  async #find(wanted: ImageReference): Promise<PresentImage | undefined> {
    const find = (reference: ImageReference): Promise<PresentImage | undefined> =>
      this.#parts.library.find(reference, this.#owner?.name);
    const own = ownImageOf(wanted);
    const found = [...(own === undefined ? [] : [await find(own)]), await find(wanted)];
    return found.find((image) => image?.entry.owner !== undefined) ?? found.find(Boolean);
  }

  async #create(
    doing: string,
    work: (creation: ImageCreation) => Promise<ImageInfo>,
  ): Promise<ImageInfo> {
    const changed = async (): Promise<void> => await this.#changed();
    const creation = new ImageCreation({ ...this.#parts, changed }, this.#owner);
    return await this.#guard(doing, async () => await work(creation));
  }

  async #changed(): Promise<void> {
    await this.#parts.quota.refresh();
    for (const listener of this.#parts.listeners) listener();
  }

  #importable(reference: string): ImageReference {
    const wanted = parseReference(reference);
    if (isHost(wanted))
      throw invalidImage(`"host" is this machine itself; import under another name.`);
    this.#requireAllowed(wanted, undefined);
    return wanted;
  }

  /** A pinned reference is also allowed if the name under which that content is present is. */
  #isAllowed(wanted: ImageReference, present: PresentImage | undefined): boolean {
    return (
      this.#parts.allowlist.allows(wanted.canonical) ||
      (present !== undefined && this.#parts.allowlist.allows(present.entry.reference))
    );
  }

  #requireAllowed(wanted: ImageReference, present: PresentImage | undefined): void {
    if (this.#isAllowed(wanted, present)) return;
    throw invalidImage(
      `The image ${wanted.canonical} is not allowed here. Allowed images: ${this.#parts.allowlist.describe()}.`,
      {
        details: { allowed_images: this.#parts.allowlist.entries },
      },
    );
  }

  async #guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw imageFailure(error, doing);
    }
  }
}

function isHost(reference: ImageReference): boolean {
  return reference.canonical === HOST_REFERENCE;
}

/** A pinned name stays unchanged; a short one becomes the name of the image that it means. */
function nameOf(wanted: ImageReference, { entry }: PresentImage): string {
  return wanted.shortcut ? entry.reference : wanted.canonical;
}

function notPresent(wanted: ImageReference): SandboxError {
  return invalidImage(
    `The image ${wanted.canonical} is not present. Pull it from a registry, import an archive under this name, or use "host".`,
  );
}
