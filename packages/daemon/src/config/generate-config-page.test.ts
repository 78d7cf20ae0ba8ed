import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { configPage } from "./generate-config-page.ts";
import { configKeys } from "./keys.ts";
import { makePlace } from "./testing/load-fixture.ts";

const PAGE = new URL("../../../../docs/reference/config.md", import.meta.url);

describe("docs/reference/config.md", () => {
  it("matches the declarations; if this fails, regenerate it with generate-config-page.ts", async () => {
    expect(await readFile(PAGE, "utf8")).toBe(configPage());
  });

  it("names every key and its variable", async () => {
    const page = await readFile(PAGE, "utf8");
    for (const { name, variable } of configKeys()) {
      expect(page).toContain(`| \`${name}\` | \`${variable}\` |`);
    }
  });

  it("has a valid example file", async () => {
    const yaml = /```yaml\n(.*?)```/s.exec(await readFile(PAGE, "utf8"))?.[1];
    const { load } = await makePlace(yaml);
    const config = await load();
    expect(config.warnings).toEqual([]);
    expect(config.apiKeys.map(({ name }) => name)).toEqual(["default", "ci"]);
  });
});
