/** The course of an agent's run, assembled from its events: its text, and its tool calls. */
import type { RunEventBody } from "@sandkasten/agents/client";

export type Entry =
  | { readonly kind: "said"; readonly seq: number; readonly time: string; readonly text: string }
  | { readonly kind: "note"; readonly seq: number; readonly time: string; readonly text: string }
  | ToolCall;

export interface ToolCall {
  readonly kind: "call";
  readonly seq: number;
  readonly time: string;
  readonly callId: string;
  readonly tool: string;
  readonly input: unknown;
  /** The tool's output so far. */
  readonly printed: string;
  /** The run of an agent that was called as a tool. */
  readonly runId?: string | undefined;
  /** Absent while it runs. */
  readonly result?: { readonly isError: boolean; readonly output: unknown; readonly ms: number };
}

/** How much of a tool's output is kept; older output is dropped. */
const MOST_PRINTED = 20_000;

/** The transcript with one more event. */
export function withEvent(entries: readonly Entry[], event: RunEventBody): readonly Entry[] {
  const { seq, time } = event;
  const callId = textOf(event["call_id"]);
  switch (event.type) {
    case "text":
      return withText(entries, event);
    case "tool_call": {
      const { tool, input } = event;
      return [
        ...entries,
        { kind: "call", seq, time, callId, tool: textOf(tool), input, printed: "" },
      ];
    }
    case "tool_output":
      return withCall(entries, callId, (call) => ({
        ...call,
        printed: (call.printed + textOf(event["text"])).slice(-MOST_PRINTED),
      }));
    case "agent_call":
      return withCall(entries, callId, (call) => ({ ...call, runId: textOf(event["run_id"]) }));
    case "tool_result":
      return withCall(entries, callId, (call) => ({
        ...call,
        result: {
          isError: event["is_error"] === true,
          output: event["output"],
          ms: Number(event["duration_ms"] ?? 0),
        },
      }));
    case "model_retry":
      return [...entries, { kind: "note", seq, time, text: `Retry: ${textOf(event["reason"])}` }];
    default:
      // The header shows turns, and the start and end of the run.
      return entries;
  }
}

/** Text arrives in chunks. */
function withText(entries: readonly Entry[], event: RunEventBody): readonly Entry[] {
  const { seq, time } = event;
  const text = textOf(event["text"]);
  const last = entries.at(-1);
  return last?.kind === "said"
    ? [...entries.slice(0, -1), { ...last, text: last.text + text }]
    : [...entries, { kind: "said", seq, time, text }];
}

function withCall(
  entries: readonly Entry[],
  callId: string,
  change: (call: ToolCall) => ToolCall,
): readonly Entry[] {
  const index = entries.findLastIndex((entry) => entry.kind === "call" && entry.callId === callId);
  const call = entries[index];
  return call?.kind === "call" ? entries.with(index, change(call)) : entries;
}

/** The most informative part of a tool's input, on one line. */
export function summaryOf(input: unknown): string {
  if (typeof input !== "object" || input === null) return textOf(input);
  const { cmd, command, code, path, task } = input as Readonly<Record<string, unknown>>;
  const first = cmd ?? command ?? path ?? task ?? code ?? input;
  if (typeof first === "string") return first.split("\n", 1)[0] ?? "";
  const isWords = Array.isArray(first) && first.every((word) => typeof word === "string");
  return isWords ? first.join(" ") : JSON.stringify(first);
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
