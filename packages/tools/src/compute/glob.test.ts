/** Patterns for artifacts. */
import { expect, it } from "vitest";
import { matchesGlob } from "./glob.ts";

it.each([
  ["out/a.csv", "out/*.csv", true],
  ["out/deep/a.csv", "out/*.csv", false],
  ["out/deep/a.csv", "out/**/*.csv", true],
  ["out/a.csv", "out/**/*.csv", true],
  ["a.csv", "**/a.csv", true],
  ["x/y/a.csv", "**/a.csv", true],
  ["x/y/a.csv", "**", true],
  ["a.csv", "?.csv", true],
  ["ab.csv", "?.csv", false],
  ["a.csv", "*", true],
  ["x/a.csv", "*", false],
  [".hidden", "*", true],
  ["out/a.csv", "./out/a.csv", true],
  ["out/a.csv", "out/a", false],
  ["out/a+b(1).csv", "out/a+b(1).csv", true],
  ["out/axb(1).csv", "out/a.b(1).csv", false],
  ["{a,b}.csv", "{a,b}.csv", true],
  ["a.csv", "{a,b}.csv", false],
  ["a/b/c/d", "a/**/c/**", true],
  ["a/b/c", "a/**/b/**/c", true],
  ["", "*", true],
])("%s by %s: %s", (path, pattern, expected) => {
  expect(matchesGlob(path, pattern)).toBe(expected);
});

it("quickly matches patterns that make regular expressions hang", () => {
  const path = "a".repeat(4000);
  expect(matchesGlob(path, `${"*a".repeat(99)}*b`)).toBe(false);
  expect(matchesGlob(`${"a/".repeat(2000)}b`, `${"**/a/".repeat(39)}**/c`)).toBe(false);
});
