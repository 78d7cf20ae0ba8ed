/** The documentation is correct: its code runs, its output is real, its links work. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { composeEmbedded, loadConfig } from "@sandkasten/daemon";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exists } from "../../packages/daemon/src/exists.ts";
import { codeBlocks, headingAnchors, localLinks, shownOutput } from "../support/markdown.ts";
import type { CodeBlock } from "../support/markdown.ts";
import { runGuide } from "../support/run-guide.ts";
import { TestDaemon } from "../support/test-daemon.ts";
import { freePort } from "../support/free-port.ts";

const run = promisify(execFile);
/** A separate test, in the SDK's package, compiles all its code. */
const SDK_GUIDE = "docs/guides/sdk.md";
const TRIED_ELSEWHERE: ReadonlySet<string> = new Set([
  // Run by image-recipes.test.ts, with an image that has Python.
  "docs/guides/image-recipes.md",
  // Examples of single commands, which examples.test.ts parses; some never end.
  "docs/reference/cli.md",
]);

let directory: string;
let daemon: TestDaemon;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-docs-"));
  daemon = await TestDaemon.start();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const read = async (path: string): Promise<string> => await readFile(path, "utf8");

const withCommands: string[] = [];
for (const document of await allDocuments())
  if (!TRIED_ELSEWHERE.has(document) && commandsOf(await read(document)).length > 0)
    withCommands.push(document);

describe.concurrent("a reader", () => {
  test.for(withCommands)("can follow %s", async (document) => await follow(document));

  test("sees at `npm start` what the first steps show", async () => {
    const shown = codeBlocks(await read("docs/guides/first-steps.md"), "text")
      .map(({ text }) => text)
      .find((text) => text.includes("Ctrl-C stops"));
    const place = join(directory, "start");
    await mkdir(place);
    const file = join(place, "sandkasten.yaml");
    const settings = { listen: "127.0.0.1:0", data_dir: join(place, "data"), shutdown: "destroy" };
    await writeFile(file, JSON.stringify(settings));
    const agents = ["--agents-dir", "examples/agents", "--agents-listen", "127.0.0.1:0"];
    const arguments_ = ["packages/cli/src/main.ts", "start", "--config", file, ...agents];
    const started = spawn(process.execPath, arguments_, {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, SANDKASTEN_AGENTS_DATA_DIR: join(place, "agents") },
    });
    const exited = once(started, "exit");
    let printed = "";
    for await (const line of createInterface(started.stdout)) {
      printed += `${line}\n`;
      if (line.startsWith("Ctrl-C stops")) started.kill("SIGINT");
    }
    // A port other than the default must also be named in other terminals.
    const here = (shown ?? "")
      .replaceAll(/127\.0\.0\.1:8080|127\.0\.0\.1:8587/g, "127.0.0.1:…")
      .replace("\npackages/cli", "\nSANDKASTEN_URL=… SANDKASTEN_API_KEY=… packages/cli")
      .replace(/\n(?=.* agent list$)/m, "\nSANDKASTEN_AGENTS_URL=… ");
    expect(printed).toMatch(shownOutput(here));
    expect(await exited).toEqual([0, null]);
  });
});

/** Runs a document's commands one after the other, and compares their output with the text. */
async function follow(document: string): Promise<void> {
  const places = {
    "http://127.0.0.1:8080": daemon.url,
    "/var/lib/sandkasten": daemon.dataDir,
    "127.0.0.1:8081": `127.0.0.1:${await freePort()}`,
  };
  const here = (text: string): string =>
    Object.entries(places).reduce((moved, [there, place]) => moved.replaceAll(there, place), text);
  const text = await read(document);
  const blocks = commandsOf(text);
  const place = join(directory, document.replaceAll("/", "-"));
  await mkdir(place);
  for (const { text: yaml } of codeBlocks(text, "yaml"))
    await writeFile(join(place, "sandkasten.yaml"), here(yaml), { mode: 0o600 });
  try {
    const moved = blocks.map((block) => ({ ...block, text: here(block.text) }));
    const { runs, exitCode } = await runGuide(moved, place);
    for (const { block, output } of runs)
      if (block.output !== undefined)
        expect(output, `${document}:${block.line}`).toMatch(shownOutput(here(block.output)));
    const last = runs.at(-1);
    expect(
      { exitCode, begun: runs.length },
      `${document}:${last?.block.line} printed ${last?.output}`,
    ).toEqual({ exitCode: 0, begun: blocks.length });
  } finally {
    await destroySandboxes(join(place, "trial"));
  }
}

/** Cleans up the daemon of a guide that failed half-way. */
async function destroySandboxes(dataDir: string): Promise<void> {
  if (!(await exists(dataDir))) return;
  const { backend } = await composeEmbedded({ dataDir });
  for (const { id } of await backend.list()) await backend.destroy(id);
}

/** Set-up and the tests themselves are left out; another test checks that npm knows them. */
function commandsOf(document: string): readonly CodeBlock[] {
  const isOfNpm = (line: string): boolean => line === "" || line.startsWith("npm ");
  return codeBlocks(document, "sh").filter(({ text }) => !text.split("\n").every(isOfNpm));
}

test("every guide with commands is followed", () => {
  const guides =
    "first-steps sandbox previews tools prompt-agents workflows images isolation keys events configuration operations";
  expect(withCommands).toEqual(
    expect.arrayContaining([
      "README.md",
      ...guides.split(" ").map((name) => `docs/guides/${name}.md`),
    ]),
  );
});

test("programs in the documentation are identical to the examples", async () => {
  const names = (await readdir("examples", { recursive: true })).filter((name) =>
    name.endsWith(".ts"),
  );
  const examples = await Promise.all(names.map(async (name) => await read(join("examples", name))));
  const documents = (await allDocuments()).filter((document) => document !== SDK_GUIDE);
  const texts = await Promise.all(documents.map(read));
  const programs = texts.flatMap((text) => codeBlocks(text, "ts")).map(({ text }) => text);
  expect(programs.toSorted()).toEqual(examples.toSorted());
  expect(codeBlocks(await read("README.md"), "ts").map(({ text }) => text)).toEqual([
    await read("examples/first-sandbox.ts"),
  ]);
});

test("the embedded example runs and leaves nothing behind", async () => {
  const dataDir = join(directory, "embedded");
  const { stdout } = await run(process.execPath, ["examples/embedded.ts", dataDir]);
  expect(stdout).toBe("hello from /tmp\nexit 0, the shell is now in /tmp\n");
  expect(await readdir(join(dataDir, "sandboxes"))).toEqual([]);
});

test("the complete configuration file is accepted and has every key", async () => {
  const [yaml] = codeBlocks(await read("docs/guides/configuration.md"), "yaml");
  const file = join(directory, "complete.yaml");
  await writeFile(file, yaml?.text ?? "", { mode: 0o600 });
  const config = await loadConfig({ env: {}, cwd: directory, file, home: directory, isRoot: true });
  expect(config.warnings).toEqual([]);
  const missing = config.settings.filter(({ source }) => source.kind !== "file");
  // A file has one of the three sources of an issuer's keys.
  expect(missing.map(({ key }) => key)).toEqual(["jwt.jwks_file", "jwt.public_key"]);
  expect(config.apiKeys.map(({ name, maxSessions }) => [name, maxSessions])).toEqual([
    ["default", 100],
    ["ci", 20],
    ["notebook", 100],
  ]);
});

test("the data directory contains what the guide says, and nothing else", async () => {
  await daemon.open();
  const [section = ""] =
    /^## The data directory$.*?(?=^## )/ms.exec(await read("docs/guides/operations.md")) ?? [];
  const named = [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = ""]) => name);
  // SQLite's temporary files come and go.
  const found = (await readdir(daemon.dataDir)).filter((name) => !/-(?:wal|journal)$/.test(name));
  expect(named.toSorted()).toEqual(found.toSorted());
});

test("the program in the service's unit exists", async () => {
  const [unit] = codeBlocks(await read("docs/guides/operations.md"), "ini");
  const program = /^ExecStart=\/opt\/sandkasten\/(\S+) daemon --config /m.exec(
    unit?.text ?? "",
  )?.[1];
  expect((await stat(program ?? "")).mode & 0o111).not.toBe(0);
});

const OF_NPM_ITSELF: ReadonlySet<string | undefined> = new Set(["install", "pack"]);

test("every npm command in the documentation exists", async () => {
  const { scripts } = JSON.parse(await read("package.json")) as { scripts: object };
  const known = Object.keys(scripts);
  const texts = await Promise.all((await allDocuments()).map(read));
  const named = texts
    .flatMap((text) => [...text.matchAll(/(?:^|`)npm (?:run )?([a-z-]+)/gm)])
    .map(([, name]) => name)
    .filter((name) => !OF_NPM_ITSELF.has(name));
  expect(new Set(named)).toEqual(
    new Set(["start", "test", "torture", "setup", "example", "bench", "release"]),
  );
  expect(named.filter((name) => !known.includes(name ?? ""))).toEqual([]);
});

test("links between documents are valid", async () => {
  const documents = await allDocuments();
  expect(documents.length).toBeGreaterThan(15);
  const broken: string[] = [];
  for (const document of documents)
    for (const link of localLinks(await read(document)))
      if (!(await leadsSomewhere(document, link))) broken.push(`${document}: ${link}`);
  expect(broken).toEqual([]);
});

async function leadsSomewhere(document: string, link: string): Promise<boolean> {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? document : resolve(dirname(document), path);
  if (!(await exists(target))) return false;
  return anchor === undefined || headingAnchors(await read(target)).has(anchor);
}

async function allDocuments(): Promise<readonly string[]> {
  const names = await readdir("docs", { recursive: true });
  const markdown = names.filter((name) => name.endsWith(".md")).toSorted();
  return ["README.md", ...markdown.map((name) => join("docs", name))];
}
