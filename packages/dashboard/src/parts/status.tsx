/** The state of a session, a command or a run, as a word with a colour. */
import type { JSX } from "preact";

type Tone = "good" | "busy" | "bad" | "quiet";

const TONES: Readonly<Record<string, Tone>> = {
  running: "good",
  enforced: "good",
  allowed: "good",
  succeeded: "good",
  creating: "busy",
  queued: "busy",
  pending: "busy",
  paused: "busy",
  waiting: "busy",
  waiting_approval: "busy",
  missing: "bad",
  needs_attention: "bad",
  unreachable: "bad",
  crashed: "bad",
  failed: "bad",
  rejected: "bad",
  timeout: "bad",
  oom: "bad",
  killed: "bad",
  sandbox_gone: "bad",
  refused: "bad",
};

export interface StatusProps {
  readonly of: string;
  /** Replaces the word's default tone. */
  readonly tone?: Tone | undefined;
}

export function Status({ of, tone = toneOf(of) }: StatusProps): JSX.Element {
  return <span class={`status ${tone}`}>{of.replaceAll("_", " ")}</span>;
}

function toneOf(word: string): Tone {
  // For a failed command, the exit code.
  return TONES[word] ?? (word.startsWith("exit ") ? "bad" : "quiet");
}
