/** How programs of each language are run in a sandbox. */
import { stripTypeScriptTypes } from "node:module";
import type { Language } from "./settings/runtimes.ts";
import { ToolError } from "./tool-error.ts";

/** The name of the working directory in compute mode; a link to `/workspace`. */
export const WORK = "/work";

/** Some images have only one of the two names. */
const PYTHON =
  'if command -v python >/dev/null 2>&1; then exec python "$@"; else exec python3 "$@"; fi';

/** Node strips types itself since 22.18; an older one gets a file that was stripped before. */
const TYPESCRIPT = `if node -e 'process.exit(process.features.typescript ? 0 : 1)'; then exec node ${WORK}/main.ts "$@"; else exec node ${WORK}/main.js "$@"; fi`;

/** The program's own files, and the command that runs it. */
export interface Program {
  readonly files: ReadonlyMap<string, string>;
  readonly argv: readonly string[];
}

/** Runs the image's Python, whichever name it has. */
export function pythonCommand(args: readonly string[]): readonly string[] {
  return ["/bin/sh", "-c", PYTHON, "sh", ...args];
}

export function programOf(language: Language, code: string, args: readonly string[]): Program {
  switch (language) {
    case "python":
      return {
        files: new Map([["main.py", code]]),
        argv: pythonCommand([`${WORK}/main.py`, ...args]),
      };
    case "node":
      return {
        files: new Map([["main.js", code]]),
        argv: ["node", `${WORK}/main.js`, ...args],
      };
    case "typescript":
      return {
        files: new Map([
          ["main.ts", code],
          ["main.js", withoutTypes(code)],
        ]),
        argv: ["/bin/sh", "-c", TYPESCRIPT, "sh", ...args],
      };
    case "bash":
      return {
        files: new Map([["main.sh", code]]),
        argv: ["bash", `${WORK}/main.sh`, ...args],
      };
  }
}

/** Keeps every line and column in place. */
function withoutTypes(code: string): string {
  try {
    return stripTypeScriptTypes(code);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new ToolError(
      "INVALID_INPUT",
      `The TypeScript code cannot be run: ${message}. Only syntax that can be erased is supported: no enums, namespaces or parameter properties.`,
    );
  }
}
