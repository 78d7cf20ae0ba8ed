/** Agents are added, changed, broken and removed while the catalogue is open. */
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AgentCatalogue } from "./agent-catalogue.ts";

let dir: string;
let catalogue: AgentCatalogue;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sandkasten-catalogue-"));
  catalogue = new AgentCatalogue({ dir, log: pino({ level: "silent" }), rescanMs: 50 });
});
afterEach(async () => {
  catalogue.close();
  await rm(dir, { recursive: true, force: true });
});

const source = (title: string) => `---\nmodel: a/b\nmetadata: { name: ${title} }\n---\nHello\n`;
const write = async (file: string, text: string) =>
  await writeFile(join(dir, "agents", file), text);

/** The name of each agent, or that it is invalid. */
function titles(): Record<string, string> {
  return Object.fromEntries(
    catalogue
      .entries()
      .map((entry) => [entry.name, "error" in entry ? "broken" : (entry.definition.title ?? "")]),
  );
}

async function until(expected: Record<string, string>): Promise<void> {
  while (JSON.stringify(titles()) !== JSON.stringify(expected))
    await new Promise((resolve) => setTimeout(resolve, 5));
}

test("agents are found by file name first, then by title", async () => {
  await mkdir(join(dir, "agents"));
  await write("one.prompt", source("two"));
  await write("two.prompt", source("Other"));
  await catalogue.open();
  expect(catalogue.find("two")?.name).toBe("two");
  expect(catalogue.find("Other")?.name).toBe("two");
  expect(catalogue.find("nothing")).toBeUndefined();
});

test("written, replaced, renamed and deleted files are noticed", async () => {
  await mkdir(join(dir, "agents"));
  await write("one.prompt", source("First"));
  await catalogue.open();
  await until({ one: "First" });
  await write("one.prompt", source("Again"));
  await until({ one: "Again" });
  await write(".one.prompt.tmp", source("Saved"));
  await rename(join(dir, "agents", ".one.prompt.tmp"), join(dir, "agents", "one.prompt"));
  await until({ one: "Saved" });
  await rename(join(dir, "agents", "one.prompt"), join(dir, "agents", "two.prompt"));
  await until({ two: "Saved" });
  await rm(join(dir, "agents", "two.prompt"));
  await until({});
});

test("an invalid file shows its error and the others keep working", async () => {
  await mkdir(join(dir, "agents"));
  await write("bad.prompt", "---\nmodel: [\n---\nHello\n");
  await write("good.prompt", source("Good"));
  await catalogue.open();
  expect(titles()).toEqual({ bad: "broken", good: "Good" });
  expect(catalogue.find("bad")).toMatchObject({
    error: expect.stringMatching(/^agents\/bad\.prompt:\d+:\d+: bad YAML/) as string,
  });
  await write("good.prompt", "no frontmatter");
  await write("bad.prompt", source("Mended"));
  await until({ bad: "Mended", good: "broken" });
});

test("a link to itself is invalid, and the others keep working", async () => {
  await mkdir(join(dir, "agents"));
  await symlink("loop.prompt", join(dir, "agents", "loop.prompt"));
  await write("good.prompt", source("Good"));
  await catalogue.open();
  expect(titles()).toEqual({ good: "Good", loop: "broken" });
});

test("a folder that is created later, removed and created again is read", async () => {
  await catalogue.open();
  expect(titles()).toEqual({});
  for (const title of ["Late", "Later"]) {
    await mkdir(join(dir, "agents"));
    await write("one.prompt", source(title));
    await until({ one: title });
    await rm(join(dir, "agents"), { recursive: true });
    await until({});
  }
});

test("hidden files, other files and directories are not agents; links to files are", async () => {
  await mkdir(join(dir, "agents", "folder.prompt"), { recursive: true });
  await write(".hidden.prompt", source("Hidden"));
  await write("notes.md", "Hello");
  await writeFile(join(dir, "elsewhere.prompt"), source("Linked"));
  await symlink(join(dir, "elsewhere.prompt"), join(dir, "agents", "link.prompt"));
  await symlink(join(dir, "nowhere.prompt"), join(dir, "agents", "dangling.prompt"));
  await catalogue.open();
  expect(titles()).toEqual({ link: "Linked" });
});

test("a file that is far too large is not read", async () => {
  await mkdir(join(dir, "agents"));
  await write("huge.prompt", "x".repeat(3_000_000));
  await catalogue.open();
  expect(catalogue.find("huge")).toMatchObject({
    error: expect.stringMatching(/larger than/) as string,
  });
});
