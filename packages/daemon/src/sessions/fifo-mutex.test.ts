import { describe, expect, it } from "vitest";
import { FifoMutex } from "./fifo-mutex.ts";

describe("FifoMutex", () => {
  it("lets one in at a time, in order", async () => {
    const line = new FifoMutex();
    const seen: string[] = [];
    const work = (name: string) =>
      line.run(async () => {
        seen.push(`${name} in`);
        await Promise.resolve();
        seen.push(`${name} out`);
      });
    await Promise.all([work("a"), work("b"), work("c")]);
    expect(seen).toEqual(["a in", "a out", "b in", "b out", "c in", "c out"]);
    expect(line.free).toBe(true);
  });

  it("skips a waiter that gave up and serves the next", async () => {
    const line = new FifoMutex();
    const leave = await line.enter();
    const given = new AbortController();
    const first = line.enter(given.signal);
    const second = line.enter();
    given.abort(new Error("no patience"));
    await expect(first).rejects.toThrow("no patience");
    leave();
    const leaveSecond = await second;
    expect(line.free).toBe(false);
    leaveSecond();
    leaveSecond();
    expect(line.free).toBe(true);
  });

  it("continues after work that failed", async () => {
    const line = new FifoMutex();
    await expect(line.run(() => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(await line.run(() => Promise.resolve("next"))).toBe("next");
  });
});
