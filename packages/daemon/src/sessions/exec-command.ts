/** Validates commands and formats them for display. */
import { MAX_COMMAND_BYTES, SandboxError } from "@sandkasten/protocol";
import type { ExecCommand } from "../ports/channel.ts";

const MAX_SHOWN_COMMAND = 4096;

/** A command as its caller sees it: text, or a list of arguments. */
export function commandOf(command: ExecCommand): string | readonly string[] {
  if (command.kind === "process") return command.argv;
  return typeof command.text === "string"
    ? command.text
    : Buffer.from(command.text).toString("utf8");
}

export function shownCommand(asked: string | readonly string[]): string | readonly string[] {
  if (typeof asked === "string") return asked.slice(0, MAX_SHOWN_COMMAND);
  let room = MAX_SHOWN_COMMAND;
  return asked
    .map((argument) => {
      const shown = argument.slice(0, room);
      room -= shown.length;
      return shown;
    })
    .filter((argument, index) => argument !== "" || asked[index] === "");
}

export function checkCommand(command: ExecCommand): void {
  const parts = command.kind === "shell" ? [command.text] : command.argv;
  const bytes = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  if (bytes > MAX_COMMAND_BYTES)
    throw new SandboxError(
      "PAYLOAD_TOO_LARGE",
      `the command has ${bytes} bytes, but at most ${MAX_COMMAND_BYTES} are allowed; write it to a file and run that`,
    );
  if (parts.some((part) => (typeof part === "string" ? part.includes("\0") : part.includes(0))))
    throw new SandboxError(
      "INVALID_REQUEST",
      "the command contains a NUL byte, which shells do not accept",
    );
}

export function hasTerminal(command: ExecCommand): boolean {
  return command.kind === "process" && command.pty !== undefined;
}
