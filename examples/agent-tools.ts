import { SandboxError } from "@sandkasten/sdk";
import type { ExecResult, Session } from "@sandkasten/sdk";

/** A tool as every framework for agents wants it: a JSON schema, and text as the answer. */
export interface AgentTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: ParametersSchema;
  readonly run: (input: unknown) => Promise<string>;
}

/** Not an interface, because some frameworks want what may have more keys. */
export type ParametersSchema = {
  readonly type: "object";
  readonly properties: Record<string, { readonly type: "string" | ("integer" | "null")[] }>;
  readonly required: string[];
  readonly additionalProperties: false;
};

const TIMEOUT_MS = 30_000;
/** What a model can read at once without losing its thread. */
const OUTPUT_BYTES = 32_768;
const FILE_BYTES = 262_144;

export function agentTools(session: Session): readonly AgentTool[] {
  return [
    {
      name: "exec",
      description:
        "Execute a shell command in the sandbox. Stateful: cd, env and background jobs persist.",
      parameters: parameters({
        cmd: { type: "string" },
        timeout_ms: { type: ["integer", "null"] },
      }),
      run: async (input) => {
        const timeoutMs = optionalNumberOf(input, "timeout_ms") ?? TIMEOUT_MS;
        return await exec(session, textOf(input, "cmd"), timeoutMs);
      },
    },
    {
      name: "write_file",
      description: "Write content to a file in the sandbox. Relative paths start at /workspace.",
      parameters: parameters({ path: { type: "string" }, content: { type: "string" } }),
      run: async (input) => {
        const path = textOf(input, "path");
        await session.write(path, textOf(input, "content"));
        return `wrote ${path}`;
      },
    },
    {
      name: "read_file",
      description: `Read a text file in the sandbox, at most its first ${FILE_BYTES} bytes.`,
      parameters: parameters({ path: { type: "string" } }),
      run: async (input) =>
        await session.files.readText(textOf(input, "path"), { maxBytes: FILE_BYTES }),
    },
  ];
}

/** A command that takes too long is for the model to know, with what it printed until then. */
async function exec(session: Session, cmd: string, timeoutMs: number): Promise<string> {
  try {
    return report(await session.exec(cmd, { timeoutMs, outputBudgetBytes: OUTPUT_BYTES }));
  } catch (error) {
    if (error instanceof SandboxError && error.result !== undefined) return report(error.result);
    throw error;
  }
}

function report({ exitCode, endReason, cwd, output }: ExecResult): string {
  const exit = endReason === "exited" ? exitCode : endReason;
  return `exit=${exit}\ncwd=${cwd}\n---\n${output}`;
}

/** All of them required, as strict modes want it: what may be absent may be null. */
function parameters(properties: ParametersSchema["properties"]): ParametersSchema {
  const required = Object.keys(properties);
  return { type: "object", properties, required, additionalProperties: false };
}

/** Models do not always keep to a schema; the error tells them what is wrong. */
function textOf(input: unknown, name: string): string {
  const value = valueOf(input, name);
  if (typeof value !== "string") throw new TypeError(`"${name}" must be text`);
  return value;
}

function optionalNumberOf(input: unknown, name: string): number | undefined {
  const value = valueOf(input, name) ?? undefined;
  if (value !== undefined && typeof value !== "number")
    throw new TypeError(`"${name}" must be a number, or null`);
  return value;
}

function valueOf(input: unknown, name: string): unknown {
  if (typeof input !== "object" || input === null) throw new TypeError("an object is expected");
  return Object.entries(input).find(([key]) => key === name)?.[1];
}
