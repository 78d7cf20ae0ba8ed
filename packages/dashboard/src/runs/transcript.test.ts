import { describe, expect, it } from "vitest";
import { type Entry, summaryOf, withEvent } from "./transcript.ts";

const time = "2026-01-01T00:00:00Z";

function transcriptOf(...events: readonly Readonly<Record<string, unknown>>[]): readonly Entry[] {
  return events.reduce<readonly Entry[]>(
    (entries, event, seq) => withEvent(entries, { seq, time, type: "", ...event }),
    [],
  );
}

describe("the transcript of a run", () => {
  it("joins pieces of text until a tool is called", () => {
    const entries = transcriptOf(
      { type: "run_started", model: "m" },
      { type: "text", text: "I wr" },
      { type: "text", text: "ite it." },
      { type: "turn", turn: 1 },
      { type: "tool_call", call_id: "a", tool: "sandbox_exec", input: { cmd: "ls" } },
      { type: "text", text: "Done." },
      { type: "run_ended", status: "succeeded" },
    );
    expect(entries.map((entry) => (entry.kind === "said" ? entry.text : entry.kind))).toEqual([
      "I write it.",
      "call",
      "Done.",
    ]);
  });

  it("assigns output and result to their call", () => {
    const [first, second] = transcriptOf(
      { type: "tool_call", call_id: "a", tool: "sandbox_exec", input: { cmd: "ls" } },
      { type: "tool_call", call_id: "b", tool: "ask_helper", input: { task: "look" } },
      { type: "agent_call", call_id: "b", run_id: "run_2" },
      { type: "tool_output", call_id: "a", stream: "stdout", text: "one\n" },
      { type: "tool_output", call_id: "a", stream: "stdout", text: "two\n" },
      {
        type: "tool_result",
        call_id: "a",
        is_error: true,
        output: { error: "no" },
        duration_ms: 7,
      },
      { type: "tool_output", call_id: "unknown", text: "lost" },
    );
    expect(first).toMatchObject({
      printed: "one\ntwo\n",
      result: { isError: true, output: { error: "no" }, ms: 7 },
    });
    expect(second).toMatchObject({ runId: "run_2", printed: "" });
    expect(second).not.toHaveProperty("result");
  });

  it("keeps the end of long output", () => {
    const [call] = transcriptOf(
      { type: "tool_call", call_id: "a", tool: "t", input: {} },
      { type: "tool_output", call_id: "a", text: `begin${"x".repeat(50_000)}end` },
    );
    expect(call).toMatchObject({ printed: expect.stringMatching(/^x+end$/) as string });
  });

  it("summarizes an input in one line", () => {
    expect(summaryOf({ cmd: ["python3", "hello.py"] })).toBe("python3 hello.py");
    expect(summaryOf({ cmd: "one\ntwo" })).toBe("one");
    expect(summaryOf({ path: "a.txt", content: "…" })).toBe("a.txt");
    expect(summaryOf({ other: 1 })).toBe('{"other":1}');
    expect(summaryOf(undefined)).toBe("");
  });
});
