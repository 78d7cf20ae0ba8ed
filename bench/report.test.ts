import { expect, test } from "vitest";
import type { Budget, Verdict } from "./budgets.ts";
import { jsonReport, quantity, renderReport, significant, table } from "./report.ts";
import type { Series } from "./series.ts";

const measured: Series[] = [
  { scenario: "race", name: "theirs", unit: "us", samples: [1000, 2000, 3000] },
  { scenario: "race", name: "ours", unit: "us", samples: [500] },
  { scenario: "race", name: "flood", unit: "us", samples: [1_000_000], bytesMoved: 5 * 1024 ** 2 },
  { scenario: "race", name: "absent", unit: "us", samples: [] },
];

const budget = (what: string): Budget => ({
  what,
  subject: "race/ours",
  share: 0.5,
  against: { series: "race/theirs" },
  atMost: 0.5,
});

const verdicts: Verdict[] = [
  { budget: budget("fast enough"), kept: true, ratio: 0.25 },
  { budget: budget("too slow"), kept: false, ratio: 0.75 },
  { budget: budget("unknown"), kept: undefined, missing: "race/theirs" },
];

test("the report shows every series with its ratio to the first, and every verdict", () => {
  const lines = renderReport(measured, verdicts, { styled: false }).split("\n");
  const line = (start: string): string | undefined => lines.find((one) => one.startsWith(start));
  expect(line("theirs")).toMatch(/^theirs\s+2\.00 ms\s+2\.90 ms\s+1\.00 ms\s+3\s+1\.00$/u);
  expect(line("ours")).toMatch(/^ours\s+500 µs\s+500 µs\s+500 µs\s+1\s+0\.250$/u);
  expect(line("flood")).toMatch(/1\.00 s .* 5 MiB\/s$/u);
  expect(line("absent")).toBeUndefined();
  expect(line("✓")).toMatch(/^✓\s+fast enough\s+0\.250\s+≤ 0\.500$/u);
  expect(line("✗")).toMatch(/^✗\s+too slow\s+0\.750\s+≤ 0\.500$/u);
  expect(line("–")).toMatch(/^–\s+unknown\s+not measured\s+≤ 0\.500\s+race\/theirs$/u);
});

test("the report is plain text without styles, and lines up the same", () => {
  const plain = renderReport(measured, verdicts, { styled: false });
  const styled = renderReport(measured, verdicts, { styled: true });
  expect(plain).not.toContain("\u001B");
  expect(styled).toContain("\u001B[32m✓\u001B[0m");
  expect(styled).toContain("\u001B[31m✗\u001B[0m");
  // oxlint-disable-next-line no-control-regex -- removing the colours again.
  expect(styled.replaceAll(/\u001B\[\d+m/gu, "")).toBe(plain);
});

test("a table omits empty columns and aligns numbers to the right", () => {
  const rows = [
    ["name", "empty", "count"],
    ["a", "", "5"],
    ["b", "", "1000"],
  ];
  expect(table(rows, false)).toBe("name  count\na         5\nb      1000");
});

test("quantities are readable at every size", () => {
  expect(quantity(12.34, "us")).toBe("12.3 µs");
  expect(quantity(999_000, "us")).toBe("999 ms");
  expect(quantity(1_500_000, "us")).toBe("1.50 s");
  expect(quantity(512, "bytes")).toBe("0.500 KiB");
  expect(quantity(3 * 1024 ** 2, "bytes")).toBe("3.00 MiB");
  expect(quantity(-2 * 1024 ** 2, "bytes")).toBe("-2.00 MiB");
});

test("significant() keeps three digits, without an exponent", () => {
  expect([0, 0.02, 1 / 7, 2, 45.678, 1234.5].map(significant)).toEqual([
    "0",
    "0.0200",
    "0.143",
    "2.00",
    "45.7",
    "1235",
  ]);
});

test("the JSON has all samples, their percentiles and the verdicts", () => {
  const report: unknown = JSON.parse(jsonReport({ node: "v0" }, measured, verdicts));
  expect(report).toMatchObject({
    node: "v0",
    series: [
      { key: "race/theirs", samples: [1000, 2000, 3000], p50: 2000, p95: 2900 },
      { key: "race/ours", p50: 500 },
      { key: "race/flood", bytesMoved: 5 * 1024 ** 2 },
      { key: "race/absent", samples: [] },
    ],
    verdicts: [{ kept: true, ratio: 0.25 }, { kept: false }, { missing: "race/theirs" }],
  });
});
