/** TypeScript in an image whose Node strips types by itself: that of the node that runs this test. */
import { execFile } from "node:child_process";
import { openAsBlob } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { packTree } from "../../../../tests/support/images.ts";
import { ToolFixture } from "../testing/tool-fixture.ts";

const run = promisify(execFile);

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

it("is run as it is, with the TypeScript files that it imports", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-node-"));
  try {
    await using fixture = await ToolFixture.start({ settings: { DEFAULTS_MEM_LIMIT_MB: "512" } });
    await fixture.client.images.import("node-of-test:1", await nodeImage(directory));
    const agent = fixture.agent({ runtime: "typescript", image: "node-of-test:1" });
    const result = await agent.call("sandbox_run", {
      code: 'import { double } from "./double.ts";\nconst n: number = double(21);\nconsole.log(n, process.argv[1]);',
      files: { "double.ts": "export const double = (n: number): number => 2 * n;\n" },
    });
    expect(result).toMatchObject({ ok: true, stdout: "42 /work/main.ts\n" });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
