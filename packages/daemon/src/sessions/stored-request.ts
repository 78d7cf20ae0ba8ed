/** A command's request, stored for a daemon that may have to start it. */
import type { StartExecOptions } from "./services/exec-service.ts";

/** Longer requests are not stored; if the daemon dies before starting such a command, it is not started. */
const MAX_STORED_BYTES = 64 * 1024;

interface StoredBytes {
  readonly base64: string;
}

/**
 * Undefined if it is too long.
 *
 * SECURITY: `env` and `stdin` may hold secrets. They stay in the database, which only the daemon's
 * user can read, until the command has ended (threat: reaching another tenant). Guarded by "the stored
 * request is removed" in execs.test.ts.
 */
export function storedRequest(options: StartExecOptions): string | undefined {
  const { command, stdin } = options;
  const text = JSON.stringify({
    ...options,
    command: command.kind === "shell" ? { ...command, text: storedText(command.text) } : command,
    ...(stdin !== undefined && { stdin: storedText(stdin) }),
  });
  return Buffer.byteLength(text) > MAX_STORED_BYTES ? undefined : text;
}

export function restoredRequest(text: string): StartExecOptions {
  const { command, stdin, ...options } = JSON.parse(text) as StartExecOptions;
  return {
    ...options,
    command: command.kind === "shell" ? { ...command, text: restoredText(command.text) } : command,
    ...(stdin !== undefined && { stdin: stdin === "open" ? stdin : restoredBytes(stdin) }),
  };
}

function storedText(text: string | Uint8Array): string | StoredBytes {
  return typeof text === "string" ? text : { base64: Buffer.from(text).toString("base64") };
}

function restoredText(text: string | Uint8Array): string | Uint8Array {
  return typeof text === "string" ? text : restoredBytes(text);
}

function restoredBytes(stored: unknown): Uint8Array {
  return Buffer.from((stored as StoredBytes).base64, "base64");
}
