import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { Sink } from "../output/sink.ts";
import { MemoryOutput } from "../testing/test-host.ts";
import { WorkflowRunPrinter } from "./workflow-run-printer.ts";

type Fields = { readonly type: string } & Readonly<Record<string, unknown>>;

async function printed(fields: readonly Fields[], columns?: number): Promise<string> {
  const stderr = new MemoryOutput(columns);
  const err = new Sink(stderr, true, () => {});
  const printer = new WorkflowRunPrinter({ err }, "wfr_1", " --dir /here");
  for (const [seq, event] of fields.entries())
    await printer.show({ seq, time: new Date(seq * 2000).toISOString(), ...event });
  return stderr.bytes.toString();
}

const step = (id: string, path = `${id}:1`) => ({ step_id: id, path });
const failed = { error: { code: "X", message: "it broke" } };

describe("WorkflowRunPrinter", () => {
  it("shows steps as they start, are retried and end", async () => {
    const shown = await printed([
      { type: "workflow_started" },
      { type: "step_started", ...step("build"), step_type: "agent", attempt: 1 },
      { type: "step_retry", ...step("build"), attempt: 1, ...failed },
      { type: "step_started", ...step("build"), step_type: "agent", attempt: 2 },
      { type: "step_ended", ...step("build"), status: "succeeded", output: 1 },
      { type: "step_started", ...step("build", "build:2"), step_type: "agent", attempt: 1 },
      { type: "step_ended", ...step("build", "build:2"), status: "failed", ...failed },
      { type: "workflow_ended", status: "failed", ...failed },
    ]);
    expect(shown.split("\n")).toEqual([
      "▸ build agent",
      "↻ build it broke",
      "▸ build agent, attempt 2",
      "✓ build 2.0s",
      "▸ build:2 agent",
      "✗ build:2 it broke",
      "",
    ]);
  });

  it("shows the command that decides about a waiting step", async () => {
    const shown = await printed([
      { type: "approval_requested", ...step("ask"), message: "Ship it?" },
      { type: "approval_given", ...step("ask"), approved: true },
      { type: "approval_requested", ...step("ask", "each:1/[0]/ask:1"), message: "And this?" },
      { type: "approval_given", ...step("ask"), approved: false, comment: "not yet" },
      { type: "needs_attention", reason: "the step build was interrupted" },
    ]);
    expect(shown.split("\n")).toEqual([
      "? ask Ship it?",
      "  sandkasten workflow approve wfr_1 ask --dir /here",
      "  sandkasten workflow reject wfr_1 ask --dir /here",
      "✓ ask approved",
      "? each/[0]/ask And this?",
      "  sandkasten workflow approve wfr_1 'each:1/[0]/ask:1' --dir /here",
      "  sandkasten workflow reject wfr_1 'each:1/[0]/ask:1' --dir /here",
      "✗ ask rejected: not yet",
      "! the step build was interrupted",
      "  sandkasten workflow resume wfr_1 --dir /here",
      "",
    ]);
  });

  it("sends a terminal no control characters of files and models", async () => {
    const hostile = "\u001b]52;c;aGk=\u0007\u202e\u009b";
    const where = { step_id: hostile, path: hostile };
    const shown = await printed(
      [
        { type: "step_started", ...where, step_type: hostile },
        { type: "step_ended", ...where, status: "failed", error: { message: hostile } },
        { type: "approval_requested", ...where, message: hostile },
        { type: "needs_attention", reason: hostile },
      ],
      200,
    );
    expect(stripVTControlCharacters(shown)).not.toMatch(/[^\P{C}\n]/u);
  });
});
