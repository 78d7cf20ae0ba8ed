/** The error for each failure of the launcher, checked with the launcher's own examples. */
import { readFile } from "node:fs/promises";
import { launcherFailureSchema } from "@sandkasten/protocol";
import { expect, test } from "vitest";
import { z } from "zod";
import { launcherError } from "./launcher.ts";

const FIXTURES = new URL("../../../../protocol/fixtures/launcher.json", import.meta.url);
const { failures } = z
  .object({
    failures: z.array(
      z.object({ name: z.string(), code: z.string(), answer: launcherFailureSchema }),
    ),
  })
  .parse(JSON.parse(await readFile(FIXTURES, "utf8")));

test.each(failures)("$name is $code", ({ code, answer }) => {
  expect(launcherError("create", answer)).toMatchObject({ code });
});
