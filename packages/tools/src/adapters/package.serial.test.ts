/** The published package: each import needs its own framework, and nothing else. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packInto, root } from "../../../sdk/src/testing/packed-package.ts";
import { FRAMEWORKS } from "./testing/frameworks.ts";

const run = promisify(execFile);
const modules = join(root, "node_modules");

let directory: string;
let files: readonly string[];

/** A project with the two packages, their dependencies, and these frameworks. */
async function project(name: string, peers: readonly string[]): Promise<string> {
  const place = join(directory, name);
  await cp(join(directory, "packed"), place, { recursive: true });
  const dependencies = Object.keys((await publishedManifest()).dependencies);
  const linked = dependencies.filter((dependency) => dependency !== "@sandkasten/sdk");
  for (const one of [...linked, ...peers]) {
    const link = join(place, "node_modules", one);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(modules, one), link);
  }
  return place;
}

interface PublishedManifest {
  readonly exports: object;
  readonly dependencies: object;
  readonly peerDependencies: object;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
}

async function publishedManifest(): Promise<PublishedManifest> {
  const path = join(directory, "packed/node_modules/@sandkasten/tools/package.json");
  return JSON.parse(await readFile(path, "utf8")) as PublishedManifest;
}

/** The JSON that a program of the project prints. */
async function runIn(place: string, program: string): Promise<unknown> {
  await writeFile(join(place, "program.mjs"), program);
  const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: place });
  return JSON.parse(stdout);
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-tools-pack-"));
  const packed = join(directory, "packed");
  await mkdir(packed);
  await packInto(packed, "sdk");
  ({ files } = await packInto(packed, "tools"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

test("has modules and declarations, and no tests or sources", () => {
  expect(files).toContain("dist/adapters/ai.js");
  expect(files).toContain("dist/adapters/ai.d.ts");
  expect(
    files.filter((path) => !/^(dist\/.*(\.js|\.d\.ts)|package\.json|README\.md)$/.test(path)),
  ).toEqual([]);
  expect(files.filter((path) => /test/.test(path))).toEqual([]);
});

test("exports every adapter, and has every framework as an optional peer dependency", async () => {
  const published = await publishedManifest();
  const subPaths = FRAMEWORKS.map(({ subPath }) => `./${subPath}`);
  expect(Object.keys(published.exports).toSorted()).toEqual(
    [".", "./package.json", ...subPaths].toSorted(),
  );
  const peers = FRAMEWORKS.flatMap((framework) => framework.peers);
  expect(Object.keys(published.peerDependencies).toSorted()).toEqual(peers.toSorted());
  for (const peer of peers) expect(published.peerDependenciesMeta[peer]?.optional).toBe(true);
  // What every user installs: no framework, and nothing that depends on one.
  expect(Object.keys(published.dependencies).toSorted()).toEqual([
    "@opentelemetry/api",
    "@sandkasten/sdk",
    "zod",
  ]);
  expect(published).not.toHaveProperty("devDependencies");
});

test("needs no framework for the tools themselves, at run time and for the compiler", async () => {
  const place = await project("none", []);
  const names = await runIn(
    place,
    'console.log(JSON.stringify(Object.keys(await import("@sandkasten/tools"))))',
  );
  expect(names).toContain("sandboxTools");
  const consumer = `
    import { SandboxClient } from "@sandkasten/sdk";
    import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
    const client = new SandboxClient();
    const agentScope = new SandboxScope({ client, namespace: "agent", id: "one" });
    export const names: string[] = sandboxTools(parseSandboxSettings("python"), {
      client,
      agentScope,
    }).map(({ name }) => name);
  `;
  await writeFile(join(place, "consumer.mts"), consumer);
  const compiler = join(modules, "typescript-native/bin/tsc");
  const options = "--noEmit --strict --module nodenext --target es2024 --lib es2024,dom,esnext";
  const args = [compiler, ...options.split(" "), "--types", "", "consumer.mts"];
  const compiled = await run(process.execPath, args, { cwd: place }).catch(
    (error: unknown) => error,
  );
  expect(compiled).toMatchObject({ stdout: "" });
});

test("imports each adapter with only its own framework", async () => {
  const places = await Promise.all(
    FRAMEWORKS.map(async ({ subPath, peers }) => ({
      subPath,
      alone: await project(`with-${subPath}`, peers),
      without: await project(`without-${subPath}`, []),
    })),
  );
  // One process for all modules: the location of a module decides what it can import.
  const entry = (place: string, subPath: string): string =>
    join(place, "node_modules/@sandkasten/tools/dist/adapters", `${subPath}.js`);
  const imports = places.flatMap(({ subPath, alone, without }) => [
    [subPath, entry(alone, subPath)],
    [`without ${subPath}`, entry(without, subPath)],
  ]);
  const results = (await runIn(
    await project("importer", []),
    `const results = {};
    for (const [name, path] of ${JSON.stringify(imports)})
      results[name] = await import(path).then((it) => Object.keys(it).length, (e) => e.code + e.message);
    console.log(JSON.stringify(results));
    process.exit(0);`,
  )) as Readonly<Record<string, unknown>>;
  for (const { subPath, peers } of FRAMEWORKS) {
    expect([subPath, results[subPath]]).toEqual([subPath, expect.any(Number)]);
    // Anthropic's tools are plain objects; only their types are imported.
    if (subPath === "anthropic") continue;
    expect(results[`without ${subPath}`]).toMatch(/^ERR_MODULE_NOT_FOUND/);
    expect(peers.some((peer) => String(results[`without ${subPath}`]).includes(peer))).toBe(true);
  }
});
