/** Writes OCI archives and docker-save archives by hand. */
import { createHash } from "node:crypto";
import { machineArchitecture } from "../image-plan.ts";
import { directory, file, symlink, tarOf } from "./tar-writer.ts";
import type { TarItem } from "./tar-writer.ts";

export interface LayerContent {
  readonly bytes: Buffer;
  readonly mediaType?: string;
}

export interface OciOptions {
  readonly env?: readonly string[];
  readonly architecture?: string;
  /** Digests of the layers before compression; computed from the layers when absent. */
  readonly diffIds?: readonly string[];
  /** Changes the manifest before it is written. */
  readonly editManifest?: (manifest: Record<string, unknown>) => void;
  /** Replaces the content of blobs after their digests were computed. */
  readonly editBlobs?: (blobs: Map<string, Buffer>) => void;
  /** Wraps the manifest in a multi-platform index. */
  readonly nestedIndex?: boolean;
  readonly extraItems?: readonly TarItem[];
}

export function sha256(content: Buffer | string): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/** Layers lowest first. Returns the archive, and the digest of its manifest. */
export function ociArchive(
  layers: readonly LayerContent[],
  options: OciOptions = {},
): { readonly archive: Buffer; readonly digest: string; readonly sourceDigest: string } {
  const blobs = new Map<string, Buffer>();
  const put = (content: Buffer, mediaType: string): Record<string, unknown> => {
    blobs.set(sha256(content), content);
    return { mediaType, digest: sha256(content), size: content.length };
  };
  const config = {
    architecture: options.architecture ?? machineArchitecture(),
    os: "linux",
    config: { Env: options.env ?? [] },
    rootfs: {
      type: "layers",
      diff_ids: options.diffIds ?? layers.map((layer) => sha256(layer.bytes)),
    },
  };
  const manifest: Record<string, unknown> = {
    schemaVersion: 2,
    config: put(Buffer.from(JSON.stringify(config)), "application/vnd.oci.image.config.v1+json"),
    layers: layers.map((layer) =>
      put(layer.bytes, layer.mediaType ?? "application/vnd.oci.image.layer.v1.tar"),
    ),
  };
  options.editManifest?.(manifest);
  const manifestType = "application/vnd.oci.image.manifest.v1+json";
  const described = put(Buffer.from(JSON.stringify(manifest)), manifestType);
  let top = described;
  if (options.nestedIndex === true) {
    const other = put(Buffer.from("{}"), manifestType);
    const platform = { os: "linux", architecture: machineArchitecture() };
    const manifests = [
      { ...other, platform: { os: "linux", architecture: "mips" } },
      { ...described, platform },
    ];
    top = put(
      Buffer.from(JSON.stringify({ schemaVersion: 2, manifests })),
      "application/vnd.oci.image.index.v1+json",
    );
  }
  options.editBlobs?.(blobs);
  const archive = tarOf([
    file("oci-layout", JSON.stringify({ imageLayoutVersion: "1.0.0" })),
    file("index.json", JSON.stringify({ schemaVersion: 2, manifests: [top] })),
    directory("blobs/sha256"),
    ...[...blobs].map(([digest, content]) => file(`blobs/${digest.replace(":", "/")}`, content)),
    ...(options.extraItems ?? []),
  ]);
  return { archive, digest: String(described["digest"]), sourceDigest: String(top["digest"]) };
}

/** The format of older Docker versions: a repeated layer is a link to the first. */
export function dockerSaveArchive(layers: readonly Buffer[], repoTags: readonly string[]): Buffer {
  const diffIds = layers.map(sha256);
  const config = JSON.stringify({
    architecture: machineArchitecture(),
    os: "linux",
    config: { Env: ["FROM=docker-save"] },
    rootfs: { type: "layers", diff_ids: diffIds },
  });
  const configName = `${sha256(config).slice(7)}.json`;
  const items: TarItem[] = layers.map((bytes, index) => {
    const first = diffIds.indexOf(diffIds[index] ?? "");
    return first === index
      ? file(`l${index}/layer.tar`, bytes)
      : symlink(`l${index}/layer.tar`, `../l${first}/layer.tar`);
  });
  const manifest = [
    {
      Config: configName,
      RepoTags: repoTags,
      Layers: layers.map((_, index) => `l${index}/layer.tar`),
    },
  ];
  return tarOf([
    ...items,
    file(configName, config),
    file("manifest.json", JSON.stringify(manifest)),
  ]);
}
