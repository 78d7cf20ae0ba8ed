import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { frontmatterSchema } from "./frontmatter-schema.ts";
import { frontmatterPage } from "./generate-frontmatter-page.ts";
import { parsePrompt } from "./parse-prompt.ts";

const PAGE = new URL("../../../../docs/reference/frontmatter.md", import.meta.url);

test("docs/reference/frontmatter.md matches the schemas; if this fails, regenerate it with generate-frontmatter-page.ts", async () => {
  expect(await readFile(PAGE, "utf8")).toBe(frontmatterPage());
});

test("it describes every key, including those of the sandbox and nested ones", async () => {
  const page = await readFile(PAGE, "utf8");
  for (const name of Object.keys(frontmatterSchema.shape))
    expect(page).toContain(`| \`${name}\` |`);
  for (const name of [
    "sandbox.limits.memory_mb",
    "sandbox.network.enabled",
    "mcp.NAME.command",
    "mcp.NAME.url",
    "input.schema",
    "config.temperature",
  ])
    expect(page).toContain(`| \`${name}\` |`);
  expect(page).not.toMatch(/\| +\|$/m);
});

test("its example agent is valid", async () => {
  const source = /```yaml\n(---\n.*?)```/s.exec(await readFile(PAGE, "utf8"))?.[1] ?? "";
  expect(await parsePrompt("agents/shown.prompt", source)).toMatchObject({
    title: "Python Developer",
    maxSteps: 20,
    sandbox: { mode: "code", limits: { memoryMb: 512 } },
  });
});
