/** The images that sandboxes are created from. */
import type { ImageBody, ImageProgressBody } from "@sandkasten/protocol";
import type { CallOptions } from "./call-options.ts";
import { readJsonEvents } from "./event-stream.ts";
import { readJson } from "./response-body.ts";
import type { FileSource } from "./file-types.ts";
import {
  type CollectedImages,
  type ImageInfo,
  type ImageProgress,
  toImageInfo,
  toImageProgress,
} from "./image-types.ts";
import { SandboxError } from "./sandbox-error.ts";
import { camelOptions, type WithSnakeNames, withSnakeNames } from "./snake-names.ts";
import type { Call, Transport } from "./transport.ts";
import type { CollectedBody, ImageListBody } from "./wire-bodies.ts";

/** Which backend's images. */
export interface ImageOptions extends CallOptions {
  /** A backend of the daemon. The default backend if absent. */
  readonly backend?: string | undefined;
}

interface ProgressOptionFields extends ImageOptions {
  /** Called from time to time during the transfer. */
  readonly onProgress?: ((progress: ImageProgress) => void) | undefined;
}

/** Options for progress reports. */
export type ProgressOptions = WithSnakeNames<ProgressOptionFields>;

/** What is imported. */
export interface ImportImageOptions extends ProgressOptions {
  /** A tar of a file system (the default) or an OCI archive. */
  readonly format?: "rootfs" | "oci-archive" | undefined;
}

/** The images of the daemon. */
export class Images {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** All local images. */
  async list(options: ImageOptions = {}): Promise<readonly ImageInfo[]> {
    const { images } = await this.#transport.json<ImageListBody>({
      method: "GET",
      path: "/v1/images",
      query: { backend: options.backend },
      signal: options.signal,
    });
    return images.map(toImageInfo);
  }

  /** Pulls an image from its registry. */
  pull(reference: string, options: ProgressOptions = {}): Promise<ImageInfo> {
    const json = { reference, backend: options.backend };
    return this.#obtain({ method: "POST", path: "/v1/images/pull", json }, options);
  }

  /** Imports an image from an archive. */
  import(
    reference: string,
    archive: FileSource,
    options: ImportImageOptions = {},
  ): Promise<ImageInfo> {
    const { format, backend } = options;
    const query = { reference, format, backend };
    return this.#obtain(
      { method: "POST", path: "/v1/images/import", query, body: archive },
      options,
    );
  }

  /** Deletes an image. */
  async remove(reference: string, options: ImageOptions = {}): Promise<void> {
    await this.#transport.json({
      method: "DELETE",
      path: "/v1/images",
      query: { reference, backend: options.backend },
      doneWhenRepeated: "INVALID_IMAGE",
      signal: options.signal,
    });
  }

  /** Deletes unused image data. */
  async collectGarbage(options: ImageOptions = {}): Promise<CollectedImages> {
    const body = await this.#transport.json<CollectedBody>({
      method: "POST",
      path: "/v1/images/gc",
      query: { backend: options.backend },
      waits: true,
      signal: options.signal,
    });
    return withSnakeNames({ removed: body.removed, freedBytes: body.freed_bytes });
  }

  /** The daemon reports progress if it can, otherwise only the end. */
  async #obtain(call: Call, options: ProgressOptions): Promise<ImageInfo> {
    const { onProgress, signal } = camelOptions(options);
    const what = `${call.method} ${call.path}`;
    const headers = { accept: "text/event-stream, application/json;q=0.9" };
    const response = await this.#transport.open({ ...call, headers, waits: true, signal });
    if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true) {
      return toImageInfo(await readJson<ImageBody>(response, { what, signal }));
    }
    for await (const { type, data } of readJsonEvents(response, { what, signal })) {
      if (type === "progress") onProgress?.(toImageProgress(data as ImageProgressBody));
      if (type === "done") return toImageInfo(data as ImageBody);
    }
    throw new SandboxError("CONNECTION_FAILED", `${what}: the connection ended.`);
  }
}
