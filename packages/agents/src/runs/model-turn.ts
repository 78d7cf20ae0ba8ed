/** Requests one turn of a model: with a limit on silence, and with retries where they may help. */
import type { GenerateRequest, GenerateResponseData } from "genkit/model";
import { tooLong } from "../models/chat-answer.ts";
import { ModelFailure, toModelFailure } from "../models/model-failure.ts";
import type { Model } from "../models/model-registry.ts";
import { AgentRunError } from "./agent-executor.ts";

export interface RetryPolicy {
  readonly maxRetries: number;
  /** The longest first pause; each further pause may be twice as long. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** If a provider requests a longer pause, the request is not retried. */
  readonly maxRetryAfterMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = {
  maxRetries: 4,
  firstDelayMs: 1_000,
  maxDelayMs: 20_000,
  maxRetryAfterMs: 60_000,
};

/** A long file takes a model minutes to write, and some providers are silent meanwhile. */
const SILENT_FACTOR = 3;

export interface TurnOptions {
  readonly model: Model;
  readonly request: GenerateRequest;
  readonly signal: AbortSignal;
  /** How long the model may send nothing. */
  readonly idleTimeoutMs: number;
  readonly maxTextBytes: number;
  readonly retry: RetryPolicy;
  readonly onText: (text: string) => void;
  /** Discards what was streamed of the turn so far. */
  readonly onRetry: (retry: { attempt: number; delayMs: number; reason: string }) => void;
}

/** Throws AgentRunError, or the signal's reason. */
export async function takeTurn(options: TurnOptions): Promise<GenerateResponseData> {
  const { model, retry, signal } = options;
  for (let failures = 0; ; failures++) {
    signal.throwIfAborted();
    try {
      return await attempt(options);
    } catch (error) {
      signal.throwIfAborted();
      const failure = toModelFailure(error);
      const delayMs = delayFor(failures, retry, failure.retryAfterMs);
      const isLate = (failure.retryAfterMs ?? 0) > retry.maxRetryAfterMs;
      if (!failure.retryable || isLate || failures >= retry.maxRetries)
        throw ended(model.name, failure, failures);
      options.onRetry({ attempt: failures + 1, delayMs, reason: failure.message });
      await pause(delayMs, signal);
    }
  }
}

/** Exponential backoff with jitter, and never sooner than the provider requested. */
function delayFor(
  failures: number,
  { firstDelayMs, maxDelayMs }: RetryPolicy,
  retryAfterMs = 0,
): number {
  const longestMs = Math.min(maxDelayMs, firstDelayMs * 2 ** failures);
  return Math.round(Math.max(retryAfterMs, longestMs * (0.5 + Math.random() / 2)));
}

function ended(name: string, failure: ModelFailure, failures: number): AgentRunError {
  if (failure.isTooLong)
    return new AgentRunError("OUTPUT_LIMIT_EXCEEDED", failure.message, { cause: failure });
  const tries = failures === 0 ? "" : ` after ${failures + 1} attempts`;
  return new AgentRunError(
    failure.retryable ? "MODEL_UNAVAILABLE" : "MODEL_FAILED",
    `The model ${name} did not answer${tries}: ${failure.message}`,
    { cause: failure },
  );
}

async function attempt(options: TurnOptions): Promise<GenerateResponseData> {
  const { model, request, signal, maxTextBytes, onText } = options;
  const idleTimeoutMs = options.idleTimeoutMs * (model.isSilentInCalls ? SILENT_FACTOR : 1);
  const stop = new AbortController();
  const silence = (): void =>
    stop.abort(
      new ModelFailure(`The model sent nothing for ${idleTimeoutMs / 1000} seconds.`, {
        retryable: true,
      }),
    );
  let timer = setTimeout(silence, idleTimeoutMs);
  const forward = (): void => stop.abort(signal.reason);
  signal.addEventListener("abort", forward, { once: true });
  let textBytes = 0;
  const stopped = rejectionOf(stop.signal);
  try {
    const answering = model.ask(request, {
      signal: stop.signal,
      onChunk: ({ content }) => {
        if (stop.signal.aborted) return;
        clearTimeout(timer);
        timer = setTimeout(silence, idleTimeoutMs);
        const text = content.map((part) => part.text ?? "").join("");
        textBytes += text.length;
        // SECURITY: also for models that set no limit themselves. Guarded by model-turn.test.ts.
        if (textBytes > maxTextBytes)
          stop.abort(tooLong(`more than ${maxTextBytes} bytes of text`));
        else if (text !== "") onText(text);
      },
    });
    // Not every plugin respects the signal.
    return await Promise.race([answering, stopped]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", forward);
  }
}

async function rejectionOf(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  // The caller may no longer be waiting when it arrives.
  promise.catch(() => undefined);
  return await promise;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const wake = (): void => resolve();
  signal.addEventListener("abort", wake, { once: true });
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", wake);
  signal.throwIfAborted();
}
