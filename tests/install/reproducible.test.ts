/** The same sources produce the same files, wherever and whenever they are built. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ReleaseBuild } from "../support/release-build.ts";

const TIMEOUT = { timeout: 15 * 60_000 };

test.each(["npm", "python", "debian"] as const)(
  "%s: two builds are the same",
  TIMEOUT,
  async (part) => {
    await using one = await ReleaseBuild.create(part);
    await using other = await ReleaseBuild.create(part, {
      TZ: "Asia/Kathmandu",
      LANG: "C",
      umask: "077",
    });
    const [sums, others] = await Promise.all(
      [one, other].map(({ directory }) => readFile(join(directory, "SHA256SUMS"), "utf8")),
    );
    expect(sums?.trim().split("\n").length).toBeGreaterThan(1);
    expect(others).toBe(sums);
  },
);
