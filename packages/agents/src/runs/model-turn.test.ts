/** One turn of models that ignore everything: the signal, the limits, the end. */
import type { GenerateResponseData } from "genkit/model";
import { expect, test } from "vitest";
import type { Model } from "../models/model-registry.ts";
import { takeTurn } from "./model-turn.ts";
import type { TurnOptions } from "./model-turn.ts";

const NOTHING: GenerateResponseData = { message: { role: "model", content: [] } };

function model(ask: Model["ask"]): Model {
  return { name: "test/model", isSilentInCalls: false, ask };
}

function turn(asked: Model, options: Partial<TurnOptions> = {}): Promise<GenerateResponseData> {
  return takeTurn({
    model: asked,
    request: { messages: [] },
    signal: new AbortController().signal,
    idleTimeoutMs: 10_000,
    maxTextBytes: 1_000,
    retry: { maxRetries: 2, firstDelayMs: 1, maxDelayMs: 2, maxRetryAfterMs: 1_000 },
    onText: () => undefined,
    onRetry: () => undefined,
    ...options,
  });
}

test("a model without its own limit that ignores the signal is stopped", async () => {
  const texts: string[] = [];
  let isOver = false;
  const flood = model(async (_, { onChunk }) => {
    while (!isOver) {
      onChunk({ content: [{ text: "x".repeat(100) }] });
      await new Promise((resolve) => setImmediate(resolve));
    }
    return NOTHING;
  });
  await expect(turn(flood, { onText: (text) => texts.push(text) })).rejects.toMatchObject({
    code: "OUTPUT_LIMIT_EXCEEDED",
    message: /more than 1000 bytes of text/,
  });
  isOver = true;
  expect(texts).toHaveLength(10);
});

test("a model that never responds and ignores the signal is abandoned when the run is", async () => {
  const stop = new AbortController();
  const waiting = turn(
    model(() => new Promise(() => undefined)),
    { signal: stop.signal },
  );
  stop.abort(new Error("cancelled"));
  await expect(waiting).rejects.toThrow("cancelled");
});

test("a model that keeps sending can take any time", async () => {
  const slow = model(async (_, { onChunk }) => {
    for (let count = 0; count < 10; count++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      onChunk({ content: [] });
    }
    return NOTHING;
  });
  expect(await turn(slow, { idleTimeoutMs: 700 })).toBe(NOTHING);
});

test("pauses between attempts increase, and are never shorter than half", async () => {
  const delays: number[] = [];
  const broken = model(() => Promise.reject(new Error("fetch failed")));
  const retry = { maxRetries: 5, firstDelayMs: 8, maxDelayMs: 32, maxRetryAfterMs: 1_000 };
  await expect(
    turn(broken, { retry, onRetry: ({ delayMs }) => delays.push(delayMs) }),
  ).rejects.toMatchObject({ code: "MODEL_UNAVAILABLE", retryable: true });
  expect(delays).toHaveLength(5);
  for (const [index, longest] of [8, 16, 32, 32, 32].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(longest / 2);
    expect(delays[index]).toBeLessThanOrEqual(longest);
  }
});
