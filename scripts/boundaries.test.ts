import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-boundaries-"));
  await symlink(join(root, "node_modules"), join(directory, "node_modules"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Checks a tree of files with these imports and their targets. */
async function check(
  imports: Readonly<Record<string, string>>,
): Promise<{ readonly ok: boolean; readonly lines: string[] }> {
  const files = new Map(
    Object.entries(imports).map(([file, target]) => [file, `import ${JSON.stringify(target)};\n`]),
  );
  for (const [file, target] of Object.entries(imports)) {
    const led = join(dirname(file), target);
    if (target.startsWith(".") && !files.has(led)) files.set(led, "export {};\n");
  }
  for (const [file, text] of files) {
    const path = join(directory, "packages", file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  const { promise, resolve } = Promise.withResolvers<{ ok: boolean; lines: string[] }>();
  execFile(
    process.execPath,
    [join(root, "scripts/boundaries.ts"), directory],
    (error, stdout, stderr) => {
      const lines = `${stdout}${stderr}`.split("\n").filter((line) => /^[a-z]/.test(line));
      resolve({ ok: error === null, lines });
    },
  );
  return await promise;
}

describe("the boundary check", { timeout: 60_000 }, () => {
  test("refuses everything that is not listed: a part, a module of Node, a package or a folder", async () => {
    const { ok, lines } = await check({
      "daemon/src/sessions/allowed-part.ts": "../ports/clock.ts",
      "daemon/src/sessions/allowed-module.ts": "node:crypto",
      "daemon/src/sessions/allowed-package.ts": "re2js",
      "daemon/src/sessions/allowed.test.ts": "node:child_process",
      "daemon/src/surfaces/native/allowed.ts": "../http/app.ts",
      "daemon/src/sessions/a.ts": "../surfaces/http/app.ts",
      "daemon/src/sessions/b.ts": "node:child_process",
      "daemon/src/sessions/c.ts": "fastify",
      // Its entry is in a folder called dist.
      "daemon/src/sessions/c2.ts": "yaml",
      "daemon/src/surfaces/http/d.ts": "../native/e.ts",
      "daemon/src/backends/oci/f.ts": "../docker/g.ts",
      "daemon/src/images/h.ts": "./testing/i.ts",
      "sdk/src/j.ts": "../../daemon/src/index.ts",
      "daemon/src/novelty/k.ts": "../ports/clock.ts",
      "daemon/src/novelty/l.ts": "./m.ts",
      "daemon/src/sessions/n.ts": "./o.ts",
      "daemon/src/sessions/o.ts": "./n.ts",
    });
    expect(ok).toBe(false);
    const refused = (kind: string) =>
      lines
        .filter((line) => line.startsWith(`${kind}: `))
        .map((line) => /packages\/([^ ]+)/.exec(line)?.[1] ?? "")
        .toSorted();
    expect(refused("not-in-allowed")).toEqual([
      "daemon/src/backends/oci/f.ts",
      "daemon/src/images/h.ts",
      "daemon/src/novelty/k.ts",
      "daemon/src/novelty/l.ts",
      "daemon/src/sessions/a.ts",
      "daemon/src/sessions/b.ts",
      "daemon/src/sessions/c.ts",
      "daemon/src/sessions/c2.ts",
      "daemon/src/surfaces/http/d.ts",
      "sdk/src/j.ts",
    ]);
    expect(refused("belongs to no part")).toEqual([
      "daemon/src/novelty/k.ts",
      "daemon/src/novelty/l.ts",
      "daemon/src/novelty/m.ts",
    ]);
    expect(refused("no-circle")).toContain("daemon/src/sessions/n.ts");
    expect(refused("not looked at")).toEqual([]);
  });
});
