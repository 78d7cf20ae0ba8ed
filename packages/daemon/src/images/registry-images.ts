/** Finds images in registries and downloads them. */
import { createWriteStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Log } from "../ports/log.ts";
import type { CredentialHelperOptions } from "./credential-helper.ts";
import { digestOfBytes } from "./image-blobs.ts";
import { invalidImage } from "./image-failure.ts";
import { isFullDisk } from "../system-errors.ts";
import { machineArchitecture } from "./image-plan.ts";
import {
  chooseManifest,
  indexEntries,
  isIndex,
  MAX_DOCUMENT_BYTES,
  parseDocument,
  parseManifest,
} from "./oci-manifest.ts";
import type { Descriptor } from "./oci-manifest.ts";
import type { ImageReference } from "./reference.ts";
import { RegistryConnection } from "./registry-connection.ts";
import { findCredentials } from "./registry-credentials.ts";
import { RegistryFailure, reportedFailure } from "./registry-failure.ts";
import type { RegistryPolicy } from "./registry-policy.ts";

export interface RegistryImagesOptions {
  readonly policy: RegistryPolicy;
  /** The file with the credentials, in the format of Docker's `config.json`. */
  readonly credentialsFile: string;
  readonly helpers: CredentialHelperOptions;
  readonly timeoutMs: number;
  /** Certificates to trust in addition to the machine's. */
  readonly certificates?: readonly string[];
  readonly log?: Log;
}

/** What a name resolves to in a registry, before anything is downloaded. */
export interface RemoteImage {
  readonly digest: string;
  readonly sourceDigest: string;
  readonly manifest: Buffer;
  /** The configuration and the layers. */
  readonly blobs: readonly Descriptor[];
  readonly downloadBytes: number;
  readonly layerCount: number;
}

const MANIFEST_TYPES = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];
const BLOBS_AT_ONCE = 3;

export class RegistryImages {
  readonly #options: RegistryImagesOptions;

  constructor(options: RegistryImagesOptions) {
    this.#options = options;
  }

  /** Resolves a name to the manifest for this machine. */
  async locate(reference: ImageReference): Promise<RemoteImage> {
    return await this.#connected(
      reference,
      AbortSignal.timeout(this.#options.timeoutMs),
      (registry) => locate(registry, reference),
    );
  }

  /** Downloads a manifest and its blobs into a directory, each named by its digest. */
  async download(
    reference: ImageReference,
    image: RemoteImage,
    directory: string,
    onBytes: (bytes: number) => void,
  ): Promise<void> {
    const failed = new AbortController();
    const signal = AbortSignal.any([failed.signal, AbortSignal.timeout(this.#options.timeoutMs)]);
    await writeFile(join(directory, "manifest.json"), image.manifest, { mode: 0o600 });
    await this.#connected(reference, signal, async (registry) => {
      let done = 0;
      const left = [...new Map(image.blobs.map((blob) => [blob.digest, blob])).values()];
      const worker = async (): Promise<void> => {
        for (let blob = left.shift(); blob !== undefined; blob = left.shift()) {
          await fetchBlob(registry, blob, directory, (bytes) => onBytes((done += bytes)));
        }
      };
      // The first failure stops the others, so nothing is written after this returns.
      const workers = Array.from({ length: BLOBS_AT_ONCE }, async () => {
        await worker().catch((error: unknown) => {
          failed.abort();
          throw error;
        });
      });
      const outcomes = await Promise.allSettled(workers);
      const causes = outcomes.flatMap((end) => (end.status === "rejected" ? [end.reason] : []));
      if (causes.length > 0) throw causes.find((cause) => !isAborted(cause)) ?? causes[0];
    });
  }

  async #connected<T>(
    reference: ImageReference,
    signal: AbortSignal,
    work: (registry: RegistryConnection) => Promise<T>,
  ): Promise<T> {
    const { policy, credentialsFile, helpers, certificates = [], log } = this.#options;
    const credentials = await findCredentials(credentialsFile, reference.registry, helpers);
    using registry = new RegistryConnection({
      reference,
      policy,
      credentials,
      signal,
      certificates,
    });
    try {
      return await work(registry);
    } catch (error) {
      throw reportedFailure(error, reference, log);
    }
  }
}

async function locate(
  registry: RegistryConnection,
  reference: ImageReference,
): Promise<RemoteImage> {
  const text = await manifest(registry, reference, reference.digest ?? reference.tag ?? "latest");
  const sourceDigest = digestOfBytes(text);
  const document = parseDocument(text, "manifest");
  if (!isIndex(document)) return { ...summary(text), sourceDigest };
  const chosen = chooseManifest(indexEntries(document), machineArchitecture(), []);
  return { ...summary(await manifest(registry, reference, chosen.digest)), sourceDigest };
}

async function manifest(
  registry: RegistryConnection,
  { canonical }: ImageReference,
  tagOrDigest: string,
): Promise<Buffer> {
  const text = await registry.read(`manifests/${tagOrDigest}`, MANIFEST_TYPES, MAX_DOCUMENT_BYTES);
  if (tagOrDigest.startsWith("sha256:") && digestOfBytes(text) !== tagOrDigest)
    throw invalidImage(
      `The registry returned different content than ${tagOrDigest} for ${canonical}.`,
    );
  return text;
}

function summary(text: Buffer): Omit<RemoteImage, "sourceDigest"> {
  const { config, layers } = parseManifest(parseDocument(text, "manifest"));
  const blobs = [config, ...layers];
  const downloadBytes = blobs.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return {
    digest: digestOfBytes(text),
    manifest: text,
    blobs,
    downloadBytes,
    layerCount: layers.length,
  };
}

/**
 * SECURITY: a registry may send more than its manifest says (threat: filling a disk), so nothing
 * beyond that is written. The digest is verified when the blob is unpacked. Guarded by
 * registry.test.ts.
 */
async function fetchBlob(
  registry: RegistryConnection,
  { digest, sizeBytes }: Descriptor,
  directory: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const response = await registry.open(`blobs/${digest}`);
  const limited = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > sizeBytes) throw wrongSize();
      onBytes(chunk.length);
      yield chunk;
    }
    if (bytes < sizeBytes) throw wrongSize();
  };
  const path = join(directory, digest.slice("sha256:".length));
  try {
    await pipeline(response, limited, createWriteStream(path, { mode: 0o600, flags: "wx" }));
  } catch (error) {
    if (error instanceof RegistryFailure || isFullDisk(error)) throw error;
    throw new RegistryFailure("unreachable", `the blob ${digest} broke off`, { cause: error });
  }
}

function wrongSize(): RegistryFailure {
  return new RegistryFailure("unexpected", "a blob's size differs from its manifest");
}

function isAborted(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause.name === "AbortError") return true;
  return false;
}
