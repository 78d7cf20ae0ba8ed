import { expect, test } from "vitest";
import { atLeast } from "./runtime-versions.ts";

test.each([
  ["1.8.1", [1, 8], true],
  ["1.7.2", [1, 8], false],
  ["1.1.5+ds1", [1, 2, 8], false],
  ["1.2.8", [1, 2, 8], true],
  ["1.3", [1, 2, 8], true],
  ["0.0~20221219.0", [20_230_701], false],
  ["20250101.0", [20_230_701], true],
] as const)("version %s against %j is current: %s", (version, floor, current) => {
  expect(atLeast(version, floor)).toBe(current);
});
