/** The state of a session or a command, as a word with a colour. */
import type { JSX } from "preact";

const TONES: Readonly<Record<string, string>> = {
  running: "good",
  enforced: "good",
  allowed: "good",
  missing: "bad",
  succeeded: "good",
  exited: "quiet",
  creating: "busy",
  queued: "busy",
  paused: "busy",
  waiting_approval: "busy",
  needs_attention: "bad",
  crashed: "bad",
  failed: "bad",
  timed_out: "bad",
  refused: "bad",
};

export function Status({ of }: { readonly of: string }): JSX.Element {
  return <span class={`status ${TONES[of] ?? "quiet"}`}>{of.replaceAll("_", " ")}</span>;
}
