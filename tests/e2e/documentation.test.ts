import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);

test("the README shows the example as it is, and the example runs", async () => {
  const example = await readFile("examples/embedded.ts", "utf8");
  expect(await readFile("README.md", "utf8")).toContain(`\`\`\`ts\n${example}\`\`\``);
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  try {
    const { stdout } = await run(process.execPath, ["examples/embedded.ts", dataDir]);
    expect(stdout).toBe("hello from /tmp\nexit 0, the shell is now in /tmp\n");
    expect(await readdir(join(dataDir, "sandboxes"))).toEqual([]);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("every command that the README names exists", async () => {
  const readme = await readFile("README.md", "utf8");
  const { scripts } = JSON.parse(await readFile("package.json", "utf8")) as {
    scripts: Record<string, string>;
  };
  const named = [...readme.matchAll(/^npm (?:run )?(\w+)/gmu)].map(([, name]) => name);
  expect(named).toEqual(["test", "example", "bench"]);
  for (const name of named) expect(Object.keys(scripts)).toContain(name);
});

test("links between documents lead somewhere", async () => {
  const documents = ["README.md", ...(await markdownBelow("docs"))];
  expect(documents.length).toBeGreaterThan(5);
  for (const document of documents) {
    const text = await readFile(document, "utf8");
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)/gu))
      await expect(
        readFile(resolve(dirname(document), target ?? "")).catch((error: unknown) =>
          error instanceof Error && "code" in error && error.code === "EISDIR" ? "a folder" : error,
        ),
        `${document} → ${target}`,
      ).resolves.not.toBeInstanceOf(Error);
  }
});

async function markdownBelow(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return names.filter((name) => name.endsWith(".md")).map((name) => join(folder, name));
}
