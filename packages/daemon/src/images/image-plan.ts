/** Determines the layers of an image from the files of an archive or a download. */
import { join } from "node:path";
import { checkDigest, digestOfBytes, readDocument } from "./image-blobs.ts";
import { invalidImage } from "./image-failure.ts";
import { cleanImagePath } from "./image-path.ts";
import type { ImageTree } from "./image-tree.ts";
import {
  chooseManifest,
  indexEntries,
  isIndex,
  parseConfig,
  parseDockerSave,
  parseDocument,
  parseManifest,
} from "./oci-manifest.ts";
import type { ImageReference } from "./reference.ts";
import type { UnpackLimits } from "./unpack-budget.ts";

export interface LayerFile {
  readonly path: string;
  readonly digest: string;
}

export interface ImagePlan {
  readonly digest: string;
  /** Of the index that the manifest was chosen from; otherwise the same as `digest`. */
  readonly sourceDigest: string;
  readonly env: Readonly<Record<string, string>>;
  /** The configuration document, with a verified digest. */
  readonly config: Buffer;
  /** Lowest layer first. */
  readonly layers: readonly LayerFile[];
}

/** The Go name of this machine's architecture, as used in images. */
export function machineArchitecture(arch: string = process.arch): string {
  return arch === "x64" ? "amd64" : arch;
}

const MAX_NESTED_INDEXES = 4;

/** Reads an archive of either format that was unpacked into `directory`, which `tree` represents. */
export async function planArchive(
  directory: string,
  tree: ImageTree,
  reference: ImageReference,
  limits: UnpackLimits,
): Promise<ImagePlan> {
  if (tree.kind("index.json") === "file") return await planOciLayout(directory, reference);
  if (tree.kind("manifest.json") === "file") {
    return await planDockerSave(directory, tree, reference, limits);
  }
  throw invalidImage(
    "The archive has neither index.json nor manifest.json. If it is a root filesystem, import it as one.",
  );
}

/** Reads an OCI layout (`index.json`, `blobs/`) that was unpacked into `directory`. */
async function planOciLayout(directory: string, reference: ImageReference): Promise<ImagePlan> {
  const architecture = machineArchitecture();
  const blob = (digest: string): string => join(directory, "blobs", digest.replace(":", "/"));
  const refNames = [reference.canonical, ...(reference.tag === undefined ? [] : [reference.tag])];
  let document = parseDocument(await readDocument(join(directory, "index.json"), "index"), "index");
  let chosen = chooseManifest(indexEntries(document), architecture, refNames);
  const sourceDigest = chosen.digest;
  for (let nested = 0; ; nested += 1) {
    document = parseDocument(
      await readDocument(blob(chosen.digest), "manifest", chosen.digest),
      "manifest",
    );
    if (!isIndex(document)) break;
    if (nested === MAX_NESTED_INDEXES)
      throw invalidImage("The image's indexes are nested too deeply.");
    chosen = chooseManifest(indexEntries(document), architecture, []);
  }
  const manifest = parseManifest(document);
  const configText = await readDocument(
    blob(manifest.config.digest),
    "configuration",
    manifest.config.digest,
  );
  const config = parseConfig(parseDocument(configText, "configuration"), architecture);
  return {
    digest: chosen.digest,
    sourceDigest,
    env: config.env,
    config: configText,
    layers: manifest.layers.map(({ digest }) => ({ path: blob(digest), digest })),
  };
}

/** Reads a download: the manifest as the registry sent it, and blobs named by digest. */
export async function planDownload(
  directory: string,
  digest: string,
): Promise<Omit<ImagePlan, "sourceDigest">> {
  const text = await readDocument(join(directory, "manifest.json"), "manifest", digest);
  const manifest = parseManifest(parseDocument(text, "manifest"));
  const blob = (blobDigest: string): string => join(directory, blobDigest.slice("sha256:".length));
  const configText = await readDocument(
    blob(manifest.config.digest),
    "configuration",
    manifest.config.digest,
  );
  const config = parseConfig(parseDocument(configText, "configuration"), machineArchitecture());
  const layers = manifest.layers.map((layer) => ({
    path: blob(layer.digest),
    digest: layer.digest,
  }));
  return { digest, env: config.env, config: configText, layers };
}

/** Reads the older format of `docker save`: `manifest.json` naming a configuration and layer archives. */
async function planDockerSave(
  directory: string,
  tree: ImageTree,
  reference: ImageReference,
  limits: UnpackLimits,
): Promise<ImagePlan> {
  const all = parseDockerSave(await readDocument(join(directory, "manifest.json"), "manifest"));
  const named = all.filter((image) => image.repoTags.includes(reference.canonical));
  const [image, ...others] = named.length > 0 ? named : all;
  if (image === undefined) throw invalidImage("The archive holds no image.");
  if (others.length > 0)
    throw invalidImage(
      "The archive holds several images. Import it under the name of one of them.",
    );

  const configText = await readDocument(
    join(directory, cleanImagePath(image.config, limits)),
    "configuration",
  );
  const digest = digestOfBytes(configText);
  const config = parseConfig(parseDocument(configText, "configuration"), machineArchitecture());
  if (config.diffIds.length !== image.layers.length) {
    throw invalidImage(
      `The image has ${image.layers.length} layers, but its configuration lists ${config.diffIds.length}.`,
    );
  }
  const layers = image.layers.map((layer, index) => {
    const path = resolveRepeatedLayer(tree, cleanImagePath(layer, limits), limits);
    return { path: join(directory, path), digest: config.diffIds[index] ?? "" };
  });
  return { digest, sourceDigest: digest, env: config.env, config: configText, layers };
}

/** A layer that occurs twice is stored once; the second is a link `../<id>/layer.tar`. */
function resolveRepeatedLayer(tree: ImageTree, path: string, limits: UnpackLimits): string {
  const target = tree.readLink(path);
  if (target === undefined) return path;
  return cleanImagePath(target.replace(/^\.\.\//, ""), limits);
}

/** Rejects if a reference is pinned to a digest other than the one found. */
export function checkPin(
  reference: ImageReference,
  plan: { readonly digest: string; readonly sourceDigest: string },
): void {
  if (reference.digest === undefined || reference.digest === plan.sourceDigest) return;
  checkDigest("content", reference.digest, plan.digest);
}
