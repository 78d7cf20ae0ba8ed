/** The published package: packed, used without anything else, and its types checked. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { createContext, runInContext } from "node:vm";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { parseAst } from "rolldown/parseAst";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SandboxClient as SourceClient } from "./client.ts";
import { installPackedPackage, type PackedPackage, root } from "./testing/packed-package.ts";
import {
  type Answer,
  bytes,
  event,
  events,
  failure,
  json,
  ScriptedServer,
} from "./testing/scripted-server.ts";
import { serveTerminals } from "./testing/terminal-server.ts";
import { chunkBody, execInfoBody, sessionBody } from "./testing/wire-samples.ts";

const run = promisify(execFile);
/** Other runtimes are downloaded if they are missing. */
const SETUP_TIMEOUT_MS = 300_000;

let packed: PackedPackage;
let project: string;
let code: string;
/** The location of the other runtimes. */
let runtimes: string;

beforeAll(async () => {
  const script = join(root, "scripts/setup-test-runtimes.sh");
  runtimes = (await run("bash", [script])).stdout.trim();
  packed = await installPackedPackage();
  project = packed.directory;
  code = await readFile(join(packed.packageDir, "dist/index.js"), "utf8");
}, SETUP_TIMEOUT_MS);

afterAll(async () => {
  await packed[Symbol.asyncDispose]();
});

test("npm packs the build, with a valid manifest", async () => {
  expect(packed.files).toEqual([
    "README.md",
    "dist/index.cjs",
    "dist/index.d.cts",
    "dist/index.d.ts",
    "dist/index.js",
    "package.json",
  ]);
  const manifest = JSON.parse(await readFile(join(packed.packageDir, "package.json"), "utf8"));
  expect(manifest).not.toHaveProperty("dependencies");
  expect(manifest).not.toHaveProperty("scripts");
  const { messages } = await publint({ pkgDir: packed.packageDir, pack: false, strict: true });
  expect(messages.map((message) => formatMessage(message, manifest))).toEqual([]);
});

describe("the built module", () => {
  test("imports nothing, and uses nothing that only Node has", () => {
    const kinds = parseAst(code).body.filter((node) => "source" in node && node.source !== null);
    expect(kinds).toEqual([]);
    expect(code).not.toMatch(/\bimport\s*\(\s*["'`]|\brequire\s*\(|node:|\bprocess\.|\bBuffer\b/);
  });

  test("exports the client and the error, and nothing else", () => {
    const exported = parseAst(code).body.flatMap((node) =>
      node.type === "ExportNamedDeclaration" ? node.specifiers : [],
    );
    const names = exported.map(({ exported: name }) => ("name" in name ? name.name : name.value));
    expect(names.toSorted()).toEqual(["SandboxClient", "SandboxError"]);
  });

  const named = { "X-Exec-Id": "exe_1" };
  const session: readonly Answer[] = [
    json(201, sessionBody),
    events([event("chunk", chunkBody(0, "ab"))], "cut", named),
    (response, request) => {
      // Bun may drop bytes that it received before the connection broke; it then requests them
      // again.
      const missed = request.url.includes("cursor=0") ? [event("chunk", chunkBody(0, "ab"))] : [];
      const rest = [event("chunk", chunkBody(2, "cd")), event("done", execInfoBody)];
      return events([...missed, ...rest])(response, request);
    },
    json(200, { ok: true, path: "/workspace/a", size: 8, size_bytes: 8 }),
    failure(404, "FILE_NOT_FOUND"),
    json(200, { ok: true }),
  ];

  const programs = {
    "the project's Node": () => [process.execPath, "smoke.mjs"],
    "Node 20": () => [join(runtimes, "node"), "smoke.mjs"],
    "Node 20 by require()": () => [join(runtimes, "node"), "smoke.cjs"],
    "Node 22": () => [join(runtimes, "node22"), "smoke.mjs"],
    "Node 22 by require()": () => [join(runtimes, "node22"), "smoke.cjs"],
    "the project's Node by require()": () => [process.execPath, "smoke.cjs"],
    Bun: () => [join(runtimes, "bun"), "smoke.ts"],
    Deno: () => [
      join(runtimes, "deno"),
      "run",
      "--allow-net",
      "--allow-env",
      "--node-modules-dir=manual",
      "smoke.ts",
    ],
  } as const satisfies Record<string, () => readonly [string, ...string[]]>;

  beforeAll(async () => {
    const text = await readFile(new URL("./testing/bundle-smoke.ts", import.meta.url), "utf8");
    await writeFile(join(project, "smoke.ts"), text);
    for (const [name, module] of [
      ["smoke.mjs", ts.ModuleKind.ES2022],
      ["smoke.cjs", ts.ModuleKind.CommonJS],
    ] as const) {
      // Old runtimes support neither types nor `await using`.
      const compilerOptions = { module, target: ts.ScriptTarget.ES2022 };
      const { outputText } = ts.transpileModule(text, { compilerOptions });
      await writeFile(join(project, name), outputText);
    }
  });

  test.each(Object.keys(programs) as (keyof typeof programs)[])("works in %s", async (runtime) => {
    await using server = await ScriptedServer.start(...session);
    serveTerminals(server, (terminal) => {
      terminal.send({ type: "started", exec_id: "exe_2" });
      terminal.print("hello ");
      void terminal.messages(1).then(([typed]) => {
        terminal.print(typed!.toString());
        terminal.send({ type: "exit", exec: execInfoBody });
      });
    });
    const [program, ...args] = programs[runtime]();
    const { stdout } = await run(program, [...args, server.url], {
      cwd: project,
      env: { ...process.env, WS_MODULE: join(root, "node_modules/ws/index.js") },
    });
    expect(JSON.parse(stdout)).toEqual({
      output: ["ab", "cd"],
      exitCode: 0,
      sizeBytes: 8,
      error: "FILE_NOT_FOUND",
      printed: "hello typed",
    });
    const cursor = runtime === "Bun" ? "[02]" : "2";
    const resumed = new RegExp(
      `^GET /v1/sessions/ses_1/execs/exe_1/stream\\?cursor=${cursor}&raw=true$`,
    );
    expect(server.lines).toEqual([
      "POST /v1/sessions",
      "POST /v1/sessions/ses_1/exec/stream",
      expect.stringMatching(resumed),
      "PUT /v1/sessions/ses_1/fs/file?path=a",
      "GET /v1/sessions/ses_1/fs/file?path=b",
      "DELETE /v1/sessions/ses_1",
    ]);
    expect(server.requests[3]!.body.toString()).toBe("streamed");
  });

  test("works with only what a browser has, if streams are collected before they are sent", async () => {
    await using server = await ScriptedServer.start(...session.slice(0, 4), bytes("content"));
    const bodies: unknown[] = [];
    const context = createContext({
      AbortController,
      AbortSignal,
      ArrayBuffer,
      Blob,
      FormData,
      Headers,
      ReadableStream,
      Response,
      TextDecoder,
      TextEncoder,
      URL,
      Uint8Array,
      WebSocket,
      atob,
      btoa,
      clearTimeout,
      crypto,
      document: {},
      fetch: (input: URL, init: RequestInit) => {
        bodies.push(init.body);
        return fetch(input, init);
      },
      performance,
      setTimeout,
    });
    const exported = /export \{([^}]+)\};?\s*$/;
    const script = `${code.replace(exported, "")};({ SandboxClient })`;
    const { SandboxClient } = runInContext(script, context) as {
      readonly SandboxClient: typeof SourceClient;
    };
    const client = new SandboxClient({ baseUrl: server.url, retryDelayMs: 1 });
    const browserSession = await client.createSession();
    const stream = browserSession.stream("x");
    const chunks = await Array.fromAsync(stream);
    expect(chunks.map(({ text }) => text)).toEqual(["ab", "cd"]);
    await browserSession.write("a", new Blob(["streamed"]).stream());
    expect(bodies.at(-1)).toBeInstanceOf(Blob);
    expect(server.requests.at(-1)!.body.toString()).toBe("streamed");
    expect(new TextDecoder().decode(await browserSession.read("a"))).toBe("content");
  });
});

describe("the published types", () => {
  const compilers = {
    "TypeScript 5.2": "typescript-5.2/bin/tsc",
    "the newest TypeScript": "typescript-native/bin/tsc",
  } as const;

  /** Type-checks modules of the project and returns the compiler's output. */
  async function check(
    modules: Readonly<Record<string, string>>,
    options: Readonly<Record<string, unknown>>,
    compiler: keyof typeof compilers = "the newest TypeScript",
  ): Promise<string> {
    const directory = await mkdtemp(join(project, "consumer-"));
    for (const [name, text] of Object.entries(modules)) {
      await writeFile(join(directory, name), text);
    }
    const compilerOptions = {
      noEmit: true,
      strict: true,
      exactOptionalPropertyTypes: true,
      module: "nodenext",
      moduleDetection: "force",
      target: "es2022",
      ...options,
    };
    await writeFile(join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    const program = join(root, "node_modules", compilers[compiler]);
    try {
      return (await run(process.execPath, [program, "--project", directory])).stdout;
    } catch (error) {
      return (error as { readonly stdout: string }).stdout;
    }
  }

  const consumer = `
    import { SandboxClient, SandboxError, type ErrorCode, type ExecResult } from "@sandkasten/sdk";
    const client = new SandboxClient({ baseUrl: "http://localhost:1", webSocket: WebSocket, fetch });
    await using session = await client.createSession({ limits: { memoryMb: 64 } });
    const result: ExecResult = await session.exec(["ls"], { signal: AbortSignal.timeout(1) });
    const code: number | null = result.exitCode ?? result.exit_code;
    await client.createSession({ ttl_seconds: 60, limits: { memory_mb: 64 } });
    const ends: string = session.expiresAt + session.expires_at;
    for await (const { bytes } of session.stream("x")) bytes.length.toFixed();
    const body: ReadableStream<Uint8Array> = await session.files.download("a");
    await session.write("b", body);
    const known: ErrorCode = "SANDBOX_UNREACHABLE";
    const error = new SandboxError("CONNECTION_FAILED", "x");
    if (error.code !== "CONNECTION_FAILED") { const rest: ErrorCode = error.code; }
  `;

  const browser = { lib: ["es2022", "dom"], types: [] };

  describe.each(Object.keys(compilers) as (keyof typeof compilers)[])("with %s", (compiler) => {
    test.each([
      ["an ES module of Node", "consumer.mts", { module: "node16" }],
      ["a bundler", "consumer.ts", { module: "es2022", moduleResolution: "bundler" }],
    ])("work with %s and need no other package", async (_, name, options) => {
      expect(await check({ [name]: consumer }, { ...browser, ...options }, compiler)).toBe("");
    });

    test("work in a CommonJS module", async () => {
      const module = `
        import { SandboxClient } from "@sandkasten/sdk";
        import sdk = require("@sandkasten/sdk");
        const client: SandboxClient = new sdk.SandboxClient();
        client.listWorkspaces().then((all) => all.map(({ id }) => id.length));
      `;
      const options = { ...browser, module: "node16" };
      expect(await check({ "consumer.cts": module }, options, compiler)).toBe("");
    });
  });

  test("work in a Node project, and so does all code of the guide", async () => {
    const guide = await readFile(join(root, "docs/guides/sdk.md"), "utf8");
    const blocks = guide.matchAll(/^```ts\n(.*?)^```$/gms).map(([, block]) => block!);
    const modules = Object.fromEntries(
      blocks.map((block, index) => [`block-${index}.ts`, withPrelude(block)]),
    );
    expect(Object.keys(modules).length).toBeGreaterThan(5);
    const types = { typeRoots: [join(root, "node_modules/@types")], types: ["node"] };
    const options = { lib: ["es2024", "esnext.disposable"], skipLibCheck: true, ...types };
    expect(await check({ "consumer.ts": consumer, ...modules }, options)).toBe("");
  });

  test("detect wrong use", async () => {
    const wrong = `
      import { SandboxClient, type ErrorCode } from "@sandkasten/sdk";
      const session = await new SandboxClient().createSession({ imagee: "host" });
      const result: string = (await session.exec("x")).exitCode;
      const alias: string = (await session.exec("x", { timeout_ms: "1" })).exit_code;
      const code: ErrorCode = "NO_SUCH_CODE";
    `;
    const said = await check({ "wrong.ts": wrong }, { lib: ["es2022", "dom"], types: [] });
    expect(said.match(/error TS\d+/g)).toHaveLength(5);
  });
});

/** Code of the guide may use variables of its earlier parts. */
function withPrelude(block: string): string {
  if (block.startsWith("import")) return block;
  return `
    import { SandboxClient, SandboxError, type Session } from "@sandkasten/sdk";
    declare const client: SandboxClient;
    declare const session: Session;
    {
      ${block}
    }
  `;
}
