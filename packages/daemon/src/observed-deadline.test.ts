import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ObservedDeadline } from "./observed-deadline.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Lets timers run as if the process could check all the time. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

describe("an observed deadline", () => {
  it("expires after its time, however long it is", async () => {
    vi.useFakeTimers();
    const expired = vi.fn<() => void>();
    using deadlines = new DisposableStack();
    deadlines.adopt(new ObservedDeadline(3_600_000, expired), (deadline) => deadline.stop());
    await pass(3_599_000);
    expect(expired).not.toHaveBeenCalled();
    await pass(1_001);
    expect(expired).toHaveBeenCalledOnce();
  });

  it("starts again when it is renewed", async () => {
    vi.useFakeTimers();
    const expired = vi.fn<() => void>();
    const deadline = new ObservedDeadline(2_500, expired);
    for (let renewals = 0; renewals < 3; renewals++) {
      await pass(2_400);
      deadline.renew();
    }
    await pass(2_400);
    expect(expired).not.toHaveBeenCalled();
    await pass(101);
    expect(expired).toHaveBeenCalledOnce();
  });

  it("never expires once it is stopped", async () => {
    vi.useFakeTimers();
    const expired = vi.fn<() => void>();
    new ObservedDeadline(500, expired).stop();
    await pass(10_000);
    expect(expired).not.toHaveBeenCalled();
  });

  it("counts a moment of a short absence, and then the rest of its time in full", async () => {
    vi.useFakeTimers();
    let absentMs = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + absentMs);
    const expired = vi.fn<() => void>();
    new ObservedDeadline(60_000, expired);
    await pass(10_000);
    absentMs = 40_000;
    await pass(47_000);
    expect(expired).not.toHaveBeenCalled();
    await pass(4_000);
    expect(expired).toHaveBeenCalledOnce();
  });

  it("does not count the time in which the process was stopped", async () => {
    const script = fileURLToPath(new URL("testing/deadline-process.ts", import.meta.url));
    const child = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"] });
    const exited = once(child, "exit");
    const said: string[] = [];
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => said.push(line));
    await once(lines, "line");
    child.kill("SIGSTOP");
    // Longer than the deadline of the process, and its tolerance for being late.
    await sleep(3_000);
    child.kill("SIGCONT");
    await sleep(100);
    child.stdin.on("error", () => undefined).write("an answer\n");
    await exited;
    expect(said).toEqual(["waiting", "answered"]);
  });
});
