/** Creates an OCI archive with one layer from a tar of a root file system. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { link, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { runTool } from "./run-tool.ts";

export interface Squashed {
  /** The tar of the root file system. */
  readonly rootfs: string;
  /** The `config` of an OCI image: variables and so on. */
  readonly config: unknown;
  /** An empty directory on the same file system. */
  readonly directory: string;
  /** The archive to write. */
  readonly archive: string;
  readonly signal: AbortSignal;
}

const TYPES = "application/vnd.oci.image";

export async function squashedArchive(squashed: Squashed): Promise<void> {
  const { rootfs, config, directory, archive, signal } = squashed;
  const blobs = join(directory, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const blob = async (type: string, content: unknown): Promise<Descriptor> => {
    const text = JSON.stringify(content);
    const digest = createHash("sha256").update(text).digest("hex");
    await writeFile(join(blobs, digest), text);
    return { mediaType: `${TYPES}.${type}`, digest: `sha256:${digest}`, size: text.length };
  };
  const hash = createHash("sha256");
  await pipeline(createReadStream(rootfs), hash, { signal });
  const digest = hash.digest("hex");
  await link(rootfs, join(blobs, digest));
  const { size } = await stat(rootfs);
  const layer = { mediaType: `${TYPES}.layer.v1.tar`, digest: `sha256:${digest}`, size };
  const described = await blob("config.v1+json", {
    architecture: process.arch === "x64" ? "amd64" : process.arch,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const manifest = await blob("manifest.v1+json", {
    schemaVersion: 2,
    mediaType: `${TYPES}.manifest.v1+json`,
    config: described,
    layers: [layer],
  });
  const index = { schemaVersion: 2, manifests: [manifest] };
  await writeFile(join(directory, "index.json"), JSON.stringify(index));
  await writeFile(join(directory, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  await runTool({
    program: "tar",
    args: [
      "--create",
      "--file",
      archive,
      "--directory",
      directory,
      "oci-layout",
      "index.json",
      "blobs",
    ],
    hint: "Install it with `apt-get install tar`.",
    onLine: () => undefined,
    signal,
  });
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}
