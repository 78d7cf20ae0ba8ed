/** The keys of each kind of step; the reference page is generated from this. */
import { z } from "zod";
import {
  duration,
  DURATION_ALLOWED,
  EXPRESSION_ALLOWED,
  id,
  ID_ALLOWED,
  positive,
  steps,
  STEPS_ALLOWED,
  text,
  TEXT_ALLOWED,
  whole,
  wholeAllowed,
} from "./key-kinds.ts";
import { key } from "./keys.ts";
import type { Keys } from "./keys.ts";
import { WORKFLOW_KEYS } from "./workflow-keys.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const anything = z.unknown();
const MAX_VISITS = 10_000;
const MAX_CONCURRENCY = 64;
const MAX_ITEMS = 10_000;
const MAX_ATTEMPTS = 20;

const COMMON = {
  id: key(id, {
    description: "Names the step in `next`, in expressions and in results; unique in the file",
    allowed: ID_ALLOWED,
    unset: "`name`, if that is a valid id",
  }),
  name: key(text, { description: "A title for people", allowed: TEXT_ALLOWED }),
  type: key(text, {
    description: "The kind of step",
    allowed: "a kind of step",
    unset: "`agent` for a step with `agent`",
  }),
  description: key(text, { description: "What the step does", allowed: TEXT_ALLOWED }),
  max_visits: key(whole(1, MAX_VISITS), {
    description: "How often a loop may reach this step before the run fails",
    allowed: wholeAllowed(1, MAX_VISITS),
    aliases: ["maxVisits"],
    unset: "100",
  }),
} satisfies Keys;

const FLOW = {
  next: key(id, {
    description: "The next step. It must be in the same list",
    allowed: "the id of a step",
    aliases: ["transition"],
    unset: "the next step in the list",
  }),
  end: key(z.boolean(), {
    description: "Ends the list of steps; in the outermost list, ends the run",
    allowed: "true or false",
    unset: "`false`",
  }),
} satisfies Keys;

const TIMEOUT = {
  timeout_seconds: key(positive, {
    description: "The step fails if it takes longer",
    allowed: DURATION_ALLOWED,
    aliases: ["timeout", "timeoutSeconds"],
    unset: "no limit",
  }),
} satisfies Keys;

const CONCURRENCY = key(whole(1, MAX_CONCURRENCY), {
  description: "How many branches run at once",
  allowed: wholeAllowed(1, MAX_CONCURRENCY),
  aliases: ["maxConcurrency"],
  unset: "4",
});

const AGENT = {
  agent: key(text, {
    description: "The agent: its file name without `.prompt`, or its `metadata.name`",
    allowed: "the name of an agent",
    required: true,
  }),
  task: key(text, {
    description: "The agent's task, which is `{{userInput}}` in its prompt. A template",
    allowed: TEXT_ALLOWED,
    aliases: ["agentTask", "agent_task"],
    unset: "the input of the run if that is text, otherwise its `task`",
  }),
  input: key(z.record(z.string(), z.unknown()), {
    description: "Structured input, checked against the agent's input schema. A template",
    allowed: "a mapping",
  }),
  retry: key(z.record(z.string(), z.unknown()), {
    description: "Retries if the agent fails",
    allowed: "a mapping with max_attempts, backoff_seconds, max_backoff_seconds, jitter",
    unset: "one attempt",
  }),
  safe: key(z.boolean(), {
    description:
      "If the process dies while the step runs, the step may run again from its beginning. Otherwise the run waits for a person",
    allowed: "true or false",
    unset: "`false`",
  }),
} satisfies Keys;

export const RETRY_KEYS = {
  max_attempts: key(whole(1, MAX_ATTEMPTS), {
    description: "The maximum number of attempts",
    allowed: wholeAllowed(1, MAX_ATTEMPTS),
    aliases: ["maxAttempts"],
    unset: "3",
  }),
  backoff_seconds: key(duration, {
    description: "The delay before the second attempt; it doubles with each further attempt",
    allowed: DURATION_ALLOWED,
    aliases: ["backoff", "backoffSeconds"],
    unset: "1",
  }),
  max_backoff_seconds: key(duration, {
    description: "The maximum delay",
    allowed: DURATION_ALLOWED,
    aliases: ["maxBackoffSeconds", "max_backoff"],
    unset: "60",
  }),
  jitter: key(z.union([z.boolean(), z.number().min(0).max(1)]), {
    description: "The share of each delay that is random; `true` means all of it",
    allowed: "true, false or a number from 0 to 1",
    unset: "0.5",
  }),
} satisfies Keys;

const SWITCH = {
  expression: key(text, {
    description: "A CEL expression; the conditions are compared with its value",
    allowed: EXPRESSION_ALLOWED,
  }),
  transitions: key(z.array(z.unknown()).min(1), {
    description: "Conditions and their next steps; the first condition that is true applies",
    allowed: "a list of at least one condition with its next step",
    aliases: ["conditions"],
    required: true,
  }),
  default: key(id, {
    description: "The next step if no condition is true",
    allowed: "the id of a step",
    aliases: ["default_next", "defaultNext"],
    unset: "the step fails",
  }),
} satisfies Keys;

export const TRANSITION_KEYS = {
  condition: key(z.union([z.string(), z.number(), z.boolean(), z.null()]), {
    description:
      "With `expression` in the step: the value to compare with. Without it: a CEL expression that must be `true`",
    allowed: "text, a number, true, false or null",
  }),
  if: key(text, {
    description: "A CEL expression that must be `true`; `value` is that of the step's `expression`",
    allowed: EXPRESSION_ALLOWED,
    aliases: ["when"],
  }),
  next: key(id, {
    description: "The next step",
    allowed: "the id of a step",
    aliases: ["transition"],
    required: true,
  }),
} satisfies Keys;

const PARALLEL = {
  branches: key(z.array(z.unknown()).min(1).max(100), {
    description: "Lists of steps that run at the same time",
    allowed: "a list of 1 to 100 branches",
    required: true,
  }),
  max_concurrency: CONCURRENCY,
  join: key(z.union([z.literal("all"), z.strictObject({ mode: z.literal("all") })]), {
    description: "The step ends when all branches have ended",
    allowed: "all",
    unset: "`all`",
  }),
} satisfies Keys;

export const BRANCH_KEYS = {
  name: key(id, {
    description: "The name of the branch in the step's output",
    allowed: ID_ALLOWED,
    aliases: ["id"],
    required: true,
  }),
  start: WORKFLOW_KEYS.start,
  steps: WORKFLOW_KEYS.steps,
} satisfies Keys;

const FOREACH = {
  items: key(text, {
    description: "A CEL expression for the list of items",
    allowed: EXPRESSION_ALLOWED,
    aliases: ["itemsPath", "items_path"],
    required: true,
  }),
  item: key(z.string().regex(VARIABLE), {
    description: "The variable for the item in expressions; its number, from 0, is `index`",
    allowed: "a letter or underscore, then letters, digits and underscores",
    aliases: ["itemName", "item_name", "itemVariable", "as"],
    unset: "`item`",
  }),
  steps: key(steps, {
    description: "The steps to run for each item",
    allowed: STEPS_ALLOWED,
    aliases: ["states", "iterator", "do"],
    required: true,
  }),
  start: WORKFLOW_KEYS.start,
  max_concurrency: key(whole(1, MAX_CONCURRENCY), {
    description: "How many items are processed at once. Results keep the order of the items",
    allowed: wholeAllowed(1, MAX_CONCURRENCY),
    aliases: ["maxConcurrency"],
    unset: "1",
  }),
  max_items: key(whole(1, MAX_ITEMS), {
    description: "The step fails if there are more items",
    allowed: wholeAllowed(1, MAX_ITEMS),
    aliases: ["maxItems"],
    unset: "1000",
  }),
} satisfies Keys;

const TRANSFORM = {
  expression: key(text, {
    description: "A CEL expression whose value becomes the output",
    allowed: EXPRESSION_ALLOWED,
  }),
  values: key(anything, {
    description: "The output, instead of `expression`. A template",
    allowed: "any value",
    aliases: ["set", "data"],
  }),
} satisfies Keys;

const APPROVAL = {
  message: key(text, {
    description: "The question for the person. A template",
    allowed: TEXT_ALLOWED,
    unset: "the step's name",
  }),
  on_reject: key(id, {
    description: "The next step after a rejection",
    allowed: "the id of a step",
    aliases: ["onReject"],
    unset: "the step fails",
  }),
} satisfies Keys;

const TRY = {
  try: key(steps, {
    description: "The steps to try",
    allowed: STEPS_ALLOWED,
    aliases: ["steps", "states"],
    required: true,
  }),
  catch: key(steps, {
    description:
      "The steps to run if one of those fails; `error.code`, `error.message` and `error.step` give the reason",
    allowed: STEPS_ALLOWED,
    required: true,
  }),
} satisfies Keys;

const TIMER = {
  seconds: key(duration, {
    description: "How long to wait",
    allowed: DURATION_ALLOWED,
    aliases: ["duration", "wait_seconds"],
  }),
  until: key(text, {
    description:
      "A CEL expression for the time at which the wait ends, instead of `seconds`: a timestamp or ISO 8601 text",
    allowed: EXPRESSION_ALLOWED,
  }),
} satisfies Keys;

const END = {
  output: key(anything, {
    description: "The output of the run, or of the list of steps that ends here. A template",
    allowed: "any value",
    unset: "the output of the previous step",
  }),
  status: key(z.enum(["succeeded", "failed"]), {
    description: "With `failed`, the step fails",
    allowed: "succeeded or failed",
    unset: "`succeeded`",
  }),
  message: key(text, {
    description: "The reason for the failure. A template",
    allowed: TEXT_ALLOWED,
  }),
} satisfies Keys;

export const STEP_KEYS = {
  agent: { ...COMMON, ...AGENT, ...TIMEOUT, ...FLOW },
  switch: { ...COMMON, ...SWITCH },
  parallel: { ...COMMON, ...PARALLEL, ...TIMEOUT, ...FLOW },
  foreach: { ...COMMON, ...FOREACH, ...TIMEOUT, ...FLOW },
  transform: { ...COMMON, ...TRANSFORM, ...FLOW },
  approval: { ...COMMON, ...APPROVAL, ...TIMEOUT, ...FLOW },
  try: { ...COMMON, ...TRY, ...TIMEOUT, ...FLOW },
  timer: { ...COMMON, ...TIMER, ...FLOW },
  end: { ...COMMON, ...END },
} satisfies Record<string, Keys>;

export type StepType = keyof typeof STEP_KEYS;

/** Other names of the kinds of steps. */
export const TYPE_ALIASES: Readonly<Record<string, StepType>> = {
  set: "transform",
  inject: "transform",
  human: "approval",
  human_approval: "approval",
  "human.approval": "approval",
  try_catch: "try",
  wait: "timer",
  delay: "timer",
};
