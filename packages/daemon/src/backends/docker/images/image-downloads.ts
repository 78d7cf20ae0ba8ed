/**
 * Lets an engine pull images from registries, shared by concurrent callers, with the operator's
 * credentials.
 */
import { SandboxError } from "@sandkasten/protocol";
import type { RegistryPolicy } from "../../../images/registry-policy.ts";
import type { Log } from "../../../ports/log.ts";
import { requireDigest } from "../../../images/reference.ts";
import type { ImageReference } from "../../../images/reference.ts";
import type { EnsureOptions, ImageProgress } from "../../../ports/image-store.ts";
import type { CredentialHelperOptions } from "../../../images/credential-helper.ts";
import { EngineWorkFailed } from "./engine-events.ts";
import type { EngineImages } from "./engine-images.ts";
import { pullFailure, withoutSecrets } from "./pull-failure.ts";
import { PullProgress } from "./pull-progress.ts";
import { findCredentials, secretsOf } from "../../../images/registry-credentials.ts";
import { SharedPulls } from "./shared-pulls.ts";

export interface ImageDownloadsOptions {
  readonly engine: EngineImages;
  /** Docker's `config.json`. */
  readonly credentialsFile: string;
  readonly registries: RegistryPolicy;
  readonly helpers: CredentialHelperOptions;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly requireDigests: boolean;
  readonly log?: Log;
}

export class ImageDownloads {
  readonly #options: ImageDownloadsOptions;
  readonly #pulls = new SharedPulls<void>();

  constructor(options: ImageDownloadsOptions) {
    this.#options = options;
  }

  /** @param advice - What else to do if it fails. */
  async fetch(wanted: ImageReference, options: EnsureOptions, advice?: string): Promise<void> {
    if (this.#options.requireDigests) requireDigest(wanted);
    this.#options.registries.requireAllowed(wanted);
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
    const { engine, credentialsFile, helpers, timeoutMs, maxBytes, log } = this.#options;
    const credentials = await findCredentials(credentialsFile, wanted.registry, helpers);
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
          `${wanted.canonical} cannot be pulled: it took longer than ${timeoutMs / 1000} seconds. Try again; the engine continues with the current layer.`,
        );
      if (!(error instanceof EngineWorkFailed)) throw error;
      const reason = withoutSecrets(error.message, secretsOf(credentials));
      log?.warn({ image: wanted.canonical, reason }, "the engine cannot pull an image");
      throw pullFailure(wanted, error.message, advice);
    }
  }
}
