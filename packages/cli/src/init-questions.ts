/** Asks on the terminal for the most important settings. */
import { cancel, intro, isCancel, text } from "@clack/prompts";
import type { ConfigKey } from "@sandkasten/daemon/config";
import type { Cli } from "./cli.ts";
import { CliFailure } from "./failure.ts";

interface Question {
  readonly key: string;
  readonly message: string;
  readonly isNumber?: boolean;
}

const QUESTIONS: readonly Question[] = [
  { key: "listen", message: "Which address should the daemon listen on?" },
  { key: "default_image", message: "Which image do sandboxes use by default?" },
  {
    key: "defaults.mem_limit_mb",
    message: "How much memory does a sandbox get, in MiB?",
    isNumber: true,
  },
  {
    key: "session_ttl_seconds",
    message: "After how many seconds without use does a session expire?",
    isNumber: true,
  },
];

/** Answers that differ from the defaults, by key name. */
export async function askSettings(
  cli: Cli,
  keys: readonly ConfigKey[],
): Promise<ReadonlyMap<string, unknown>> {
  const streams = { input: cli.host.stdin, output: cli.host.stdout };
  intro("A configuration for Sandkasten", streams);
  const answers = new Map<string, unknown>();
  for (const question of QUESTIONS) {
    const key = keys.find(({ name }) => name === question.key);
    if (key === undefined) continue;
    const standard = key.schema.parse(undefined) as string | number | undefined;
    const shown = String(standard ?? "");
    const answer = await text({
      message: question.message,
      placeholder: shown,
      defaultValue: shown,
      validate: (given) => problem(key, valueOf(question, given ?? "")),
      ...streams,
    });
    if (isCancel(answer)) {
      cancel("Nothing was written.", streams);
      throw new CliFailure("The questions were not answered.", {
        hint: "Run the command again, or pass --yes to use the defaults.",
        code: "CANCELLED",
      });
    }
    const value = valueOf(question, answer);
    if (value !== standard) answers.set(key.name, value);
  }
  return answers;
}

/** An empty answer means the default. */
function valueOf({ isNumber }: Question, given: string): unknown {
  if (given === "") return undefined;
  return isNumber === true ? Number(given) : given;
}

function problem(key: ConfigKey, value: unknown): string | undefined {
  const result = key.schema.safeParse(value);
  return result.success ? undefined : `It ${result.error.issues[0]?.message ?? "is not allowed"}.`;
}
