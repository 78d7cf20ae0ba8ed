import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { apiPage } from "./api-page/api-page.ts";
import { servedDocument } from "./generate-api-page.ts";

const PAGE = new URL("../../../../../../docs/reference/api.md", import.meta.url);

describe("docs/reference/api.md", () => {
  it("matches the daemon's document; if this fails, regenerate it with generate-api-page.ts", async () => {
    expect(await readFile(PAGE, "utf8")).toBe(apiPage(await servedDocument()));
  });

  it("has a heading for every call of the document", async () => {
    const page = await readFile(PAGE, "utf8");
    const { paths } = await servedDocument();
    const calls = Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `### ${method.toUpperCase()} ${path}`),
    );
    expect(calls.length).toBeGreaterThan(40);
    expect(
      page
        .split("\n")
        .filter((line) => /^### [A-Z]+ \//.test(line))
        .toSorted(),
    ).toEqual(calls.toSorted());
  });

  it("links only to headings that it has", async () => {
    const page = await readFile(PAGE, "utf8");
    const headings = new Set(
      [...page.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => title.toLowerCase()),
    );
    const links = [...page.matchAll(/\]\(#([^)]+)\)/g)].map(([, target]) => target);
    expect(links.length).toBeGreaterThan(20);
    expect(links.filter((target) => !headings.has(target ?? ""))).toEqual([]);
  });
});
