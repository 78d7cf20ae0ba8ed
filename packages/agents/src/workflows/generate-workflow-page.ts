/**
 * Prints `docs/reference/workflows.md`, made from the declarations of the keys:
 *
 *     node packages/agents/src/workflows/generate-workflow-page.ts > docs/reference/workflows.md
 *
 * A test fails while the page is not what this prints.
 */
import {
  MAX_AGENTS_AT_ONCE,
  MAX_INPUT_BYTES,
  MAX_OUTPUT_BYTES,
  MAX_RUN_BYTES,
  MAX_RUNS_AT_ONCE,
} from "./engine/limits.ts";
import {
  CALLABLE_NAMES,
  MACRO_NAMES,
  MAX_LIST_LENGTH,
  MAX_TEXT_LENGTH,
} from "./expressions/cel-functions.ts";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_CPU_MS, MAX_HEAP_MIB } from "./expressions/evaluator.ts";
import { MAX_EXPRESSION_LENGTH, MAX_MACRO_DEPTH } from "./expressions/expression.ts";
import type { Keys } from "./language/keys.ts";
import { factsOf } from "./language/keys.ts";
import { MAX_FILE_BYTES } from "./language/located-yaml.ts";
import type { StepType } from "./language/step-keys.ts";
import {
  BRANCH_KEYS,
  RETRY_KEYS,
  STEP_KEYS,
  TRANSITION_KEYS,
  TYPE_ALIASES,
} from "./language/step-keys.ts";
import { SANDBOX_KEYS, WORKFLOW_KEYS } from "./language/workflow-keys.ts";

const INTRODUCTION = `# Workflow files

Generated from the keys in \`workflow-keys.ts\` and \`step-keys.ts\` in \`packages/agents/src/workflows/language\`; change them there.

A workflow is a file \`workflows/NAME.yaml\` or \`.yml\`. The guide [Workflows](../guides/workflows.md) explains how to use it.

\`\`\`yaml
id: write-and-check
description: Writes a text until the checker is content
steps:
  - id: write
    agent: writer
    task: "Write about {{ input.topic }}"
  - id: check
    agent: checker
    task: "{{ steps.write.output }}"
    max_visits: 5
  - id: decide
    type: switch
    expression: steps.check.output.good
    transitions:
      - { condition: true, next: done }
      - { condition: false, next: write }
  - id: done
    type: end
    output: "{{ steps.write.output }}"
\`\`\`

Unknown keys are rejected, and the error suggests the nearest known key. Errors have file, line and column and are reported before anything runs. Use any of the listed spellings of a key, but only one at a time.
`;

const KINDS: Readonly<Record<StepType, string>> = {
  agent: "Runs an agent. The output is the agent's structured output, or its text.",
  switch: "Chooses the next step. The output has `value` and `next`.",
  parallel:
    "Runs several lists of steps at once. The output contains the output of each branch under its name. If a branch fails, the others are stopped.",
  foreach:
    "Runs the same steps for each item of a list. The output is the list of results, in the order of the items. If an item fails, the others are stopped.",
  transform: "Computes a value, which is the output.",
  approval:
    "Waits for a person to approve or reject. The output has `approved`, `comment` and `at`.",
  try: "Runs steps, and other steps if one of them fails. The output is that of the steps in `try` or, after a failure, of the steps in `catch`.",
  timer: "Waits. The end of the wait is stored, so a restart does not extend it.",
  end: "Ends the list of steps that contains it. In the outermost list it ends the run.",
};

const EXPRESSIONS = `## Expressions

Expressions are [CEL](https://cel.dev). They read these variables:

| variable | value |
|---|---|
| \`input\` | the input of the run |
| \`steps.ID.output\` | the output of a step that has ended; \`steps["ID"].output\` if the id contains a dash |
| \`run\` | \`run.id\`, \`run.workflow_id\` and \`run.created_at\` |
| \`item\`, \`index\` | in \`foreach\`: the item, under the name that the key \`item\` sets, and its number from 0 |
| \`error\` | in \`catch\`: \`error.code\`, \`error.message\` and \`error.step\` |
| \`value\` | in \`if\`: the value of the step's \`expression\` |

In CEL, whole numbers are ints and other numbers are doubles, which cannot be mixed: write \`double(input.count) * 1.5\`. Reading a missing field is an error; test for it with \`has(input.name)\`.

`;

const mebibytes = (bytes: number): string => `${bytes / 1024 / 1024} MiB`;
const kibibytes = (bytes: number): string => `${bytes / 1024} KiB`;

const LIMITS = `## Limits

| what | limit |
|---|---|
| a workflow file | ${kibibytes(MAX_FILE_BYTES)} |
| an expression | ${MAX_EXPRESSION_LENGTH} characters, macros nested ${MAX_MACRO_DEPTH} deep, ${DEFAULT_MAX_CPU_MS / 1000} s of processor time, ${MAX_HEAP_MIB} MiB of memory |
| a text that an expression creates | ${MAX_TEXT_LENGTH} characters |
| a list that an expression creates | ${MAX_LIST_LENGTH} entries |
| the variables that an expression reads, and its value | ${mebibytes(DEFAULT_MAX_BYTES)} each |
| the input of a run | ${mebibytes(MAX_INPUT_BYTES)} |
| the output of a step | ${mebibytes(MAX_OUTPUT_BYTES)} |
| all outputs of a run | ${mebibytes(MAX_RUN_BYTES)} |
| concurrent runs in one process, not counting those that wait for an approval | ${MAX_RUNS_AT_ONCE}; others wait |
| concurrent agents in one process, over all runs | ${MAX_AGENTS_AT_ONCE}; other steps wait |
`;

/** The whole page. */
export function workflowPage(): string {
  return [
    INTRODUCTION,
    `## Keys of a workflow\n\n${table(WORKFLOW_KEYS)}`,
    `### \`sandbox\`\n\n${table(SANDBOX_KEYS)}`,
    `## Steps\n\nEvery step can have these keys.\n\n${table(commonKeys())}`,
    ...Object.entries(STEP_KEYS).map(([type, keys]) => kind(type as StepType, keys)),
    EXPRESSIONS + functions(),
    LIMITS,
  ].join("\n");
}

/** The keys that all kinds of steps have. */
function commonKeys(): Keys {
  const [first, ...others] = Object.values<Keys>(STEP_KEYS);
  return Object.fromEntries(
    Object.entries(first ?? {}).filter(([name]) => others.every((keys) => name in keys)),
  );
}

function kind(type: StepType, keys: Keys): string {
  const common = commonKeys();
  const own = Object.fromEntries(Object.entries(keys).filter(([name]) => !(name in common)));
  const aliases = Object.entries(TYPE_ALIASES).flatMap(([alias, of]) =>
    of === type ? [`\`${alias}\``] : [],
  );
  const also = aliases.length === 0 ? "" : ` Also written ${aliases.join(", ")}.`;
  return [
    `### \`${type}\`\n\n${KINDS[type]}${also}\n\n${table(own)}`,
    ...(type === "agent" ? [`#### \`retry\`\n\n${table(RETRY_KEYS)}`] : []),
    ...(type === "switch" ? [`#### \`transitions\`\n\n${table(TRANSITION_KEYS)}`] : []),
    ...(type === "parallel" ? [`#### \`branches\`\n\n${table(BRANCH_KEYS)}`] : []),
  ].join("\n");
}

function table(keys: Keys): string {
  const rows = Object.entries(keys).map(([name, schema]) => {
    const { aliases = [], required = false, unset, allowed, description } = factsOf(schema);
    const names = [name, ...aliases].map((one) => `\`${one}\``).join(", ");
    const absent = required ? "required" : (unset ?? "none");
    return [names, allowed, absent, description];
  });
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const head = ["key", "value", "default", "meaning"];
  return `${[line(head), "|---|---|---|---|", ...rows.map(line)].join("\n")}\n`;
}

function functions(): string {
  const names = (all: ReadonlySet<string>): string =>
    [...all].map((name) => `\`${name}\``).join(", ");
  return `Macros: ${names(MACRO_NAMES)}. Functions and methods: ${names(CALLABLE_NAMES)}.\n`;
}

if (import.meta.main) process.stdout.write(workflowPage());
