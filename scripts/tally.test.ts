import { describe, expect, test } from "vitest";
import {
  summaryLine,
  tallyCargo,
  tallyVitest,
  UnreadableReportError,
  type VitestRun,
} from "./tally.ts";

function vitestRun(files: VitestRun["files"], unhandledErrors = 0): string {
  return JSON.stringify({ files, unhandledErrors } satisfies VitestRun);
}

const passing = {
  path: "a.test.ts",
  ok: true,
  tests: [{ name: "adds", state: "passed" }],
} as const;

describe("tallyVitest()", () => {
  test("adds up the tests of all files and keeps the reasons of skipped ones", () => {
    const json = vitestRun([
      passing,
      {
        path: "b.test.ts",
        ok: false,
        tests: [
          { name: "subtracts", state: "failed" },
          { name: "divides", state: "skipped", note: "no divider here" },
          { name: "roots", state: "skipped" },
        ],
      },
    ]);
    expect(tallyVitest(json, 1)).toEqual({
      passed: 1,
      failed: 1,
      skipped: 2,
      skippedNames: ["divides (no divider here)", "roots (no reason given)"],
    });
  });

  test("counts an interrupted test as failed", () => {
    const json = vitestRun([
      { path: "a.test.ts", ok: true, tests: [{ name: "hangs", state: "pending" }] },
    ]);
    expect(tallyVitest(json, 0)).toMatchObject({ passed: 0, failed: 1 });
  });

  test("counts a file that fails without a failing test as one failure", () => {
    const json = vitestRun([passing, { path: "b.test.ts", ok: false, tests: [] }]);
    expect(tallyVitest(json, 1)).toMatchObject({ passed: 1, failed: 1 });
  });

  test("counts a run that fails without a failing test as one failure", () => {
    expect(tallyVitest(vitestRun([passing]), 1)).toMatchObject({ passed: 1, failed: 1 });
    expect(tallyVitest(vitestRun([passing], 1), 0)).toMatchObject({ passed: 1, failed: 1 });
  });

  test("refuses a run without tests", () => {
    expect(() => tallyVitest(vitestRun([]), 0)).toThrow("ran no test");
    const allSkipped = vitestRun([
      { path: "a.test.ts", ok: true, tests: [{ name: "a", state: "skipped" }] },
    ]);
    expect(() => tallyVitest(allSkipped, 0)).toThrow("ran no test");
  });

  test("refuses an invalid report", () => {
    for (const json of ["", "null", "[]", "{}", '{"files":[]}']) {
      expect(() => tallyVitest(json, 0)).toThrow(UnreadableReportError);
    }
  });
});

describe("tallyCargo()", () => {
  const output = [
    "running 3 tests",
    "test frames::splits ... ok",
    "test frames::waits ... ignored, needs a v2 controller",
    "test frames::breaks ... FAILED",
    "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
    "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
  ].join("\n");

  test("adds up the tests of all binaries", () => {
    expect(tallyCargo(output, 101)).toEqual({
      passed: 5,
      failed: 1,
      skipped: 1,
      skippedNames: ["frames::waits (ignored, needs a v2 controller)"],
    });
  });

  test("counts a run that fails without a failing test as one failure", () => {
    expect(tallyCargo(output.replace("1 failed", "0 failed"), 101).failed).toBe(1);
  });

  test("refuses output without any test", () => {
    expect(() => tallyCargo("error: could not compile `runner`", 101)).toThrow(
      UnreadableReportError,
    );
  });
});

describe("summaryLine()", () => {
  test("names the skipped tests only if there are some", () => {
    expect(summaryLine({ passed: 12, failed: 0, skipped: 0 })).toBe("12 passed, 0 failed");
    expect(summaryLine({ passed: 12, failed: 1, skipped: 2 })).toBe(
      "12 passed, 1 failed, 2 skipped",
    );
  });
});
