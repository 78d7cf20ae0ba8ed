/** Builds the request that starts a command. */
import type { RunnerRequest } from "@sandkasten/protocol";
import type { ExecCommand, ExecOptions } from "../ports/channel.ts";
import { checkRequest } from "./call.ts";

export interface ExecRequest {
  readonly request: RunnerRequest;
  /** The command text, sent after the request as DATA. */
  readonly body: Uint8Array | undefined;
}

export function execRequest(command: ExecCommand, options: ExecOptions): ExecRequest {
  const shared = {
    op: "exec",
    exec_id: options.execId,
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(options.env !== undefined && { env: { ...options.env } }),
    ...(options.stdin === true && { stdin: true }),
    ...(options.merge === true && { merge: true }),
    ...(options.timeoutMs !== undefined && { timeout_ms: options.timeoutMs }),
    ...(options.idleTimeoutMs !== undefined && { idle_timeout_ms: options.idleTimeoutMs }),
  } as const;
  const terminal =
    command.pty === undefined ? {} : { pty: { rows: command.pty.rows, cols: command.pty.cols } };
  if (command.kind === "shell") {
    const body = typeof command.text === "string" ? Buffer.from(command.text) : command.text;
    return {
      request: checkRequest({
        ...shared,
        mode: "shell",
        ...(command.shell !== undefined && { shell: command.shell }),
        ...terminal,
        cmd_bytes: body.byteLength,
      }),
      body,
    };
  }
  const request = checkRequest({
    ...shared,
    mode: "process",
    argv: [...command.argv],
    ...(command.user !== undefined && { user: command.user }),
    ...terminal,
  });
  return { request, body: undefined };
}
