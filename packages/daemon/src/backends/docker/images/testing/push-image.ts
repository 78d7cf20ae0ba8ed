/** Pushes an image to a registry without external tools. */
import { gzipSync } from "node:zlib";
import { machineArchitecture } from "../../../../images/image-plan.ts";
import { sha256 } from "../../../../images/testing/oci-writer.ts";

const CONFIG_TYPE = "application/vnd.docker.container.image.v1+json";
const LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar.gzip";
const MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json";

export interface PushOptions {
  /** `name:password`. */
  readonly user?: string;
  readonly env?: readonly string[];
}

/**
 * @param name - `repository:tag`.
 * @param layers - Tar archives, lowest first.
 * @returns The digests under which the registry and an engine know it.
 */
export async function pushImage(
  registry: string,
  name: string,
  layers: readonly Buffer[],
  { user, env = [] }: PushOptions = {},
): Promise<{ readonly digest: string; readonly id: string }> {
  const [repository, tag] = name.split(":");
  const base = `http://${registry}/v2/${repository}`;
  const send = async (method: string, url: string, type = "", body?: Buffer): Promise<Response> => {
    const response = await fetch(url, {
      method,
      headers: {
        ...(type !== "" && { "content-type": type }),
        ...(user !== undefined && {
          authorization: `Basic ${Buffer.from(user).toString("base64")}`,
        }),
      },
      ...(body !== undefined && { body: new Uint8Array(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${url}: ${response.status}`);
    return response;
  };
  const put = async (mediaType: string, content: Buffer): Promise<object> => {
    const { headers } = await send("POST", `${base}/blobs/uploads/`);
    const upload = new URL(headers.get("location") ?? "", base);
    upload.searchParams.set("digest", sha256(content));
    await send("PUT", upload.href, "application/octet-stream", content);
    return { mediaType, digest: sha256(content), size: content.length };
  };
  const config = Buffer.from(
    JSON.stringify({
      architecture: machineArchitecture(),
      os: "linux",
      config: { Env: env },
      rootfs: { type: "layers", diff_ids: layers.map(sha256) },
    }),
  );
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST_TYPE,
      config: await put(CONFIG_TYPE, config),
      layers: await Promise.all(
        layers.map(async (layer) => await put(LAYER_TYPE, gzipSync(layer, { level: 1 }))),
      ),
    }),
  );
  await send("PUT", `${base}/manifests/${tag}`, MANIFEST_TYPE, manifest);
  return { digest: sha256(manifest), id: sha256(config) };
}
