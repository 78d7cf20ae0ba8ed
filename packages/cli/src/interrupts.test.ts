import { describe, expect, it, vi } from "vitest";
import type { Interruption } from "./failure.ts";
import { Interrupts } from "./interrupts.ts";

const CTRL_C = { kind: "signal", signal: "SIGINT" } as const;
const CLOSED = { kind: "closed-pipe" } as const;

describe("Interrupts", () => {
  it("aborts at the first interrupt and ends the process at the second", () => {
    const exitNow = vi.fn<(code: number) => void>();
    const interrupts = new Interrupts(exitNow);
    interrupts.interrupt(CTRL_C);
    expect(interrupts.signal.aborted).toBe(true);
    expect(interrupts.interruption).toEqual(CTRL_C);
    expect(exitNow).not.toHaveBeenCalled();
    interrupts.interrupt({ kind: "signal", signal: "SIGTERM" });
    expect(exitNow).toHaveBeenCalledExactlyOnceWith(143);
  });

  it("does not end the process because of closed output while it cleans up", () => {
    const exitNow = vi.fn<(code: number) => void>();
    const interrupts = new Interrupts(exitNow);
    interrupts.interrupt(CLOSED);
    interrupts.interrupt(CLOSED);
    expect(exitNow).not.toHaveBeenCalled();
  });

  it("passes interrupts to the command that asked for them, until it releases them", () => {
    const interrupts = new Interrupts(vi.fn<() => void>());
    const handler = vi.fn<(by: Interruption) => void>();
    {
      using _ = interrupts.divert(handler);
      interrupts.interrupt(CTRL_C);
    }
    expect(handler).toHaveBeenCalledExactlyOnceWith(CTRL_C);
    expect(interrupts.signal.aborted).toBe(false);
    interrupts.interrupt(CTRL_C);
    expect(interrupts.signal.aborted).toBe(true);
  });

  it("race() rejects at an interrupt and does not start after one", async () => {
    const interrupts = new Interrupts(vi.fn<() => void>());
    const racing = interrupts.race(() => new Promise(() => {}));
    interrupts.interrupt(CTRL_C);
    await expect(racing).rejects.toThrow(/SIGINT/);
    const work = vi.fn<() => Promise<void>>();
    await expect(interrupts.race(work)).rejects.toThrow(/SIGINT/);
    expect(work).not.toHaveBeenCalled();
  });
});
