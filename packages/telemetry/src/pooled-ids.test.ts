import { expect, it } from "vitest";
import { PooledIds } from "./pooled-ids.ts";

it("ids have the right length, and none repeats", () => {
  const ids = new PooledIds();
  const taken = Array.from({ length: 2000 }, () => [ids.generateTraceId(), ids.generateSpanId()]);
  for (const [traceId, spanId] of taken) {
    expect(traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(spanId).toMatch(/^[0-9a-f]{16}$/);
  }
  expect(new Set(taken.flat()).size).toBe(4000);
});
