import { expect, test } from "vitest";
import { pick, randomFor } from "./seeded.ts";

const all = Array.from({ length: 12 }, (_, index) => `case ${index}`);

test("pick() draws the same cases for the same seed and name", () => {
  const draw = (seed: number, name: string): string[] => pick(all, 3, randomFor(seed, name));
  expect(draw(7, "files")).toHaveLength(3);
  expect(draw(7, "files")).toEqual(draw(7, "files"));
  expect(draw(7, "files")).not.toEqual(draw(7, "kills"));
});

test("pick() gives every case its turn over runs with seeds of their own", () => {
  const turns = new Map(all.map((name) => [name, 0]));
  for (let seed = 1; seed <= 400; seed++)
    for (const name of pick(all, 3, randomFor(seed, "files")))
      turns.set(name, (turns.get(name) ?? 0) + 1);
  // 100 each on average; a case that is rarely drawn would not be covered.
  for (const [name, count] of turns)
    expect([name, count > 50, count < 150]).toEqual([name, true, true]);
});

test("pick() gives all cases in their order when there are not more than wanted", () => {
  expect(pick(all, 50, randomFor(1, "x"))).toEqual(all);
});
