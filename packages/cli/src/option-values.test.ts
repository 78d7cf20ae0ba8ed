import { describe, expect, it } from "vitest";
import { assemble } from "./assemble.ts";
import { processHost } from "./host.ts";
import { attachValues } from "./option-values.ts";
import { TestDaemon } from "./testing/test-daemon.ts";

const { program } = assemble(processHost());
const attached = (line: string): string => attachValues(program, line.split(" ")).join(" ");

describe("attachValues()", () => {
  it.each([
    ["events ses_1 --cursor -Vk3 --json", "events ses_1 --cursor=-Vk3 --json"],
    ["--json key create ci --owner --json", "--json key create ci --owner=--json"],
    ["run -ie -V=1 -- ls", "run -ie-V=1 -- ls"],
    ["--api-key -Vk3 ls", "--api-key=-Vk3 ls"],
  ])("makes of `%s` `%s`", (given, wanted) => {
    expect(attached(given)).toBe(wanted);
  });

  it.each([
    "events ses_1 --cursor 3Vk --json",
    "events --cursor=-Vk3",
    "events --follow -V",
    "exec ses_1 -- ls --cursor -V",
    "events --cursor",
    "events --cursor -",
    "",
  ])("leaves `%s` as it is", (given) => {
    expect(attached(given)).toBe(given);
  });
});

it("an option's value can look like an option of the program", async () => {
  await using daemon = await TestDaemon.start();
  const cursor = `-V${"k".repeat(20)}`;
  const { code, stdout } = await daemon.run(["events", "--cursor", cursor]);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/  gap  .*unknown_cursor/)]);
  expect(await daemon.run(["events", "--cursor", "--json"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("cursor"),
  });
});
