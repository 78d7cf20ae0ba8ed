import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BENCHMARKS, CHART, medianOf, speedChart } from "./generate-speed-chart.ts";

describe("the chart of the README", () => {
  test("matches docs/benchmarks.md; if this fails, draw it again with generate-speed-chart.ts", async () => {
    const report = await readFile(BENCHMARKS, "utf8");
    expect(await readFile(CHART, "utf8")).toBe(speedChart(report));
    const readme = await readFile(join(import.meta.dirname, "../README.md"), "utf8");
    expect(readme).toContain("](docs/images/speed.svg)");
  });

  test("changes with the numbers", async () => {
    const report = await readFile(BENCHMARKS, "utf8");
    const run = medianOf(report, "warm create", "docker run");
    const line = report.split("\n").find((text) => text.startsWith("docker run")) ?? "";
    const slower = report.replace(line, line.replace(/[\d.]+ ms/, "999 ms"));
    expect(medianOf(slower, "warm create", "docker run")).toBe(999);
    expect(run).not.toBe(999);
    expect(speedChart(slower)).not.toBe(speedChart(report));
    expect(speedChart(slower)).toContain("999 ms");
  });

  test("reads only rows of its table, in any unit", () => {
    const report = "one   p50   p95\nrow  1.50 s  2 s\n\ntwo   p50   p95\nrow  250 µs  2 s\n\n";
    expect(medianOf(report, "one", "row")).toBe(1500);
    expect(medianOf(report, "two", "row")).toBe(0.25);
    expect(() => medianOf(report, "two", "other")).toThrow('no row "other"');
  });
});
