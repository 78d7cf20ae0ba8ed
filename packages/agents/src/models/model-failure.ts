/** What a model's failure means: whether a retry can help, when, and what to tell people. */

export interface ModelFailureOptions {
  /** The same request may succeed later. */
  readonly retryable: boolean;
  /** The delay that the provider requested. */
  readonly retryAfterMs?: number | undefined;
  /** The model's answer exceeded the limits of a turn. */
  readonly isTooLong?: boolean | undefined;
  readonly cause?: unknown;
}

export class ModelFailure extends Error {
  override readonly name = "ModelFailure";
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly isTooLong: boolean;

  constructor(message: string, options: ModelFailureOptions) {
    super(message, { cause: options.cause });
    this.retryable = options.retryable;
    this.retryAfterMs = options.retryAfterMs;
    this.isTooLong = options.isTooLong ?? false;
  }
}

const MAX_MESSAGE_LENGTH = 500;
/** Genkit's names of transient errors. */
const PASSING_STATUSES: ReadonlySet<unknown> = new Set([
  "RESOURCE_EXHAUSTED",
  "UNAVAILABLE",
  "INTERNAL",
  "DEADLINE_EXCEEDED",
  "ABORTED",
]);

export function isPassingHttpStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 425 || status === 429 || status >= 500;
}

/**
 * Converts any error of a Genkit model, from any plugin, to a ModelFailure that can be shown.
 *
 * SECURITY: some servers repeat the key that they reject. It is removed before the text is
 * truncated, so that no part of it remains. Guarded by chat-completions.test.ts and
 * providers.test.ts.
 */
export function toModelFailure(
  error: unknown,
  keys: readonly (string | undefined)[] = [],
): ModelFailure {
  const text = error instanceof Error ? error.message : String(error);
  const message = shortened(
    keys.reduce<string>((shown, key) => (key ? shown.replaceAll(key, "***") : shown), text),
  );
  if (error instanceof ModelFailure)
    return message === text ? error : new ModelFailure(message, error);
  const { status, headers, responseMetadata } = (error ?? {}) as {
    readonly status?: unknown;
    readonly headers?: { readonly get?: (name: string) => string | null };
    readonly responseMetadata?: { readonly retryAfterMs?: number };
  };
  const retryAfterMs =
    responseMetadata?.retryAfterMs ?? parseRetryAfter(headers?.get?.("retry-after") ?? null);
  const retryable =
    typeof status === "number"
      ? isPassingHttpStatus(status)
      : PASSING_STATUSES.has(status) || isConnectionFailure(error);
  return new ModelFailure(message, { retryable, retryAfterMs, cause: error });
}

function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { readonly code?: unknown };
  if (typeof code === "string" && /^(?:E[A-Z]+|UND_ERR_.*)$/.test(code)) return true;
  // Genkit's Google plugins throw an error that only has this text.
  if (/fetch failed|terminated|socket|network|connection error/i.test(error.message)) return true;
  return isConnectionFailure(error.cause);
}

/** Seconds or a date, as milliseconds from now. */
export function parseRetryAfter(value: string | null, nowMs = Date.now()): number | undefined {
  const text = value?.trim() ?? "";
  if (text === "") return undefined;
  const ms = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > MAX_MESSAGE_LENGTH ? `${line.slice(0, MAX_MESSAGE_LENGTH)}…` : line;
}
