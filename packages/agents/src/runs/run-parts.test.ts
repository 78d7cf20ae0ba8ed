/** The small parts of a run: its clock, its slots, and its truncation of values. */
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { RunClock } from "./run-clock.ts";
import { shortenedText, shortenedTo } from "./shorten.ts";
import { Slots } from "./slots.ts";

describe("the clock of a run", () => {
  test("pauses while sandboxes work, even several of them", async () => {
    let isOver = false;
    const clock = new RunClock(60, () => (isOver = true));
    const work = [clock.paused(() => setTimeout(150)), clock.paused(() => setTimeout(100))];
    await Promise.all(work);
    expect(isOver).toBe(false);
    await setTimeout(200);
    expect(isOver).toBe(true);
  });

  test("continues after work that failed, and not after the end", async () => {
    let timeouts = 0;
    const clock = new RunClock(20, () => (timeouts += 1));
    await expect(clock.paused(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
    await setTimeout(60);
    expect(timeouts).toBe(1);
    const stopped = new RunClock(20, () => (timeouts += 1));
    stopped.stop();
    await stopped.paused(() => setTimeout(1));
    await setTimeout(60);
    expect(timeouts).toBe(1);
  });

  test("does not count time during which the process was suspended", async () => {
    let isOver = false;
    using _clock = new RunClock(500, () => (isOver = true), 50);
    // As after SIGSTOP, for longer than the run's timeout.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
    await setTimeout(50);
    expect(isOver).toBe(false);
    while (!isOver) await setTimeout(10);
  });
});

describe("slots", () => {
  const never = new AbortController().signal;

  test("run up to the limit at once, and the others in turn", async () => {
    const slots = new Slots(2, 10);
    let [atOnce, most] = [0, 0];
    const order: number[] = [];
    const work = async (index: number): Promise<void> => {
      most = Math.max(most, ++atOnce);
      order.push(index);
      await setTimeout(5);
      atOnce -= 1;
    };
    await Promise.all(Array.from({ length: 8 }, (_, index) => slots.use(() => work(index), never)));
    expect([most, order]).toEqual([2, [0, 1, 2, 3, 4, 5, 6, 7]]);
  });

  test("are released after failures and by callers that leave the queue", async () => {
    const slots = new Slots(1, 1);
    const gate = Promise.withResolvers<void>();
    const first = slots.use(() => gate.promise, never);
    expect(slots.isFull).toBe(false);
    const leave = new AbortController();
    const second = slots.use(() => Promise.resolve(), leave.signal);
    expect(slots.isFull).toBe(true);
    leave.abort(new Error("cancelled"));
    await expect(second).rejects.toThrow("cancelled");
    expect(slots.isFull).toBe(false);
    gate.reject(new Error("failed"));
    await expect(first).rejects.toThrow("failed");
    expect(await slots.use(() => Promise.resolve("free"), never)).toBe("free");
  });
});

describe("shortening", () => {
  test("keeps short values, and the structure of long ones", () => {
    const value = { path: "a.txt", lines: ["x".repeat(10_000), "y"], size: 3 };
    expect(shortenedTo(value, 100_000)).toBe(value);
    const shorter = shortenedTo(value, 1_000) as typeof value;
    expect(shorter).toMatchObject({ path: "a.txt", size: 3 });
    expect(shorter.lines[0]).toMatch(/^x+\n\[… \d+ characters left out …\]\nx*$/);
    expect(JSON.stringify(shorter).length).toBeLessThanOrEqual(1_000);
  });

  test("also terminates for large values without long texts", () => {
    const numbers = Array.from({ length: 10_000 }, (_, index) => index);
    const shorter = shortenedTo(numbers, 1_000);
    expect(shorter).toMatchObject({ shortened: true, length: JSON.stringify(numbers).length });
    expect(JSON.stringify(shorter).length).toBeLessThan(1_000);
  });

  test("keeps the beginning and the end of a text", () => {
    const text = `${"a".repeat(500)}${"b".repeat(500)}`;
    expect(shortenedText(text, 100)).toMatch(/^a{75}\n\[… 900 characters left out …\]\nb{25}$/);
  });
});
