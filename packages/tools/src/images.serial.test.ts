/**
 * Sandboxes with another image: one with the Node that runs this test, which strips types by
 * itself.
 */
import { execFile } from "node:child_process";
import { openAsBlob } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packTree } from "../../../tests/support/images.ts";
import { ToolFixture } from "./testing/tool-fixture.ts";

const run = promisify(execFile);
const IMAGE = "node-of-test:1";

/** An image with a shell and this process's Node, with the libraries that both need. */
async function nodeImage(directory: string): Promise<Blob> {
  const root = join(directory, "root");
  const programs = [
    { from: process.execPath, to: "/usr/bin/node" },
    { from: "/bin/sh", to: "/bin/sh" },
  ];
  const { stdout } = await run(
    "ldd",
    programs.map(({ from }) => from),
  );
  const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path = ""]) => path);
  const files = [...programs, ...libraries.map((path) => ({ from: path, to: path }))];
  for (const { from, to } of files) {
    await mkdir(join(root, dirname(to)), { recursive: true });
    await copyFile(from, join(root, to));
  }
  return await openAsBlob(await packTree(root));
}

let directory: string;
let fixture: ToolFixture;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-node-"));
  fixture = await ToolFixture.start({ settings: { DEFAULTS_MEM_LIMIT_MB: "512" } });
  await fixture.client.images.import(IMAGE, await nodeImage(directory));
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

it("TypeScript runs directly if Node strips types, with the files that it imports", async () => {
  const agent = fixture.agent({ runtime: "typescript", image: IMAGE });
  const result = await agent.call("sandbox_run", {
    code: 'import { double } from "./double.ts";\nconst n: number = double(21);\nconsole.log(n, process.argv[1]);',
    files: { "double.ts": "export const double = (n: number): number => 2 * n;\n" },
  });
  expect(result).toMatchObject({ ok: true, stdout: "42 /work/main.ts\n" });
});

it("a live sandbox with another image is an error, and session_key creates another one", async () => {
  const workflowScope = fixture.scope("images", "workflow");
  const agent = fixture.agent({ mode: "code", image: IMAGE }, { workflowScope });
  const opened = await agent.call("sandbox_open");
  expect(opened).toMatchObject({ image: IMAGE, created: true });
  const other = { image: "linux" };
  await expect(agent.call("sandbox_open", other)).rejects.toMatchObject({
    code: "CONFLICT",
    message: expect.stringMatching(/has the image node-of-test:1.*Leave image out/) as string,
  });
  const second = await agent.call("sandbox_open", { ...other, session_key: "second" });
  expect(second).toMatchObject({ image: "host", created: true });

  // An agent that requests no image gets the workflow's sandbox as it is.
  const undemanding = fixture.agent({ mode: "code" }, { workflowScope });
  expect(await undemanding.call("sandbox_open")).toMatchObject({
    sandbox_id: opened.sandbox_id,
    image: IMAGE,
    created: false,
  });
  const python = fixture.agent({ mode: "code", runtime: "python" }, { workflowScope });
  await expect(python.call("sandbox_exec", { cmd: "true" })).rejects.toMatchObject({
    code: "CONFLICT",
  });
});
