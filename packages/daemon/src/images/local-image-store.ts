/** The image store of the embedded backend: root filesystems unpacked on this machine's disk. */
import { mkdir } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { SandboxError } from "@sandkasten/protocol";
import type { ImageInfo, ImageRootfs, RootfsStore } from "../ports/image-store.ts";
import { ImageAllowlist } from "./allowlist.ts";
import { hostRootfs } from "./host-image.ts";
import { readHostFacts } from "./host-facts.ts";
import { digestOf, withRegularFile } from "./image-blobs.ts";
import { imageFailure, invalidImage } from "./image-failure.ts";
import { ImageLibrary, infoOf } from "./image-library.ts";
import type { PresentImage, ProgressHandler, SyncTree, Unpack } from "./image-library.ts";
import { checkPin, planArchive, planDownload } from "./image-plan.ts";
import { ProgressReport } from "./progress.ts";
import { HOST_REFERENCE, parseReference, requireDigest } from "./reference.ts";
import type { ImageReference } from "./reference.ts";
import { Skopeo } from "./skopeo.ts";
import { runTool } from "./tool.ts";
import { DEFAULT_UNPACK_LIMITS, UnpackBudget } from "./unpack-budget.ts";
import type { UnpackLimits } from "./unpack-budget.ts";
import { unpackContainer, unpackLayers, unpackRootfs } from "./unpack-image.ts";
import type { UnpackContext } from "./unpack-image.ts";

export interface ImagePolicy {
  /** References and patterns that may be used (see allowlist.ts); empty allows all. */
  readonly allowedImages: readonly string[];
  /** Registries (`host:port`) that are spoken to without TLS. */
  readonly insecureRegistries?: readonly string[];
  readonly limits?: Partial<UnpackLimits>;
  readonly pullTimeoutMs?: number;
  /** Only what is named by its digest (`name@sha256:…`) may be pulled. */
  readonly requireDigests?: boolean;
}

/** Programs of the machine, best by absolute path. */
export interface ImageTools {
  readonly skopeo: string;
  readonly xz: string;
  readonly sync: string;
  /** The environment skopeo and sync get, and nothing else. */
  readonly env: Readonly<Record<string, string>>;
}

export interface LocalImageStoreOptions {
  readonly dataDir: string;
  readonly policy: ImagePolicy;
  readonly tools: ImageTools;
  readonly nowMs: () => number;
  /** Where the machine's files are; "/" except in tests. */
  readonly machine?: string;
}

const DEFAULT_PULL_TIMEOUT_MS = 30 * 60_000;
const SYNC_TIMEOUT_MS = 10 * 60_000;

export class LocalImageStore implements RootfsStore {
  readonly #tools: ImageTools;
  readonly #machine: string;
  readonly #limits: UnpackLimits;
  readonly #allowlist: ImageAllowlist;
  readonly #requireDigests: boolean;
  readonly #skopeo: Skopeo;
  readonly #library: ImageLibrary;

  private constructor({ policy, tools, machine }: LocalImageStoreOptions, library: ImageLibrary) {
    this.#tools = tools;
    this.#machine = machine ?? "/";
    this.#limits = { ...DEFAULT_UNPACK_LIMITS, ...policy.limits };
    this.#allowlist = new ImageAllowlist(policy.allowedImages);
    this.#requireDigests = policy.requireDigests ?? false;
    this.#library = library;
    this.#skopeo = new Skopeo({
      program: tools.skopeo,
      env: tools.env,
      timeoutMs: policy.pullTimeoutMs ?? DEFAULT_PULL_TIMEOUT_MS,
      insecureRegistries: policy.insecureRegistries ?? [],
    });
  }

  /** Opens the store below `dataDir` and sweeps what killed imports left there. */
  static async open(options: LocalImageStoreOptions): Promise<LocalImageStore> {
    const library = await ImageLibrary.open(join(options.dataDir, "images"), options.nowMs);
    return new LocalImageStore(options, library);
  }

  async resolve(name: string): Promise<{ readonly reference: string; readonly requested: string }> {
    return await this.#guard("resolving a name", async () => {
      const wanted = parseReference(name);
      if (isHost(wanted)) {
        this.#requireAllowed(wanted, undefined);
        return { reference: HOST_REFERENCE, requested: name };
      }
      const present = await this.#library.find(wanted);
      if (present !== undefined && this.#isAllowed(wanted, present)) {
        return { reference: wanted.canonical, requested: name };
      }
      if (wanted.shortcut && this.#allowlist.allows(HOST_REFERENCE)) {
        return { reference: HOST_REFERENCE, requested: name };
      }
      this.#requireAllowed(wanted, present);
      throw notPresent(wanted);
    });
  }

  /** Nothing is pulled without having been asked for. */
  async ensure(reference: string): Promise<ImageInfo> {
    return await this.inspect(reference);
  }

  async rootfs(reference: string): Promise<ImageRootfs> {
    return await this.#guard("opening an image", async () => {
      const wanted = parseReference(reference);
      if (isHost(wanted)) return await hostRootfs(this.#machine, this.#library);
      const present = await this.#library.find(wanted);
      if (present === undefined) throw notPresent(wanted);
      const { entry, record } = present;
      return {
        info: infoOf(wanted.canonical, entry.source, record),
        path: this.#library.directories.rootfsPath(entry.digest),
        binds: [],
      };
    });
  }

  async importRootfs(
    reference: string,
    tarball: string,
    onProgress?: ProgressHandler,
  ): Promise<ImageInfo> {
    return await this.#guard("importing a root filesystem", async () => {
      const wanted = this.#importable(reference);
      return await withOperatorFile(tarball, async (file) => {
        const before = await fileVersion(file);
        const digest = await digestOf(file);
        const found = { digest, sourceDigest: digest };
        checkPin(wanted, found);
        return await this.#publish(
          wanted,
          found,
          "rootfs",
          onProgress,
          async (rootfs, progress) => {
            const sizeBytes = await unpackRootfs(file, rootfs, this.#context(progress));
            if ((await fileVersion(file)) !== before) {
              throw invalidImage(
                `The archive ${tarball} was changed while it was being read. Import it again.`,
              );
            }
            return { sizeBytes, env: {} };
          },
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
      return await this.#library.directories.inTemporary(async (temporary) => {
        const directory = join(temporary, "archive");
        const context = this.#context(new ProgressReport());
        const tree = await withOperatorFile(
          archive,
          async (file) => await unpackContainer(file, directory, context),
        );
        const plan = await planArchive(directory, tree, wanted, this.#limits);
        checkPin(wanted, plan);
        return await this.#publish(
          wanted,
          plan,
          "oci-archive",
          onProgress,
          async (rootfs, progress) => ({
            sizeBytes: await unpackLayers(plan.layers, rootfs, this.#context(progress)),
            env: plan.env,
          }),
        );
      });
    });
  }

  async pull(reference: string, onProgress?: ProgressHandler): Promise<ImageInfo> {
    return await this.#guard("pulling an image", async () => {
      const wanted = parseReference(reference);
      this.#requireAllowed(wanted, undefined);
      if (isHost(wanted)) return (await hostRootfs(this.#machine, this.#library)).info;
      if (this.#requireDigests) requireDigest(wanted);
      const remote = await this.#skopeo.locate(wanted);
      new UnpackBudget(this.#limits).checkLayers(remote.layerCount);
      const { archiveBytes } = this.#limits;
      if (remote.downloadBytes > archiveBytes) {
        throw invalidImage(
          `The download of ${wanted.canonical} has ${remote.downloadBytes} bytes; the limit is ${archiveBytes}.`,
        );
      }
      return await this.#publish(
        wanted,
        remote,
        "registry",
        onProgress,
        async (rootfs, progress) =>
          await this.#library.directories.inTemporary(async (temporary) => {
            const directory = join(temporary, "download");
            await mkdir(directory, { mode: 0o700 });
            progress.begin("download", remote.downloadBytes);
            await this.#skopeo.download(wanted, remote.digest, directory, {
              maxBytes: archiveBytes,
              onBytes: (bytes) => progress.set(Math.min(bytes, remote.downloadBytes)),
            });
            const plan = await planDownload(directory, remote.digest);
            return {
              sizeBytes: await unpackLayers(plan.layers, rootfs, this.#context(progress)),
              env: plan.env,
            };
          }),
      );
    });
  }

  async list(): Promise<ImageInfo[]> {
    return await this.#guard("listing images", async () => {
      const present = await this.#library.list();
      const infos = present.map(({ entry, record }) =>
        infoOf(entry.reference, entry.source, record),
      );
      return [(await hostRootfs(this.#machine, this.#library)).info, ...infos];
    });
  }

  async inspect(reference: string): Promise<ImageInfo> {
    return (await this.rootfs(reference)).info;
  }

  async remove(reference: string): Promise<void> {
    await this.#guard("removing an image", async () => {
      const wanted = parseReference(reference);
      if (isHost(wanted))
        throw invalidImage(`"host" is this machine itself and cannot be removed.`);
      if (!(await this.#library.removeName(wanted.canonical))) throw notPresent(wanted);
    });
  }

  async collectGarbage(
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly removed: number; readonly freedBytes: number }> {
    return await this.#guard("collecting garbage", async () => {
      const { fingerprint } = readHostFacts(this.#machine);
      return await this.#library.collect(new Set([...inUse, fingerprint]));
    });
  }

  async #publish(
    wanted: ImageReference,
    found: { readonly digest: string; readonly sourceDigest: string },
    source: ImageInfo["source"],
    onProgress: ProgressHandler,
    unpack: Unpack,
  ): Promise<ImageInfo> {
    const { canonical: reference, repository } = wanted;
    const { digest, sourceDigest } = found;
    const entry = { reference, repository, digest, sourceDigest, source };
    const syncTree: SyncTree = async (directory) => await this.#syncTree(directory);
    return await this.#library.publish(entry, unpack, { onProgress, syncTree });
  }

  async #syncTree(directory: string): Promise<void> {
    const { sync, env } = this.#tools;
    const result = await runTool(sync, ["-f", directory], { env, timeoutMs: SYNC_TIMEOUT_MS });
    if (result.exitCode !== 0)
      throw new Error(`${sync} -f failed: ${result.ended ?? result.stderr.trim()}`);
  }

  #context(progress: ProgressReport): UnpackContext {
    return { limits: this.#limits, xz: this.#tools.xz, progress };
  }

  #importable(reference: string): ImageReference {
    const wanted = parseReference(reference);
    if (isHost(wanted))
      throw invalidImage(`"host" is this machine itself; import under another name.`);
    this.#requireAllowed(wanted, undefined);
    return wanted;
  }

  /** A pinned reference is also allowed by the name under which exactly that content is present. */
  #isAllowed(wanted: ImageReference, present: PresentImage | undefined): boolean {
    return (
      this.#allowlist.allows(wanted.canonical) ||
      (present !== undefined && this.#allowlist.allows(present.entry.reference))
    );
  }

  #requireAllowed(wanted: ImageReference, present: PresentImage | undefined): void {
    if (this.#isAllowed(wanted, present)) return;
    throw invalidImage(
      `The image ${wanted.canonical} is not allowed here. Allowed are: ${this.#allowlist.describe()}.`,
      {
        details: { allowed_images: this.#allowlist.entries },
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

function notPresent(wanted: ImageReference): SandboxError {
  return invalidImage(
    `The image ${wanted.canonical} is not present. Pull it from a registry, import an archive under this name, or use "host".`,
  );
}

/** A path the operator gave may be a link to the archive. */
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
