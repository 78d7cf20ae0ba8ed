/** Shows an agent run as it happens: the model's text on stdout, its actions on stderr. */
import type { RunEventBody } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { plainProse, plainText } from "../output/plain-text.ts";
import { formatDuration } from "../output/units.ts";
import { callSummary } from "./call-summary.ts";
import { numberIn, textIn } from "./event-fields.ts";
import { OutputLines } from "./output-lines.ts";

/** The maximum length of a line about a call if there is no terminal width. */
const PIPED_COLUMNS = 160;
/** Shorter calls are not reported. */
const LONG_CALL_MS = 2000;

type Stream = "stdout" | "stderr";

export class AgentRunPrinter {
  readonly #cli: Pick<Cli, "out" | "err">;
  readonly #calls = new Map<string, Readonly<Record<Stream, OutputLines>>>();
  /** Whether the text so far does not end with a line break. */
  #isMidLine = false;

  constructor(cli: Pick<Cli, "out" | "err">) {
    this.#cli = cli;
  }

  /**
   * SECURITY: a model or code in a sandbox chose this text, so control characters are escaped
   * (threat: control characters; guarded by agent-run-printer.test.ts).
   */
  async show(event: RunEventBody): Promise<void> {
    switch (event.type) {
      case "text":
        return this.#say(textIn(event, "text") ?? "");
      case "tool_call":
        return this.#begin(event);
      case "tool_output":
        return this.#output(event);
      case "tool_result":
        return this.#end(event);
      case "model_retry":
        return this.#retry(event);
      case "turn":
      case "run_ended":
        return this.#endLine();
      default:
        return;
    }
  }

  get #columns(): number {
    const { err } = this.#cli;
    return err.isTerminal ? err.columns : PIPED_COLUMNS;
  }

  async #say(text: string): Promise<void> {
    if (text === "") return;
    const { out } = this.#cli;
    await out.write(plainProse(text));
    this.#isMidLine = !text.endsWith("\n");
  }

  async #endLine(): Promise<void> {
    if (this.#isMidLine) await this.#cli.out.line();
    this.#isMidLine = false;
  }

  async #begin(event: RunEventBody): Promise<void> {
    await this.#endLine();
    const { err } = this.#cli;
    const tool = plainText(textIn(event, "tool") ?? "tool");
    const summary = callSummary(event["input"], this.#columns - tool.length - "▸  ".length);
    await err.line(`${err.style.cyan("▸")} ${err.style.bold(tool)} ${summary}`.trimEnd());
    this.#calls.set(callId(event), { stdout: new OutputLines(), stderr: new OutputLines() });
  }

  async #output(event: RunEventBody): Promise<void> {
    const stream = textIn(event, "stream") === "stderr" ? "stderr" : "stdout";
    const lines = this.#calls.get(callId(event))?.[stream] ?? new OutputLines();
    await this.#lines(lines.push(textIn(event, "text") ?? ""), stream);
    if (event["truncated"] === true) await this.#lines(["[more output is not shown]"], "stderr");
  }

  async #retry(event: RunEventBody): Promise<void> {
    await this.#endLine();
    const { err } = this.#cli;
    const reason = callSummary(textIn(event, "reason"), this.#columns - "↻ ".length);
    await err.line(`${err.style.yellow("↻")} ${reason}`);
  }

  async #end(event: RunEventBody): Promise<void> {
    const call = this.#calls.get(callId(event));
    this.#calls.delete(callId(event));
    for (const stream of ["stdout", "stderr"] as const)
      await this.#lines(call?.[stream].end() ?? [], stream);
    const { err } = this.#cli;
    const failure = failureText(event);
    if (failure !== undefined)
      await err.line(`  ${err.style.red(`✗ ${callSummary(failure, this.#columns - 4)}`)}`);
    const tookMs = numberIn(event, "duration_ms") ?? 0;
    // Only on a terminal: elsewhere the same run prints the same text.
    if (err.isTerminal && tookMs >= LONG_CALL_MS)
      await err.line(`  ${err.style.dim(formatDuration(tookMs))}`);
  }

  async #lines(lines: readonly string[], stream: Stream): Promise<void> {
    const { err } = this.#cli;
    const paint = stream === "stderr" ? err.style.yellow : err.style.dim;
    for (const line of lines) {
      await this.#endLine();
      await err.line(`  ${paint(plainProse(line))}`.trimEnd());
    }
  }
}

function callId(event: RunEventBody): string {
  return textIn(event, "call_id") ?? "";
}

/** Why a call failed, or that its command did. */
function failureText(event: RunEventBody): string | undefined {
  const { error, exit_code: exitCode } = fields(event["output"]);
  if (event["is_error"] === true) {
    const { message } = fields(error);
    return typeof message === "string" ? message : JSON.stringify(event["output"] ?? "failed");
  }
  return typeof exitCode === "number" && exitCode !== 0 ? `exit code ${exitCode}` : undefined;
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return Object(value) as Readonly<Record<string, unknown>>;
}
