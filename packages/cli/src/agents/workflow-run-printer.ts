/** Shows a workflow run as it happens: its steps as they start and end, and approvals that are pending. */
import type { RunEventBody } from "@sandkasten/agents/client";
import type { Cli } from "../cli.ts";
import { quoted } from "../exec-options.ts";
import { plainText } from "../output/plain-text.ts";
import { formatDuration } from "../output/units.ts";
import { failureIn, numberIn, textIn } from "./event-fields.ts";

export class WorkflowRunPrinter {
  readonly #cli: Pick<Cli, "err">;
  readonly #runId: string;
  readonly #suffix: string;
  readonly #startedAtMs = new Map<string, number>();

  /** @param suffix - What a command in another terminal needs to reach the run. */
  constructor(cli: Pick<Cli, "err">, runId: string, suffix: string) {
    this.#cli = cli;
    this.#runId = runId;
    this.#suffix = suffix;
  }

  /**
   * SECURITY: files and models chose the texts, so control characters are escaped (threat: control
   * characters; guarded by workflow-run-printer.test.ts).
   */
  async show(event: RunEventBody): Promise<void> {
    const { style } = this.#cli.err;
    switch (event.type) {
      case "step_started":
        this.#startedAtMs.set(pathOf(event), Date.parse(event.time));
        return this.#line(style.cyan("▸"), nameOf(event), kindOf(event));
      case "step_ended":
        return this.#ended(event);
      case "step_retry":
        return this.#line(style.yellow("↻"), nameOf(event), failureIn(event)?.message ?? "");
      case "approval_requested":
        return this.#askForApproval(event);
      case "approval_given":
        return this.#decided(event);
      case "needs_attention":
        await this.#line(style.yellow("!"), "", textIn(event, "reason") ?? "needs attention");
        return this.#command("resume", this.#runId);
      default:
        return;
    }
  }

  async #ended(event: RunEventBody): Promise<void> {
    const { style } = this.#cli.err;
    const status = textIn(event, "status") ?? "ended";
    const startedAtMs = this.#startedAtMs.get(pathOf(event)) ?? Date.parse(event.time);
    const took = formatDuration(Date.parse(event.time) - startedAtMs);
    if (status === "succeeded") return this.#line(style.green("✓"), nameOf(event), took);
    await this.#line(style.red("✗"), nameOf(event), failureIn(event)?.message ?? status);
  }

  async #askForApproval(event: RunEventBody): Promise<void> {
    const message = textIn(event, "message") ?? "";
    await this.#line(this.#cli.err.style.yellow("?"), nameOf(event), message);
    // A nested step's id may not be unique.
    const path = pathOf(event);
    const step = path.includes("/") ? path : (textIn(event, "step_id") ?? path);
    await this.#command("approve", this.#runId, step);
    await this.#command("reject", this.#runId, step);
  }

  async #decided(event: RunEventBody): Promise<void> {
    const { style } = this.#cli.err;
    const comment = textIn(event, "comment");
    const isApproved = event["approved"] === true;
    const decision = isApproved ? "approved" : "rejected";
    await this.#line(
      isApproved ? style.green("✓") : style.red("✗"),
      nameOf(event),
      comment === undefined ? decision : `${decision}: ${comment}`,
    );
  }

  async #line(mark: string, step: string, note: string): Promise<void> {
    const { err } = this.#cli;
    const name = step === "" ? "" : `${err.style.bold(plainText(step))} `;
    await err.line(`${mark} ${name}${err.style.dim(plainText(note))}`.trimEnd());
  }

  /** In full, ready to be copied. */
  async #command(...words: readonly string[]): Promise<void> {
    const command = ["sandkasten", "workflow", ...words.map(quoted)].join(" ");
    await this.#cli.err.line(`  ${plainText(command)}${this.#suffix}`);
  }
}

function pathOf(event: RunEventBody): string {
  return textIn(event, "path") ?? textIn(event, "step_id") ?? "";
}

/** A step's path, with the number of its visit from the second on. */
function nameOf(event: RunEventBody): string {
  return pathOf(event).replaceAll(/:1(?=\/|$)/g, "");
}

function kindOf(event: RunEventBody): string {
  const attempt = numberIn(event, "attempt") ?? 1;
  const type = textIn(event, "step_type") ?? "";
  return attempt > 1 ? `${type}, attempt ${attempt}` : type;
}
