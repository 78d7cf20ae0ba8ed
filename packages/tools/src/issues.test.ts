/** The messages about values with the wrong form. */
import { expect, it } from "vitest";
import { z } from "zod";
import { describeIssues } from "./issues.ts";

const schema = z.strictObject({ cmd: z.union([z.string().min(1), z.array(z.string()).min(1)]) });

function problemOf(given: unknown): string {
  const { error } = schema.safeParse(given);
  return error === undefined ? "none" : describeIssues(error, schema);
}

it("lists every form that a value can have, and what is wrong with the intended one", () => {
  expect(problemOf({ cmd: 5 })).toBe(
    "`cmd`: expected string, received number, or expected array, received number",
  );
  expect(problemOf({ cmd: ["echo", 5] })).toBe("`cmd`: `1`: expected string, received number");
  expect(problemOf({ cmd: ["echo"] })).toBe("none");
});
