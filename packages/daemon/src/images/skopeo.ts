/** Fetches images from registries with skopeo, which also knows the operator's credentials and signature policy. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { digestOfBytes } from "./image-blobs.ts";
import { invalidImage, systemCode } from "./image-failure.ts";
import { machineArchitecture } from "./image-plan.ts";
import {
  chooseManifest,
  indexEntries,
  isIndex,
  MAX_DOCUMENT_BYTES,
  parseDocument,
  parseManifest,
} from "./oci-manifest.ts";
import type { ImageReference } from "./reference.ts";
import { runTool } from "./tool.ts";
import type { ToolResult } from "./tool.ts";

export interface SkopeoOptions {
  readonly program: string;
  /** All it gets to see of an environment: PATH, HOME, proxies, where credentials are. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Registries (`host:port`) that are spoken to without TLS. */
  readonly insecureRegistries: readonly string[];
}

/** What a name leads to in a registry, before anything is downloaded. */
export interface RemoteImage {
  readonly digest: string;
  readonly sourceDigest: string;
  readonly downloadBytes: number;
  readonly layerCount: number;
}

const INSPECT_TIMEOUT_MS = 60_000;
const WATCH_INTERVAL_MS = 100;

export class Skopeo {
  readonly #options: SkopeoOptions;

  constructor(options: SkopeoOptions) {
    this.#options = options;
  }

  /** Follows a name to the manifest for this machine. */
  async locate(reference: ImageReference): Promise<RemoteImage> {
    const text = await this.#manifest(reference, reference.digest);
    const sourceDigest = digestOfBytes(text);
    const document = parseDocument(text, "manifest");
    if (!isIndex(document)) return { ...this.#summary(text), sourceDigest };
    const chosen = chooseManifest(indexEntries(document), machineArchitecture(), []);
    return { ...this.#summary(await this.#manifest(reference, chosen.digest)), sourceDigest };
  }

  /**
   * Downloads a manifest and its blobs into a directory.
   *
   * SECURITY: what arrives is counted while it arrives, because a registry may send more than
   * the manifest says (threat 20). Guarded by registry.test.ts.
   */
  async download(
    reference: ImageReference,
    digest: string,
    directory: string,
    options: { readonly maxBytes: number; readonly onBytes: (bytes: number) => void },
  ): Promise<void> {
    const tooLarge = new AbortController();
    const watch = setInterval(() => {
      directoryBytes(directory).then(
        (bytes) => {
          options.onBytes(bytes);
          if (bytes > options.maxBytes) tooLarge.abort();
        },
        // A file that vanished between listing and looking: the next look will tell.
        () => undefined,
      );
    }, WATCH_INTERVAL_MS);
    try {
      const result = await this.#run(
        [
          "copy",
          "--quiet",
          ...this.#tlsFlag("--src-tls-verify", reference),
          this.#address(reference, digest),
          `dir:${directory}`,
        ],
        { timeoutMs: this.#options.timeoutMs, signal: tooLarge.signal },
      );
      const bytes = await directoryBytes(directory);
      if (tooLarge.signal.aborted || bytes > options.maxBytes) {
        throw invalidImage(
          `The download of ${reference.canonical} is larger than ${options.maxBytes} bytes, which is the limit.`,
        );
      }
      if (result.exitCode !== 0) throw this.#failure(reference, result);
      options.onBytes(bytes);
    } finally {
      clearInterval(watch);
    }
  }

  #summary(text: Buffer): Omit<RemoteImage, "sourceDigest"> {
    const { config, layers } = parseManifest(parseDocument(text, "manifest"));
    const downloadBytes = layers.reduce((sum, layer) => sum + layer.sizeBytes, config.sizeBytes);
    return { digest: digestOfBytes(text), downloadBytes, layerCount: layers.length };
  }

  async #manifest(reference: ImageReference, digest: string | undefined): Promise<Buffer> {
    const result = await this.#run(
      [
        "inspect",
        "--raw",
        ...this.#tlsFlag("--tls-verify", reference),
        this.#address(reference, digest),
      ],
      { timeoutMs: INSPECT_TIMEOUT_MS, maxStdoutBytes: MAX_DOCUMENT_BYTES },
    );
    if (result.exitCode !== 0) throw this.#failure(reference, result);
    if (digest !== undefined && digestOfBytes(result.stdout) !== digest) {
      throw invalidImage(
        `The registry gave something else than ${digest} for ${reference.canonical}.`,
      );
    }
    return result.stdout;
  }

  /** SECURITY: the reference has been parsed, so it cannot be read as an option or another transport (threat 37). */
  #address(reference: ImageReference, digest: string | undefined): string {
    return `docker://${reference.repository}${digest === undefined ? `:${reference.tag}` : `@${digest}`}`;
  }

  #tlsFlag(flag: string, { registry }: ImageReference): string[] {
    return registry !== undefined && this.#options.insecureRegistries.includes(registry)
      ? [`${flag}=false`]
      : [];
  }

  async #run(
    args: readonly string[],
    options: { timeoutMs: number; maxStdoutBytes?: number; signal?: AbortSignal },
  ): Promise<ToolResult> {
    try {
      return await runTool(this.#options.program, args, { env: this.#options.env, ...options });
    } catch (cause) {
      if (systemCode(cause) !== "ENOENT" && systemCode(cause) !== "EACCES") throw cause;
      throw new SandboxError(
        "UNSUPPORTED",
        `Images can only be pulled with skopeo, and ${this.#options.program} does not run. Install the package skopeo, or import an archive.`,
        { cause },
      );
    }
  }

  #failure(reference: ImageReference, result: ToolResult): SandboxError {
    if (result.stderr.includes("no space left on device")) {
      return new SandboxError(
        "STORAGE_FULL",
        `The disk of the image store is full (pulling ${reference.canonical}).`,
      );
    }
    const reason = result.ended === "timeout" ? "it took too long" : lastMessage(result.stderr);
    return invalidImage(
      `${reference.canonical} cannot be pulled: ${reason}. Check the name, the registry and its credentials.`,
    );
  }
}

/** The message of skopeo's last log line, without its frame. */
function lastMessage(stderr: string): string {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  const message = /msg="((?:[^"\\]|\\.)*)"/.exec(line)?.[1] ?? line;
  return message.replaceAll('\\"', '"').slice(0, 500) || "skopeo failed without a word";
}

async function directoryBytes(directory: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(directory)) bytes += (await stat(join(directory, name))).size;
  return bytes;
}
