/** Texts that are far more expensive to parse than to send. */
import { expect, test } from "vitest";
import { shapeProblem } from "./json-shape.ts";

const LIMITS = { maxDepth: 3, maxValues: 5 };

test.for([
  ["1", undefined],
  ["[[[1]]]", undefined],
  ["[[[[1]]]]", "nested more than 3 levels deep"],
  ['{"a":{"b":{"c":{}}}}', "nested more than 3 levels deep"],
  ["[[[", undefined],
  ["[1,2,3,4]", undefined],
  ["[1,2,3,4,5]", "made of more than 5 values"],
  ["[{},{},{}]", "made of more than 5 values"],
  ['"[[[[[,,,,,,"', undefined],
  [String.raw`["\"[[[[", "\\", ",,,,,"]`, undefined],
  [String.raw`["\\",[[[[`, "nested more than 3 levels deep"],
  ['"never ended [[[[[,,,,,,', undefined],
] as const)("%s: %s", ([text, problem]) => {
  expect(shapeProblem(text, LIMITS)).toBe(problem);
});

test("a long string of quotes and backslashes takes time proportional to its length", () => {
  const measure = (length: number): number => {
    const text = `"${String.raw`\"`.repeat(length)}${"\\".repeat(length * 2)}"`;
    const startedMs = performance.now();
    shapeProblem(text, LIMITS);
    return performance.now() - startedMs;
  };
  measure(1_000);
  expect(measure(1_000_000)).toBeLessThan(1_000 * Math.max(1, measure(10_000)));
});
