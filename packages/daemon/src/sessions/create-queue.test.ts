import { setImmediate as turnOfLoop } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { CreateQueue } from "./create-queue.ts";

/** Starts work that ends when told to, and records the order in which it started. */
function workshop(queue: CreateQueue): {
  readonly begun: string[];
  readonly add: (owner: string, name: string, signal?: AbortSignal) => Promise<void>;
  readonly refill: (name: string) => Promise<void>;
  readonly finish: (name: string) => Promise<void>;
} {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => (): Promise<void> => {
    begun.push(name);
    return new Promise((resolve) => ends.set(name, resolve));
  };
  return {
    begun,
    add: (owner, name, signal) => queue.run(owner, work(name), signal),
    refill: (name) => queue.runInBackground(work(name)),
    finish: async (name) => {
      ends.get(name)?.();
      await turnOfLoop();
    },
  };
}

describe("CreateQueue", () => {
  test("runs at most the allowed number at once, in order", async () => {
    const { begun, add, finish } = workshop(new CreateQueue(2));
    const all = ["1", "2", "3", "4"].map((name) => add("a", name));
    expect(begun).toEqual(["1", "2"]);
    await finish("2");
    expect(begun).toEqual(["1", "2", "3"]);
    await finish("1");
    expect(begun).toEqual(["1", "2", "3", "4"]);
    await finish("3");
    await finish("4");
    await Promise.all(all);
  });

  test("lets owners take turns, however many requests each has", async () => {
    const { begun, add, finish } = workshop(new CreateQueue(1));
    const burst = Array.from({ length: 5 }, (_, index) => add("burst", `burst${index}`));
    const single = [add("other", "other0"), add("other", "other1"), add("third", "third0")];
    for (let done = 0; done < 8; done++) await finish(begun[done] ?? "");
    expect(begun).toEqual([
      "burst0",
      "burst1",
      "other0",
      "third0",
      "burst2",
      "other1",
      "burst3",
      "burst4",
    ]);
    await Promise.all([...burst, ...single]);
  });

  test("refills the pool only if no request waits", async () => {
    const { begun, add, refill, finish } = workshop(new CreateQueue(1));
    const all = [add("a", "1"), refill("pool"), add("a", "2"), add("b", "3")];
    for (const name of ["1", "2", "3", "pool"]) await finish(name);
    expect(begun).toEqual(["1", "2", "3", "pool"]);
    await Promise.all(all);
  });

  test("skips callers that gave up, and continues after a failure", async () => {
    const queue = new CreateQueue(1);
    const { begun, add, finish } = workshop(queue);
    const first = add("a", "1");
    const given = new AbortController();
    const second = add("a", "2", given.signal);
    const third = add("b", "3");
    const failing = queue
      .run("c", () => Promise.reject(new Error("broken")))
      .catch((error: unknown) => String(error));
    expect(queue.length).toBe(3);
    given.abort(new Error("given up"));
    await expect(second).rejects.toThrow("given up");
    await finish("1");
    await finish("3");
    expect(await failing).toBe("Error: broken");
    const last = add("a", "4");
    await finish("4");
    await Promise.all([first, third, last]);
    expect(begun).toEqual(["1", "3", "4"]);
    expect(queue.length).toBe(0);
  });
});
