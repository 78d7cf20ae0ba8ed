import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { assemble } from "../assemble.ts";
import { processHost } from "../host.ts";
import { MemoryOutput } from "../testing/test-host.ts";
import { waiting } from "./waiting.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** What a step that takes a second shows on stderr. */
async function shown(columns?: number, tookMs = 1000): Promise<string> {
  const stderr = new MemoryOutput(columns);
  const { cli } = assemble({ ...processHost(), stdout: new MemoryOutput(), stderr });
  const step = waiting(cli, "Building tools", async (say) => {
    say("fetching \u001b[31mthings");
    await new Promise((resolve) => setTimeout(resolve, tookMs));
    return "done";
  });
  await vi.advanceTimersByTimeAsync(tookMs);
  expect(await step).toBe("done");
  return stderr.bytes.toString();
}

describe("waiting()", () => {
  it("shows a long step on a terminal, without control characters, and cleans up", async () => {
    const text = await shown(80);
    expect(text).toContain("… Building tools");
    expect(text).toContain("fetching \\x1b[31mthings");
    expect(text.endsWith("\r\u001b[2K")).toBe(true);
  });

  it("never writes more than one line", async () => {
    const lines = (await shown(20)).split("\r\u001b[2K");
    // eslint-disable-next-line no-control-regex
    for (const line of lines) expect(line.replaceAll(/\u001b\[\d+m/g, "").length).toBeLessThan(20);
  });

  it("is silent for short steps, and without a terminal", async () => {
    expect(await shown(80, 100)).toBe("");
    expect(await shown()).toBe("");
  });
});
