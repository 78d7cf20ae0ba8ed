import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { errorsPage } from "./generate-errors-page.ts";

describe("docs/reference/errors.md", () => {
  it("matches the catalogue; if this fails, regenerate it with generate-errors-page.ts", async () => {
    const page = new URL("../../../docs/reference/errors.md", import.meta.url);
    expect(await readFile(page, "utf8")).toBe(errorsPage());
  });
});
