/** How many tokens code mode saves compared with sending all files again with every run, and what that is worth. */
import { readFile } from "node:fs/promises";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LEDGER_EDITS, LEDGER_FILES, TEST_COMMAND } from "./testing/ledger.ts";
import { type TestAgent, ToolFixture } from "./testing/tool-fixture.ts";

let fixture: ToolFixture;
beforeAll(async () => {
  fixture = await ToolFixture.start();
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

/** A conversation as it is sent to a model: what each turn adds, and the total that was sent. */
class Conversation {
  readonly #agent: TestAgent;
  readonly #tools: number;
  /** Tokens of calls and results, each counted once. */
  exchanged = 0;
  /** A model reads the whole conversation and the tools again with every turn. */
  read = 0;
  turns = 0;

  constructor(agent: TestAgent) {
    this.#agent = agent;
    this.#tools = countTokens(
      JSON.stringify(
        agent.tools.map(({ name, description, inputJsonSchema }) => ({
          name,
          description,
          inputJsonSchema,
        })),
      ),
    );
  }

  /** The calls of one turn, and their results as the model sees them. */
  async turn<Name extends Parameters<TestAgent["call"]>[0]>(
    ...calls: readonly { readonly name: Name; readonly input: unknown }[]
  ): Promise<Awaited<ReturnType<TestAgent["call"]>>[]> {
    this.turns += 1;
    this.read += this.#tools + this.exchanged;
    const results = [];
    for (const { name, input } of calls) {
      const result = await this.#agent.call(name, input);
      const shown = this.#agent.tool(name).forModel(result);
      this.exchanged += countTokens(JSON.stringify({ name, input }));
      this.exchanged += countTokens(JSON.stringify(shown));
      results.push(result);
    }
    return results;
  }
}

interface Outcome {
  readonly conversation: Conversation;
  /** The last line of the tests' output after each step. */
  readonly verdicts: readonly string[];
  /** How many tokens the conversation has after each step. */
  readonly sizes: readonly number[];
}

/** The last line that the tests print. */
function verdict(result: object | undefined): string {
  const stderr: unknown = Reflect.get(result ?? {}, "stderr");
  return String(stderr).trim().split("\n").at(-1) ?? "";
}

/** What an agent with a shell does: it edits the faulty code, and runs the tests again. */
function editAndTest({ path, from, to }: (typeof LEDGER_EDITS)[number]): string {
  return `python3 - <<'END'
text = open("${path}").read()
text = text.replace(${JSON.stringify(from)}, ${JSON.stringify(to)})
open("${path}", "w").write(text)
END
${TEST_COMMAND.join(" ")}`;
}

async function inCodeMode(): Promise<Outcome> {
  const conversation = new Conversation(fixture.agent({ mode: "code", runtime: "python" }));
  const [verdicts, sizes]: [string[], number[]] = [[], []];
  await conversation.turn(
    ...Object.entries(LEDGER_FILES).map(([path, contents]) => ({
      name: "sandbox_fs_write" as const,
      input: { path, contents },
    })),
  );
  for (const cmd of [TEST_COMMAND, ...LEDGER_EDITS.map(editAndTest)]) {
    const [result] = await conversation.turn({ name: "sandbox_exec" as const, input: { cmd } });
    verdicts.push(verdict(result));
    sizes.push(conversation.exchanged);
  }
  return { conversation, verdicts, sizes };
}

async function inComputeMode(): Promise<Outcome> {
  const conversation = new Conversation(fixture.agent("python"));
  const files: Record<string, string> = { ...LEDGER_FILES };
  const [verdicts, sizes]: [string[], number[]] = [[], []];
  const argv = TEST_COMMAND.map((argument) => JSON.stringify(argument)).join(", ");
  const code = `import subprocess, sys\nsys.exit(subprocess.run([${argv}]).returncode)`;
  for (const edit of [undefined, ...LEDGER_EDITS]) {
    if (edit !== undefined) {
      const before = files[edit.path] ?? "";
      expect(before).toContain(edit.from);
      files[edit.path] = before.replace(edit.from, edit.to);
    }
    const [result] = await conversation.turn({
      name: "sandbox_run" as const,
      input: { code, files },
    });
    verdicts.push(verdict(result));
    sizes.push(conversation.exchanged);
  }
  return { conversation, verdicts, sizes };
}

let code: Outcome;
let compute: Outcome;
beforeAll(async () => {
  [code, compute] = [await inCodeMode(), await inComputeMode()];
});

/** The numbers in the guide, in percent. */
const SAVED = { exchanged: 75, read: 40 };

it("Reduced token usage vs. re-injecting all files on each call, by as much as the guide says", async () => {
  // The same work with the same results: every step's failure, and then success.
  expect(code.verdicts).toEqual(compute.verdicts);
  expect(code.verdicts).toEqual([
    ...LEDGER_EDITS.map(() => expect.stringMatching(/^FAILED /) as string),
    "OK",
  ]);

  const saved = (count: "exchanged" | "read"): number =>
    100 * (1 - code.conversation[count] / compute.conversation[count]);
  expect(saved("exchanged")).toBeGreaterThan(SAVED.exchanged);
  expect(saved("read")).toBeGreaterThan(SAVED.read);
  const guide = await readFile("docs/guides/tools.md", "utf8");
  expect(guide).toContain(`more than ${SAVED.exchanged} % of the tokens in calls and results`);
  expect(guide).toContain(`more than ${SAVED.read} % of all tokens that the model reads`);
});

it("Agents using code mode show higher task success rates for complex coding tasks: of bugs that take several tries, more are fixed before the context is full", () => {
  const project = countTokens(JSON.stringify(LEDGER_FILES));
  const fixed = ({ sizes }: Outcome, contextTokens: number): number =>
    sizes.slice(1).filter((size) => size <= contextTokens).length;
  for (const times of [2, 3, 4]) {
    const contextTokens = times * project;
    expect(fixed(code, contextTokens)).toBeGreaterThan(fixed(compute, contextTokens));
  }
  // The whole task fits in the largest of these contexts, but without a sandbox that keeps files
  // not even half of it.
  expect(fixed(code, 4 * project)).toBe(LEDGER_EDITS.length);
  expect(fixed(compute, 4 * project)).toBeLessThan(LEDGER_EDITS.length / 2);
});
