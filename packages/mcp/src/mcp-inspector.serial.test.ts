/** The MCP inspector, as its command line runs it: over stdio and over HTTP, with both protocols. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { SandboxClient } from "@sandkasten/sdk";
import { parseSandboxSettings } from "@sandkasten/tools";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../../../tests/support/test-daemon.ts";
import { serveHttp } from "./serve-http.ts";
import type { RunningMcpServer } from "./serve-http.ts";

const INSPECTOR = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json")),
  "clients/launcher/build/index.js",
);
const PROGRAM = join(import.meta.dirname, "../../cli/src/main.ts");

let home: string;
let daemon: TestDaemon;
let server: RunningMcpServer;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "sandkasten-inspector-"));
  daemon = await TestDaemon.start();
  server = await serveHttp({
    client: new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey }),
    settings: parseSandboxSettings({ mode: "code" }),
    host: "127.0.0.1",
    port: 0,
    apiKey: daemon.apiKey,
    onFailure: () => undefined,
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

interface Inspected {
  readonly exitCode: number;
  readonly result: unknown;
  readonly stderr: string;
}

/** One run of the inspector, which connects, makes one request and exits. */
async function inspect(...args: readonly string[]): Promise<Inspected> {
  const env = { PATH: process.env["PATH"], HOME: home };
  const options = [INSPECTOR, "--cli", "--format", "json", ...args];
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, options, { env });
    return { exitCode: 0, result: JSON.parse(stdout), stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { exitCode: code, result: stdout, stderr };
  }
}

function overStdio(): readonly string[] {
  const variables = { SANDKASTEN_URL: daemon.url, SANDKASTEN_API_KEY: daemon.apiKey };
  const settings = Object.entries(variables).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  return [...settings, process.execPath, PROGRAM, "mcp"];
}

function overHttp(key = daemon.apiKey): readonly string[] {
  const target = ["--server-url", server.url, "--transport", "http"];
  return [...target, "--header", `Authorization: Bearer ${key}`];
}

function exec(cmd: string): readonly string[] {
  const call = ["--method", "tools/call", "--tool-name", "sandbox_exec"];
  return [...call, "--tool-args-json", JSON.stringify({ cmd })];
}

describe.each([
  ["stdio", overStdio],
  ["HTTP", overHttp],
])("over %s", (_name, target) => {
  it.each(["legacy", "modern"])("the inspector calls tools, in the %s era", async (era) => {
    const negotiate = ["--protocol-era", era];
    const [listed, called] = await Promise.all([
      // With --strict it exits with an error for schemas that some clients cannot read.
      inspect(...target(), ...negotiate, "--method", "tools/list", "--strict"),
      inspect(...target(), ...negotiate, ...exec("echo inspected; exit 3")),
    ]);
    expect(listed).toMatchObject({ exitCode: 0, stderr: "" });
    const { tools } = (listed.result as { readonly result: { readonly tools: unknown[] } }).result;
    expect(tools).toHaveLength(9);
    expect(called).toMatchObject({
      exitCode: 0,
      result: { result: { structuredContent: { stdout: "inspected\n", exit_code: 3 } } },
    });
  });
});

it("the inspector lists and reads a file of the sandbox", async () => {
  const target = [...overHttp(), "--protocol-era", "modern"];
  await inspect(
    ...target,
    ...exec("rm -rf /workspace/*; printf 'of the sandbox' > /workspace/file"),
  );
  const listed = await inspect(...target, "--method", "resources/list");
  const { resources } = (
    listed.result as { readonly result: { readonly resources: readonly { uri: string }[] } }
  ).result;
  expect(resources).toMatchObject([{ name: "/workspace/file", size: 14 }]);
  const [{ uri } = { uri: "" }] = resources;
  expect(await inspect(...target, "--method", "resources/read", "--uri", uri)).toMatchObject({
    exitCode: 0,
    result: { result: { contents: [{ uri, text: "of the sandbox" }] } },
  });
});

it("the inspector learns that it needs the key", async () => {
  const { exitCode, stderr } = await inspect(...overHttp("wrong"), "--method", "tools/list");
  expect(exitCode).not.toBe(0);
  expect(stderr).toMatch(/auth|401/i);
});
