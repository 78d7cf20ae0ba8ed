/** The interpreter of a command, as named in traces and metrics. */
import { posix } from "node:path";

/** Few names for all commands: each creates a time series. */
const PROGRAMS: readonly (readonly [RegExp, string])[] = [
  [/^(?:python|pypy)[\d.]*$/u, "python"],
  [/^(?:node|nodejs|bun|deno|tsx)$/u, "node"],
  [/^(?:ba|da|z|k|a)?sh$/u, "bash"],
];

/** `asked` is the command as its caller gave it: shell text, or a list of arguments. */
export function runtimeOf(asked: string | readonly string[]): string {
  if (typeof asked === "string") return "bash";
  const program = posix.basename(asked[0] ?? "");
  return PROGRAMS.find(([pattern]) => pattern.test(program))?.[1] ?? "other";
}
