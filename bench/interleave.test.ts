import { expect, test } from "vitest";
import { everyRounds, inARow, interleave } from "./interleave.ts";

const never = new AbortController().signal;

test("interleave() takes turns and excludes the warm-up", async () => {
  const order: string[] = [];
  const contestant = (name: string) => () => {
    order.push(name);
    return Promise.resolve(order.length);
  };
  const series = await interleave(
    { a: contestant("a"), b: contestant("b") },
    { scenario: "race", rounds: 2, warmUpRounds: 1, signal: never },
  );
  expect(order.join("")).toBe("ababab");
  expect(series).toEqual([
    { scenario: "race", name: "a", unit: "us", samples: [3, 5] },
    { scenario: "race", name: "b", unit: "us", samples: [4, 6] },
  ]);
});

test("interleave() does not count a contestant in rounds that it skips", async () => {
  const slow = everyRounds(3, () => Promise.resolve(1));
  const [series] = await interleave(
    { slow },
    { scenario: "race", rounds: 7, warmUpRounds: 0, signal: never },
  );
  expect(series?.samples).toEqual([1, 1, 1]);
});

test("interleave() counts every sample of a contestant that takes several in a row", async () => {
  let taken = 0;
  const row = inARow(3, () => Promise.resolve(++taken));
  const [series] = await interleave(
    { row },
    { scenario: "race", rounds: 2, warmUpRounds: 1, signal: never },
  );
  expect(series?.samples).toEqual([4, 5, 6, 7, 8, 9]);
});

test("interleave() stops at once when it is aborted", async () => {
  const abort = new AbortController();
  let taken = 0;
  const contestant = (): Promise<number> => {
    taken += 1;
    abort.abort(new Error("enough"));
    return Promise.resolve(1);
  };
  const options = { scenario: "race", rounds: 9, warmUpRounds: 0, signal: abort.signal };
  await expect(interleave({ contestant }, options)).rejects.toThrow("enough");
  expect(taken).toBe(1);
});
