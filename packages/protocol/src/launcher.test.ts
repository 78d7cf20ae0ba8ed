/** The examples that the launcher's own tests also read. */
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { launcherCommands, launcherFailureKindSchema, launcherFailureSchema } from "./launcher.ts";

const commandSchema = z.enum(Object.keys(launcherCommands) as (keyof typeof launcherCommands)[]);
const fixtures = z
  .object({
    requests: z.array(z.object({ name: z.string(), command: commandSchema, request: z.unknown() })),
    refused: z.array(z.object({ name: z.string(), request: z.unknown() })),
    answers: z.array(z.object({ name: z.string(), command: commandSchema, answer: z.unknown() })),
    failures: z.array(z.object({ name: z.string(), answer: z.unknown() })),
  })
  .parse(JSON.parse(await readFile(new URL("../fixtures/launcher.json", import.meta.url), "utf8")));

describe("the contract with the launcher", () => {
  it.each(fixtures.requests)("accepts the request: $name", ({ command, request }) => {
    expect(launcherCommands[command].request.parse(request)).toMatchObject(request as object);
  });

  it.each(fixtures.refused)("refuses a create with $name", ({ request }) => {
    expect(launcherCommands.create.request.safeParse(request).success).toBe(false);
  });

  it.each(fixtures.answers)("accepts the answer: $name", ({ command, answer }) => {
    const read = launcherCommands[command].answer.parse(answer);
    expect(answer).toMatchObject(withoutDefaults(read));
  });

  it.each(fixtures.failures)("accepts the failure: $name", ({ answer }) => {
    expect(launcherFailureSchema.parse(answer)).toEqual(answer);
    for (const { answer: schema } of Object.values(launcherCommands))
      expect(schema.safeParse(answer).success).toBe(false);
  });

  it("has an example of every command and of every kind of failure", () => {
    const asked = new Set(fixtures.requests.map(({ command }) => command));
    const answered = new Set(fixtures.answers.map(({ command }) => command));
    for (const [command, { request }] of Object.entries(launcherCommands)) {
      expect(answered).toContain(command);
      if (!(request instanceof z.ZodUndefined)) expect(asked).toContain(command);
    }
    const failures = JSON.stringify(fixtures.failures);
    for (const kind of launcherFailureKindSchema.options) expect(failures).toContain(`"${kind}"`);
  });
});

/** What a schema adds by default is not part of an answer. */
function withoutDefaults(answer: object): object {
  return JSON.parse(
    JSON.stringify(answer, (_, value: unknown) =>
      Array.isArray(value) && value.length === 0 ? undefined : value,
    ),
  ) as object;
}
