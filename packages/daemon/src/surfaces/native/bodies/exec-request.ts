/** Converts a request for a command to the core's terms. */
import { SandboxError } from "@sandkasten/protocol";
import type { ExecRequestBody } from "@sandkasten/protocol";
import type { StartExecOptions } from "../../../sessions/services/exec-service.ts";

/** Linux accepts no longer argument. */
const MAX_ARGUMENT_BYTES = 131_071;

export interface StartDefaults {
  readonly outputBudgetBytes?: number | undefined;
  readonly idempotencyKey?: string | undefined;
}

export function startOptions(body: ExecRequestBody, defaults: StartDefaults): StartExecOptions {
  const cwd = synonym(body.cwd, body.workdir, "cwd", "workdir");
  const stdin = stdinOf(body);
  const outputBudgetBytes = body.output_budget_bytes ?? defaults.outputBudgetBytes;
  const timeoutMs = timeoutOf(body);
  return {
    ...commandOf(body),
    ...(cwd !== undefined && { cwd }),
    ...(body.env !== undefined && { env: body.env }),
    ...(stdin !== undefined && { stdin }),
    ...(body.merge !== undefined && { merge: body.merge }),
    ...(body.runtime !== undefined && { runtime: body.runtime }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(body.idle_timeout_ms !== undefined && { idleTimeoutMs: body.idle_timeout_ms }),
    ...(outputBudgetBytes !== undefined && { outputBudgetBytes }),
    ...(defaults.idempotencyKey !== undefined && { idempotencyKey: defaults.idempotencyKey }),
  };
}

function commandOf(body: ExecRequestBody): Pick<StartExecOptions, "command" | "asked"> {
  const command = synonym(body.cmd, body.command, "cmd", "command");
  if (command === undefined)
    throw new SandboxError(
      "INVALID_REQUEST",
      "the body has no `cmd`; pass shell text or a list of arguments",
    );
  const { user, pty, shell } = body;
  const stateful = body.stateful ?? (typeof command === "string" || shell !== undefined);
  if (shell !== undefined && !stateful)
    throw new SandboxError(
      "INVALID_REQUEST",
      "`shell` names a stateful shell, but `stateful`: false uses none; pass only one of them",
    );
  if (stateful) {
    if (user !== undefined)
      throw new SandboxError(
        "INVALID_REQUEST",
        "a stateful shell always has the same user; with `user`, pass a list of arguments, or `stateful`: false",
      );
    // The shell keeps the terminal, so the default one must not get it by accident.
    if (pty !== undefined && shell === undefined)
      throw new SandboxError(
        "INVALID_REQUEST",
        "a shell keeps its terminal; name one with `shell`, or pass a list of arguments or `stateful`: false",
      );
    const options = { ...(shell !== undefined && { shell }), ...(pty !== undefined && { pty }) };
    if (typeof command === "string")
      return { command: { kind: "shell", text: command, ...options } };
    const text = command.map(quoted).join(" ");
    return { command: { kind: "shell", text, ...options }, asked: command };
  }
  const options = { ...(user !== undefined && { user }), ...(pty !== undefined && { pty }) };
  if (typeof command !== "string")
    return { command: { kind: "process", argv: command, ...options } };
  return { command: { kind: "process", argv: freshShell(command), ...options }, asked: command };
}

/** Runs text in a new shell: bash if available, otherwise sh, like the stateful shell. */
export function freshShell(text: string): readonly string[] {
  if (Buffer.byteLength(text) > MAX_ARGUMENT_BYTES)
    throw new SandboxError(
      "PAYLOAD_TOO_LARGE",
      `a new shell accepts at most ${MAX_ARGUMENT_BYTES} bytes of text; write it to a file and run that`,
    );
  const script = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else eval "$1"; fi';
  return ["/bin/sh", "-c", script, "sh", text];
}

/** An interactive login shell. */
export function loginShell(): readonly string[] {
  const script = "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";
  return ["/bin/sh", "-c", script];
}

function quoted(argument: string): string {
  return `'${argument.replaceAll("'", String.raw`'\''`)}'`;
}

function stdinOf(body: ExecRequestBody): Uint8Array | "open" | undefined {
  // An empty input is the default, so clients with zero values may send it.
  const given = [body.stdin, body.stdin_base64, body.stdin_open].filter(Boolean);
  if (given.length > 1)
    throw new SandboxError(
      "INVALID_REQUEST",
      "pass only one of `stdin`, `stdin_base64` and `stdin_open`",
    );
  if (body.stdin_open === true) return "open";
  if (body.stdin_base64) return Buffer.from(body.stdin_base64, "base64");
  return body.stdin === undefined ? undefined : Buffer.from(body.stdin);
}

/** 0 in one unit does not override a timeout in the other. */
function timeoutOf({
  timeout_ms: ms,
  timeout_seconds: seconds,
}: ExecRequestBody): number | undefined {
  return seconds === undefined || Number(ms) > 0 ? ms : Math.ceil(seconds * 1000);
}

/** Synonyms may both be given if they agree. */
function synonym<T extends string | readonly string[]>(
  one: T | undefined,
  other: T | undefined,
  name: string,
  otherName: string,
): T | undefined {
  if (one !== undefined && other !== undefined && JSON.stringify(one) !== JSON.stringify(other))
    throw new SandboxError(
      "INVALID_REQUEST",
      `\`${name}\` and \`${otherName}\` are synonyms and must not differ; pass one of them`,
    );
  return one ?? other;
}
