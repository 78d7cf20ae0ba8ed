/** What interprets a command, as traces and metrics name it. */
import { posix } from "node:path";

/** Few names, whatever commands there are: each is a time series of its own. */
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
