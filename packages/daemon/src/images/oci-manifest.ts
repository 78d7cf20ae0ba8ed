/** Parses the JSON documents of an image: index, manifest, configuration. All of it is hostile. */
import { JsonShape } from "../json-shape.ts";
import { invalidImage } from "./image-failure.ts";

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly sizeBytes: number;
  readonly platform: { readonly os: string; readonly architecture: string } | undefined;
  readonly refName: string | undefined;
}

export interface ImageManifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

export interface ImageConfig {
  readonly env: Readonly<Record<string, string>>;
  /** Digests of the layers before compression. */
  readonly diffIds: readonly string[];
}

export const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024;
/** Of one document. An index may have 1000 entries. */
const MAX_DOCUMENT_VALUES = 30_000;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const LAYER_TYPE =
  /^application\/vnd\.(?:oci\.image\.layer\.(?:nondistributable\.)?v1\.tar|docker\.image\.rootfs\.(?:foreign\.)?diff\.tar)(?:[.+](?:gzip|zstd))?$/;
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_ENV_BYTES = 64 * 1024;

type Fields = Readonly<Record<string, unknown>>;

export function parseDocument(text: Buffer, what: string): Fields {
  return fields(parseJson(text, what), what);
}

/** The images of a `manifest.json` in the format of `docker save`. */
export function parseDockerSave(
  text: Buffer,
): { config: string; layers: string[]; repoTags: unknown[] }[] {
  return list(parseJson(text, "manifest"), "manifest").map((value) => {
    const { Config, Layers, RepoTags } = fields(value, "manifest") as Record<string, unknown>;
    const layers = list(Layers, "manifest").filter((layer) => typeof layer === "string");
    if (typeof Config !== "string")
      throw invalidImage("The image's manifest names no configuration.");
    return { config: Config, layers, repoTags: Array.isArray(RepoTags) ? RepoTags : [] };
  });
}

/**
 * SECURITY: a few megabytes of short values take seconds to parse, during which the daemon answers no
 * requests (threat: hostile archives and images). Guarded by image-stalls.test.ts.
 */
function parseJson(text: Buffer, what: string): unknown {
  if (text.length > MAX_DOCUMENT_BYTES)
    throw invalidImage(`The image's ${what} is larger than ${MAX_DOCUMENT_BYTES} bytes.`);
  new JsonShape({
    maxValues: MAX_DOCUMENT_VALUES,
    refused: (problem) => invalidImage(`The image's ${what} ${problem}.`),
  }).add(text);
  try {
    return JSON.parse(text.toString("utf8"));
  } catch (cause) {
    throw invalidImage(`The image's ${what} is not valid JSON.`, { cause });
  }
}

export function isIndex(document: Fields): boolean {
  return Array.isArray(document["manifests"]);
}

export function indexEntries(document: Fields): Descriptor[] {
  return list(document["manifests"], "index").map((entry) => descriptor(entry, "index"));
}

/** Picks the manifest for this machine; `refName` decides when an archive holds several images. */
export function chooseManifest(
  entries: readonly Descriptor[],
  architecture: string,
  refNames: readonly string[],
): Descriptor {
  const named = entries.filter(
    (entry) => entry.refName !== undefined && refNames.includes(entry.refName),
  );
  const candidates = (named.length > 0 ? named : entries).filter(
    ({ platform }) =>
      platform === undefined || (platform.os === "linux" && platform.architecture === architecture),
  );
  const distinct = new Map(candidates.map((entry) => [entry.digest, entry]));
  const [first, ...others] = distinct.values();
  if (first === undefined) {
    const offered = entries.map(({ platform }) =>
      platform ? `${platform.os}/${platform.architecture}` : "?",
    );
    throw invalidImage(
      `The image does not support linux/${architecture}; it offers: ${offered.slice(0, 20).join(", ") || "nothing"}.`,
    );
  }
  if (others.length > 0) {
    const names = [...distinct.values()].map((entry) => entry.refName ?? entry.digest);
    throw invalidImage(
      `The archive holds several images (${names.slice(0, 20).join(", ")}). Import it under the name of one of them.`,
    );
  }
  return first;
}

export function parseManifest(document: Fields): ImageManifest {
  if (document["config"] === undefined || document["layers"] === undefined) {
    throw invalidImage(
      "The image's manifest is of an unsupported kind (no configuration or no layers).",
    );
  }
  const layers = list(document["layers"], "manifest").map((entry) => descriptor(entry, "manifest"));
  for (const layer of layers) {
    if (!LAYER_TYPE.test(layer.mediaType)) {
      throw invalidImage(
        `The image has a layer that is not a file system archive (${layer.mediaType.slice(0, 100)}).`,
      );
    }
  }
  return { config: descriptor(document["config"], "manifest"), layers };
}

export function parseConfig(document: Fields, architecture: string): ImageConfig {
  const os = document["os"];
  const arch = document["architecture"];
  if (
    (os !== undefined && os !== "linux") ||
    (arch !== undefined && arch !== "" && arch !== architecture)
  ) {
    throw invalidImage(
      `The image is built for ${String(os)}/${String(arch)}, but this machine is linux/${architecture}.`,
    );
  }
  const inner =
    document["config"] === undefined || document["config"] === null
      ? {}
      : fields(document["config"], "configuration");
  const rootfs =
    document["rootfs"] === undefined ? {} : fields(document["rootfs"], "configuration");
  return {
    env: parseEnv(inner["Env"]),
    diffIds: list(rootfs["diff_ids"] ?? [], "configuration").map(digestText),
  };
}

/** Invalid variables are left out: they could not be set anyway. */
function parseEnv(value: unknown): Record<string, string> {
  const env: Record<string, string> = {};
  let bytes = 0;
  for (const item of Array.isArray(value) ? (value as unknown[]) : []) {
    if (typeof item !== "string" || item.includes("\0")) continue;
    const equals = item.indexOf("=");
    const name = item.slice(0, Math.max(equals, 0));
    bytes += Buffer.byteLength(item);
    if (bytes > MAX_ENV_BYTES)
      throw invalidImage(`The image's environment is larger than ${MAX_ENV_BYTES} bytes.`);
    if (ENV_NAME.test(name) && name !== "__proto__") env[name] = item.slice(equals + 1);
  }
  return env;
}

function descriptor(value: unknown, where: string): Descriptor {
  const entry = fields(value, where);
  const { mediaType, size, platform, annotations } = entry as Record<string, unknown>;
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) {
    throw invalidImage(`The image's ${where} has an entry without a size.`);
  }
  const place = platform === undefined ? undefined : fields(platform, where);
  const notes = annotations === undefined || annotations === null ? {} : fields(annotations, where);
  const refName = notes["org.opencontainers.image.ref.name"];
  return {
    mediaType: typeof mediaType === "string" ? mediaType : "",
    digest: digestText(entry["digest"]),
    sizeBytes: size,
    platform:
      place === undefined
        ? undefined
        : { os: String(place["os"]), architecture: String(place["architecture"]) },
    refName: typeof refName === "string" ? refName : undefined,
  };
}

/**
 * SECURITY: a digest becomes a file name, so its format is checked first (threat: hostile archives
 * and images). Guarded by oci-archive.test.ts.
 */
function digestText(value: unknown): string {
  if (typeof value !== "string" || !DIGEST.test(value)) {
    throw invalidImage(
      `The image refers to content by ${JSON.stringify(value)?.slice(0, 100)}, which is not a sha256 digest.`,
    );
  }
  return value;
}

function fields(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidImage(`The image's ${what} is malformed.`);
  }
  return value as Fields;
}

function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value) || value.length > 1000) {
    throw invalidImage(`The image's ${what} is malformed.`);
  }
  return value;
}
