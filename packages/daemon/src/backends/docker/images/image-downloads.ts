/** Has an engine fetch images from registries: each once for all who wait, with the operator's credentials. */
import { SandboxError } from "@sandkasten/protocol";
import { requireDigest } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";
import type { EnsureOptions, ImageProgress } from "../../../ports/image-store.ts";
import type { CredentialHelperOptions } from "./credential-helper.ts";
import { EngineWorkFailed } from "./engine-events.ts";
import type { EngineImages } from "./engine-images.ts";
import { pullFailure } from "./pull-failure.ts";
import { PullProgress } from "./pull-progress.ts";
import { findCredentials, secretsOf } from "./registry-credentials.ts";
import { SharedPulls } from "./shared-pulls.ts";

export interface ImageDownloadsOptions {
  readonly engine: EngineImages;
  readonly dockerConfigDir: string;
  readonly helpers: CredentialHelperOptions;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly requireDigests: boolean;
}

export class ImageDownloads {
  readonly #options: ImageDownloadsOptions;
  readonly #pulls = new SharedPulls<void>();

  constructor(options: ImageDownloadsOptions) {
    this.#options = options;
  }

  /** @param advice - What to do besides, when it fails. */
  async fetch(wanted: ImageReference, options: EnsureOptions, advice?: string): Promise<void> {
    if (this.#options.requireDigests) requireDigest(wanted);
    await this.#pulls.join(
      wanted.canonical,
      options,
      async (tell, signal) => await this.#pull(wanted, tell, signal, advice),
    );
  }

  async #pull(
    wanted: ImageReference,
    tell: (progress: ImageProgress) => void,
    gaveUp: AbortSignal,
    advice: string | undefined,
  ): Promise<void> {
    const { engine, dockerConfigDir, helpers, timeoutMs, maxBytes } = this.#options;
    const credentials = await findCredentials(dockerConfigDir, wanted.registry, helpers);
    const tooLate = AbortSignal.timeout(timeoutMs);
    const progress = new PullProgress(tell, maxBytes);
    try {
      await engine.pull(wanted, {
        credentials,
        signal: AbortSignal.any([gaveUp, tooLate]),
        onEvent: (event) => progress.take(event),
      });
    } catch (error) {
      if (tooLate.aborted)
        throw new SandboxError(
          "REGISTRY_UNREACHABLE",
          `${wanted.canonical} cannot be pulled: it took longer than ${timeoutMs / 1000} seconds. Try again; the engine goes on with the layer it was at.`,
        );
      if (!(error instanceof EngineWorkFailed)) throw error;
      throw pullFailure({
        reference: wanted,
        message: error.message,
        secrets: secretsOf(credentials),
        ...(advice !== undefined && { advice }),
      });
    }
  }
}
