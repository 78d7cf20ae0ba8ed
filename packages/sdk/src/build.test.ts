/** The package as it is published: built, used without anything else, and its types checked. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { createContext, runInContext } from "node:vm";
import { parseAst } from "rolldown/parseAst";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildPackage } from "../build.ts";
import type { SandboxClient as SourceClient } from "./client.ts";
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
const root = join(import.meta.dirname, "../../..");

/** A project that has the built package and nothing else. */
let project: string;
let code: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "sandkasten-sdk-build-"));
  const packageDir = join(project, "node_modules/@sandkasten/sdk");
  await buildPackage(packageDir);
  code = await readFile(join(packageDir, "index.js"), "utf8");
  await writeFile(join(project, "package.json"), '{ "type": "module" }');
});

afterAll(async () => {
  await rm(project, { recursive: true, force: true });
});

describe("the built module", () => {
  test("imports nothing, and speaks of nothing that only Node has", () => {
    const kinds = parseAst(code).body.filter((node) => "source" in node && node.source !== null);
    expect(kinds).toEqual([]);
    expect(code).not.toMatch(/\bimport\s*\(\s*["'`]|\brequire\s*\(|node:|\bprocess\.|\bBuffer\b/);
  });

  test("exports the client and the error, and no more", () => {
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
    events([event("chunk", chunkBody(2, "cd")), event("done", execInfoBody)]),
    json(200, { ok: true, path: "/workspace/a", size: 8, size_bytes: 8 }),
    failure(404, "FILE_NOT_FOUND"),
    json(200, { ok: true }),
  ];

  // Bun and Deno are large and not needed for anything else, so that they are used where they are.
  test.each(["node", ...["bun", "deno"].filter(isInstalled)])("works in %s", async (runtime) => {
    await using server = await ScriptedServer.start(...session);
    serveTerminals(server, (terminal) => {
      terminal.tell({ type: "started", exec_id: "exe_2" });
      terminal.print("hello ");
      void terminal.messages(1).then(([typed]) => {
        terminal.print(typed!.toString());
        terminal.tell({ type: "exit", exec: execInfoBody });
      });
    });
    const script = join(project, "smoke.ts");
    await copyFile(new URL("./testing/bundle-smoke.ts", import.meta.url), script);
    const program = runtime === "node" ? process.execPath : runtime;
    const flags = runtime === "deno" ? ["run", "--allow-net", "--node-modules-dir=manual"] : [];
    const { stdout } = await run(program, [...flags, script, server.url], { cwd: project });
    expect(JSON.parse(stdout)).toEqual({
      output: ["ab", "cd"],
      exitCode: 0,
      sizeBytes: 8,
      error: "FILE_NOT_FOUND",
      printed: "hello typed",
    });
    expect(server.lines).toEqual([
      "POST /v1/sessions",
      "POST /v1/sessions/ses_1/exec/stream",
      "GET /v1/sessions/ses_1/execs/exe_1/stream?cursor=2&raw=true",
      "PUT /v1/sessions/ses_1/fs/file?path=a",
      "GET /v1/sessions/ses_1/fs/file?path=b",
      "DELETE /v1/sessions/ses_1",
    ]);
    expect(server.requests[3]!.body.toString()).toBe("streamed");
  });

  test("works with what a browser has and no more, where streams are collected before they are sent", async () => {
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
  /** Type-checks modules of the project and answers what the compiler says. */
  async function check(
    modules: Readonly<Record<string, string>>,
    options: Readonly<Record<string, unknown>>,
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
    const compiler = join(root, "node_modules/typescript-native/bin/tsc");
    try {
      return (await run(process.execPath, [compiler, "--project", directory])).stdout;
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

  test("fit a browser's project and need no other package", async () => {
    const options = { lib: ["es2022", "dom", "dom.asynciterable"], types: [] };
    expect(await check({ "consumer.ts": consumer }, options)).toBe("");
  });

  test("fit a project of Node, and so does all code of the guide", async () => {
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

  test("catch what is wrong", async () => {
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

/** Code of the guide may use what an earlier part of it made. */
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

function isInstalled(program: string): boolean {
  const directories = (process.env["PATH"] ?? "").split(delimiter);
  return directories.some((directory) => existsSync(join(directory, program)));
}
