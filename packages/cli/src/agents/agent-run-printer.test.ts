import { stripVTControlCharacters } from "node:util";
import { describe, expect, it } from "vitest";
import { Sink } from "../output/sink.ts";
import { MemoryOutput } from "../testing/test-host.ts";
import { AgentRunPrinter } from "./agent-run-printer.ts";

type Fields = { readonly type: string } & Readonly<Record<string, unknown>>;

async function printed(fields: readonly Fields[], columns?: number) {
  const [stdout, stderr] = [new MemoryOutput(columns), new MemoryOutput(columns)];
  const sink = (stream: MemoryOutput) => new Sink(stream, true, () => {});
  const printer = new AgentRunPrinter({ out: sink(stdout), err: sink(stderr) });
  for (const [index, event] of fields.entries())
    await printer.show({ seq: index + 1, time: "2026-01-01T00:00:00Z", ...event });
  return { stdout: stdout.bytes.toString(), stderr: stderr.bytes.toString() };
}

const CALL = { type: "tool_call", call_id: "1", tool: "sandbox_exec", input: { cmd: "make" } };

const failed = (message: string) => ({ error: { code: "X", message } });

describe("AgentRunPrinter", () => {
  it("prints the model's text on stdout and its actions on stderr", async () => {
    const { stdout, stderr } = await printed([
      { type: "run_started", agent_name: "coder" },
      { type: "text", text: "I will " },
      { type: "text", text: "build it." },
      CALL,
      { type: "tool_output", call_id: "1", stream: "stdout", text: "cc a.c\nli" },
      { type: "tool_output", call_id: "1", stream: "stdout", text: "nked" },
      { type: "tool_result", call_id: "1", tool: "sandbox_exec", output: { exit_code: 0 } },
      { type: "turn", turn: 1 },
      { type: "text", text: "Done." },
      { type: "run_ended", status: "succeeded", text: "Done." },
    ]);
    expect(stdout).toBe("I will build it.\nDone.\n");
    expect(stderr).toBe("▸ sandbox_exec make\n  cc a.c\n  linked\n");
  });

  it("starts a line for each turn, even if the model only corrects its answer", async () => {
    const { stdout } = await printed([
      { type: "text", text: "{}" },
      { type: "turn", turn: 1 },
      { type: "text", text: "[]" },
      { type: "turn", turn: 2 },
      { type: "run_ended", status: "failed" },
    ]);
    expect(stdout).toBe("{}\n[]\n");
  });

  it("shows calls on a terminal of unknown width", async () => {
    const { stderr } = await printed([CALL], 0);
    expect(stripVTControlCharacters(stderr)).toBe("▸ sandbox_exec make\n");
  });

  it("says why a call failed, and how its command ended", async () => {
    const { stderr } = await printed([
      CALL,
      { type: "tool_result", call_id: "1", is_error: true, output: failed("no such sandbox") },
      CALL,
      { type: "tool_result", call_id: "1", output: { exit_code: 2 }, duration_ms: 42_000 },
    ]);
    expect(stderr).toBe(
      "▸ sandbox_exec make\n  ✗ no such sandbox\n▸ sandbox_exec make\n  ✗ exit code 2\n",
    );
  });

  it("shows on a terminal that a call took long", async () => {
    const ended = { type: "tool_result", call_id: "1", output: {}, duration_ms: 42_000 };
    const { stderr } = await printed([CALL, ended], 80);
    expect(stripVTControlCharacters(stderr)).toBe("▸ sandbox_exec make\n  42s\n");
  });

  it("says that output is missing and that the model is retried", async () => {
    const { stderr } = await printed([
      { type: "model_retry", turn: 1, attempt: 1, reason: "it answered 429" },
      CALL,
      { type: "tool_output", call_id: "1", stream: "stdout", text: "", truncated: true },
    ]);
    expect(stderr).toBe("↻ it answered 429\n▸ sandbox_exec make\n  [more output is not shown]\n");
  });

  it("keeps the lines of concurrent calls whole", async () => {
    const { stderr } = await printed([
      CALL,
      { ...CALL, call_id: "2" },
      { type: "tool_output", call_id: "1", stream: "stdout", text: "on" },
      { type: "tool_output", call_id: "2", stream: "stdout", text: "two\n" },
      { type: "tool_output", call_id: "1", stream: "stderr", text: "err\n" },
      { type: "tool_output", call_id: "1", stream: "stdout", text: "e\n" },
    ]);
    expect(stderr.split("\n").slice(2)).toEqual(["  two", "  err", "  one", ""]);
  });

  it("sends a terminal no control characters of the model, its calls or the sandbox", async () => {
    const hostile = "\u001b]52;c;aGk=\u0007\u202e\u009b";
    const { stdout, stderr } = await printed(
      [
        { type: "text", text: hostile },
        { type: "tool_call", call_id: "1", tool: hostile, input: { cmd: hostile } },
        { type: "tool_output", call_id: "1", stream: "stdout", text: `${hostile}\n` },
        { type: "tool_result", call_id: "1", is_error: true, output: failed(hostile) },
      ],
      200,
    );
    // Colours are our own.
    const shown = stripVTControlCharacters(stdout + stderr);
    expect(shown).not.toMatch(/[^\P{C}\n]/u);
    expect(shown.match(/\\x1b]52;c;aGk=\\x07\\u\{202e\}\\x9b/g)).toHaveLength(5);
  });

  it("keeps a call within the terminal's width", async () => {
    const { stderr } = await printed([{ ...CALL, input: { cmd: "x".repeat(500) } }], 40);
    const [line = ""] = stripVTControlCharacters(stderr).split("\n");
    expect(Array.from(line)).toHaveLength(40);
  });
});
