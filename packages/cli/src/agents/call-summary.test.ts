import { describe, expect, it } from "vitest";
import { callSummary } from "./call-summary.ts";

describe("callSummary()", () => {
  it.each([
    [{ sandbox_id: "sbx_1", cmd: ["python3", "a.py"] }, "python3 a.py"],
    [{ command: "make test" }, "make test"],
    [{ runtime: "python", code: "import os\nprint(1)\n" }, "import os …"],
    [{ path: "a.txt", contents: "long" }, "a.txt"],
    [{ city: "Rome" }, '{"city":"Rome"}'],
    [{}, ""],
    [undefined, ""],
    ["text", "text"],
  ])("summarizes %j as %j", (input, summary) => {
    expect(callSummary(input, 80)).toBe(summary);
  });

  it("is never longer than its space, however large the input is", () => {
    const summary = callSummary({ code: "x".repeat(10_000_000) }, 40);
    expect(summary).toBe(`${"x".repeat(39)}…`);
  });

  it("shows control characters as text", () => {
    expect(callSummary({ cmd: "echo \u001b[2J" }, 80)).toBe("echo \\x1b[2J");
  });
});
