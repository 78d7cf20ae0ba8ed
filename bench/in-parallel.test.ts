import { expect, test } from "vitest";
import { inParallel } from "./in-parallel.ts";

test("inParallel() handles each once, and several at a time", async () => {
  const done: number[] = [];
  let now = 0;
  let most = 0;
  await inParallel([1, 2, 3, 4, 5, 6, 7], async (one) => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    now -= 1;
    done.push(one);
  });
  expect(done.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(most).toBe(4);
});

test("inParallel() rejects only after everything that was started has ended", async () => {
  const slow = Promise.withResolvers<void>();
  let ended = false;
  const all = inParallel(["bad", "slow"], async (one) => {
    if (one === "bad") throw new Error("it failed");
    await slow.promise;
    ended = true;
  });
  slow.resolve();
  await expect(all).rejects.toThrow("it failed");
  expect(ended).toBe(true);
});
