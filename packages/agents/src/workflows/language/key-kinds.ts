/** The kinds of values that the keys of a workflow accept, and their names in messages. */
import { z } from "zod";
import { durationMs } from "./duration.ts";

/** Ids appear in expressions (`steps.ID`), in URLs and in graphs. */
const ID = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/;

export const id = z.string().regex(ID);
export const ID_ALLOWED = "1 to 64 letters, digits, dashes and underscores";
export const text = z.string().min(1);
export const TEXT_ALLOWED = "text";
export const EXPRESSION_ALLOWED = "text with a CEL expression";
export const steps = z.union([z.array(z.unknown()).min(1), z.record(z.string(), z.unknown())]);
export const STEPS_ALLOWED = "a list of at least one step";
export const whole = (least: number, most: number): z.ZodNumber => z.int().min(least).max(most);
export const wholeAllowed = (least: number, most: number): string =>
  `a whole number from ${least} to ${most}`;

export const duration = z.union([z.number(), z.string()]).transform((value, context) => {
  const ms = durationMs(value);
  if (ms !== undefined) return ms;
  context.addIssue("not a duration");
  return z.NEVER;
});
export const positive = duration.refine((ms) => ms > 0);
export const DURATION_ALLOWED =
  "seconds, or a duration such as 90s, 5m or 1h30m, of at most 366 days";
