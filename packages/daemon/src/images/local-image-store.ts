/** The image store of the embedded backend: root file systems unpacked on this machine's disk. */
import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
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
import { digestOf, withRegularFile } from "./image-blobs.ts";
import { imageFailure, invalidImage } from "./image-failure.ts";
import { ImageQuota } from "./image-quota.ts";
import type { ImageMeter } from "./image-quota.ts";
import { ImageLibrary, infoOf } from "./image-library.ts";
import type { PresentImage, ProgressHandler, SyncTree, Unpack } from "./image-library.ts";
import { checkPin, planArchive, planDownload } from "./image-plan.ts";
import { ownImageOf } from "./own-images.ts";
import { ProgressReport } from "./progress.ts";
import { HOST_REFERENCE, parseReference, requireDigest } from "./reference.ts";
import type { ImageReference } from "./reference.ts";
import { RegistryImages } from "./registry-images.ts";
import { DEFAULT_REGISTRIES, RegistryPolicy } from "./registry-policy.ts";
import { runTool } from "./tool.ts";
import { DEFAULT_UNPACK_LIMITS, UnpackBudget } from "./unpack-budget.ts";
import type { UnpackLimits } from "./unpack-budget.ts";
import { unpackContainer, unpackLayers, unpackRootfs } from "./unpack-image.ts";
import type { UnpackContext } from "./unpack-image.ts";

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

/** External programs, preferably by absolute path. */
export interface ImageTools {
  readonly xz: string;
  readonly sync: string;
  /** The whole environment of credential helpers and sync. */
  readonly env: Readonly<Record<string, string>>;
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
const SYNC_TIMEOUT_MS = 10 * 60_000;

/** An image that is about to get a name. */
interface NewImage {
  readonly wanted: ImageReference;
  readonly found: { readonly digest: string; readonly sourceDigest: string };
  readonly source: ImageInfo["source"];
  readonly onProgress: ProgressHandler;
}

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
    const library = await ImageLibrary.open(join(dataDir, "images"), nowMs);
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
    return await this.#guard("importing a root file system", async () => {
      const wanted = this.#importable(reference);
      return await withOperatorFile(tarball, async (file) => {
        const before = await fileVersion(file);
        const sourceDigest = await digestOf(file);
        const digest = withVariables(sourceDigest, env);
        const found = { digest, sourceDigest };
        checkPin(wanted, found);
        const image = { wanted, found, source: "rootfs", onProgress } as const;
        return await this.#metered(
          wanted,
          async (meter) =>
            await this.#publish(image, meter, async (rootfs, progress) => {
              const size = await unpackRootfs(file, rootfs, this.#context(progress, meter));
              if ((await fileVersion(file)) !== before) {
                throw invalidImage(
                  `The archive ${tarball} changed while it was being read. Import it again.`,
                );
              }
              await origin?.check();
              return { ...size, env };
            }),
        );
      });
    });
  }

  async importOciArchive(
    reference: string,
    archive: string,
    onProgress?: ProgressHandler,
  ): Promise<ImageInfo> {
    return await this.#guard("importing an OCI archive", async () => {
      const wanted = this.#importable(reference);
      return await this.#metered(
        wanted,
        async (meter) =>
          await this.#parts.library.directories.inTemporary(async (temporary) => {
            const directory = join(temporary, "archive");
            const context = this.#context(new ProgressReport(), meter);
            const { tree, sourceBytes } = await withOperatorFile(archive, async (file) => ({
              tree: await unpackContainer(file, directory, context),
              sourceBytes: (await file.stat()).size,
            }));
            const blobBytes = meter.spentBytes;
            const plan = await planArchive(directory, tree, wanted, this.#parts.limits);
            checkPin(wanted, plan);
            const image = { wanted, found: plan, source: "oci-archive", onProgress } as const;
            return await this.#publish(image, meter, async (rootfs, progress) => {
              const { layers, env } = plan;
              const unpacking = this.#context(progress, meter);
              const size = await unpackLayers(layers, rootfs, sourceBytes, unpacking);
              meter.release(blobBytes);
              return { ...size, env };
            });
          }),
      );
    });
  }

  async pull(reference: string, onProgress?: ProgressHandler): Promise<ImageInfo> {
    return await this.#guard("pulling an image", async () => {
      const wanted = parseReference(reference);
      this.#requireAllowed(wanted, undefined);
      if (isHost(wanted)) return await this.#host();
      if (this.#parts.requireDigests) requireDigest(wanted);
      this.#parts.registries.requireAllowed(wanted);
      const remote = await this.#parts.remote.locate(wanted);
      new UnpackBudget(this.#parts.limits).checkLayers(remote.layerCount);
      const { archiveBytes } = this.#parts.limits;
      if (remote.downloadBytes > archiveBytes) {
        throw invalidImage(
          `The download of ${wanted.canonical} has ${remote.downloadBytes} bytes; the limit is ${archiveBytes}.`,
        );
      }
      const image = { wanted, found: remote, source: "registry", onProgress } as const;
      return await this.#metered(
        wanted,
        async (meter) =>
          await this.#publish(
            image,
            meter,
            async (rootfs, progress) =>
              await this.#parts.library.directories.inTemporary(async (temporary) => {
                const directory = join(temporary, "download");
                await mkdir(directory, { mode: 0o700 });
                progress.begin("download", remote.downloadBytes);
                meter.spend(remote.downloadBytes);
                await this.#parts.remote.download(wanted, remote, directory, (bytes) =>
                  progress.set(bytes),
                );
                const { layers, env } = await planDownload(directory, remote.digest);
                const unpacking = this.#context(progress, meter);
                const size = await unpackLayers(layers, rootfs, remote.downloadBytes, unpacking);
                meter.release(remote.downloadBytes);
                return { ...size, env };
              }),
          ),
      );
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

  /** Counts the disk space of an image while it is created. */
  async #metered<T>(
    { canonical }: ImageReference,
    work: (meter: ImageMeter) => Promise<T>,
  ): Promise<T> {
    using meter = await this.#parts.quota.begin(this.#owner, canonical);
    try {
      return await work(meter);
    } catch (error) {
      // Everything written was removed again.
      meter.release(meter.spentBytes);
      throw error;
    }
  }

  async #publish(image: NewImage, meter: ImageMeter, unpack: Unpack): Promise<ImageInfo> {
    const { wanted, found, source, onProgress } = image;
    const { canonical: reference, repository } = wanted;
    const { digest, sourceDigest } = found;
    const owner = this.#owner && { owner: this.#owner.name };
    const entry = { reference, repository, digest, sourceDigest, source, ...owner };
    const syncTree: SyncTree = async (directory) => await this.#syncTree(directory);
    const published = await this.#parts.library.publish(entry, unpack, {
      onProgress,
      syncTree,
      admit: async (record) => await this.#parts.quota.admit(meter, reference, record),
    });
    await this.#changed();
    return published;
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

  async #changed(): Promise<void> {
    await this.#parts.quota.refresh();
    for (const listener of this.#parts.listeners) listener();
  }

  async #syncTree(directory: string): Promise<void> {
    const { sync, env } = this.#parts.tools;
    const result = await runTool(sync, ["-f", directory], { env, timeoutMs: SYNC_TIMEOUT_MS });
    if (result.exitCode !== 0)
      throw new Error(`${sync} -f failed: ${result.ended ?? result.stderr.trim()}`);
  }

  #context(progress: ProgressReport, { spend: charge }: ImageMeter): UnpackContext {
    return { limits: this.#parts.limits, xz: this.#parts.tools.xz, progress, charge };
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

/** The same files with different variables are a different image. */
function withVariables(digest: string, env: Readonly<Record<string, string>>): string {
  const names = Object.keys(env).toSorted();
  if (names.length === 0) return digest;
  const content = JSON.stringify([digest, names.map((name) => [name, env[name]])]);
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
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

/** A path from the operator may be a link to the archive. */
async function withOperatorFile<T>(
  path: string,
  work: (file: FileHandle) => Promise<T>,
): Promise<T> {
  return await withRegularFile(path, `The archive ${path}`, work, { followLinks: true });
}

/** Changes whenever an open file is written to. */
async function fileVersion(file: FileHandle): Promise<string> {
  const { size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return `${size}:${mtimeNs}:${ctimeNs}`;
}
