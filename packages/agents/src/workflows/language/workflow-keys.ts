/** The keys of a workflow itself; the reference page is generated from this. */
import { z } from "zod";
import {
  duration,
  id,
  ID_ALLOWED,
  steps,
  STEPS_ALLOWED,
  text,
  TEXT_ALLOWED,
  whole,
  wholeAllowed,
} from "./key-kinds.ts";
import { key } from "./keys.ts";
import type { Keys } from "./keys.ts";

/** The longest lease that a daemon grants. */
const MAX_RETAIN_MS = 86_400_000;
const MAX_RUN_STEPS = 100_000;

export const WORKFLOW_KEYS = {
  id: key(id, {
    description: "The name for running the workflow",
    allowed: ID_ALLOWED,
    unset: "the file's name without its extension",
  }),
  name: key(text, { description: "A title for people", allowed: TEXT_ALLOWED }),
  description: key(text, { description: "What the workflow does", allowed: TEXT_ALLOWED }),
  version: key(z.union([z.string(), z.number()]), {
    description: "The version of the file, for display only",
    allowed: "text or a number",
  }),
  start: key(id, {
    description: "The id of the first step",
    allowed: "the id of a step",
    unset: "the first in the list",
  }),
  steps: key(steps, {
    description: "The steps, in order",
    allowed: STEPS_ALLOWED,
    aliases: ["states"],
    required: true,
  }),
  input_schema: key(z.record(z.string(), z.unknown()), {
    description: "A JSON Schema that the input of a run must match",
    allowed: "a mapping with a JSON Schema",
    aliases: ["inputSchema"],
    unset: "any input",
  }),
  max_steps: key(whole(1, MAX_RUN_STEPS), {
    description: "The maximum number of steps of a run, including repeated ones",
    allowed: wholeAllowed(1, MAX_RUN_STEPS),
    aliases: ["maxSteps"],
    unset: "10000",
  }),
  sandbox: key(z.record(z.string(), z.unknown()), {
    description: "Settings of the sandboxes that the steps share",
    allowed: "a mapping with retain_seconds",
  }),
} satisfies Keys;

export const SANDBOX_KEYS = {
  retain_seconds: key(
    duration.refine((ms) => ms <= MAX_RETAIN_MS),
    {
      description:
        "How long the sandboxes of a run are kept after its end, for example to inspect files. A cancelled run keeps none",
      allowed: "seconds, or a duration such as 90s, 5m or 1h30m, of at most 24 hours",
      aliases: ["retainSeconds", "retain"],
      unset: "0: they are destroyed when the run ends",
    },
  ),
} satisfies Keys;

/** A list of steps, at any level. */
export const BLOCK_KEYS = { start: WORKFLOW_KEYS.start, steps: WORKFLOW_KEYS.steps } satisfies Keys;
