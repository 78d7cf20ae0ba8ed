/**
 * Tools of real MCP servers, started as programs and reached over HTTP, that work and that fail.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentFixture, agent, toolResults } from "../testing/agent-fixture.ts";
import { startHttpMcpServer } from "../testing/mcp-server.ts";
import type { HttpMcpServer } from "../testing/mcp-server.ts";

const SERVER = join(import.meta.dirname, "../testing/mcp-server.ts");
const stdio = (more = "", extraTools = 0) =>
  `mcp:\n  tools:\n    command: ${process.execPath}\n    args: [${SERVER}, "${extraTools}"]\n${more}`;

let http: HttpMcpServer;
let fixture: AgentFixture;
beforeAll(async () => {
  http = await startHttpMcpServer();
  fixture = await AgentFixture.start({
    env: { SECRET_TOKEN: "t0ken", UNRELATED: "x" },
    agents: {
      local: agent(stdio('    env: { TOKEN: "${SECRET_TOKEN}" }')),
      remote: agent(
        `mcp:\n  web:\n    url: ${http.url}\n    headers: { X-Key: "\${SECRET_TOKEN}" }`,
      ),
      picky: agent(`tools: [tools_add]\n${stdio()}`),
      wrong: agent(`tools: [tools_subtract]\n${stdio()}`),
      missing: agent(stdio('    env: { TOKEN: "${NOT_SET}" }')),
      crowded: agent(stdio("", 200)),
      choosy: agent(`tools: [tools_extra300]\n${stdio("", 300)}`),
      absent: agent("mcp:\n  gone:\n    command: /nonexistent/program"),
      unreachable: agent("mcp:\n  gone:\n    url: http://127.0.0.1:1/mcp"),
    },
  });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
  await http[Symbol.asyncDispose]();
});

const call = (name: string, given: object = {}, id = name) => ({ name, arguments: given, id });

test("tools of a program are offered and called", async () => {
  const run = await fixture.run("local", [
    {
      calls: [
        call("tools_add", { a: 2, b: 3 }),
        call("tools_secret"),
        call("tools_refuse"),
        call("tools_add", { a: "x" }, "bad"),
      ],
    },
    { text: "Done." },
  ]);
  expect(run.status).toBe("succeeded");
  expect(fixture.model.requests[0]?.body.tools?.map(({ function: tool }) => tool)).toContainEqual(
    expect.objectContaining({ name: "tools_add", description: "Adds two numbers." }),
  );
  expect(toolResults(fixture.model)).toMatchObject([
    { content: "5" },
    { content: "t0ken" },
    { error: { code: "MCP_ERROR", message: "Not today." } },
    { error: { code: expect.stringMatching(/^MCP_/) as string } },
  ]);
});

test("tools over HTTP are called with the headers of the file", async () => {
  await fixture.run("remote", [{ calls: [call("web_add", { a: 1, b: 1 })] }, { text: "Two." }]);
  expect(toolResults(fixture.model)).toEqual([{ content: "2" }]);
  expect(http.headers[0]?.["x-key"]).toBe("t0ken");
});

test("a program gets few variables, and none that contain keys", async () => {
  await fixture.run("local", [{ calls: [call("tools_variables")] }, { text: "" }]);
  const [{ content }] = toolResults(fixture.model) as [{ content: string }];
  const usual = new Set(["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"]);
  expect(content.split(",").filter((name) => !usual.has(name) && !name.startsWith("__"))).toEqual([
    "TOKEN",
  ]);
});

test("`tools` chooses among them, and one that does not exist is an error", async () => {
  await fixture.run("picky", [{ text: "ok" }]);
  expect(fixture.model.requests[0]?.body.tools?.map(({ function: { name } }) => name)).toEqual([
    "tools_add",
  ]);
  const run = await fixture.run("wrong", [{ text: "ok" }]);
  expect(run.error).toMatchObject({
    code: "TOOLS_FAILED",
    message: expect.stringMatching(/tools_subtract.*Its MCP servers have tools_add/) as string,
  });
});

test("more tools than an agent can have fail the run, unless `tools` chooses among them", async () => {
  const run = await fixture.run("crowded", [{ text: "never" }]);
  expect(run).toMatchObject({
    status: "failed",
    error: {
      code: "TOOLS_FAILED",
      message: expect.stringMatching(
        /agent crowded offer 207 tools.* at most 200\. List .*`tools: \[tools_add\]`/,
      ) as string,
    },
  });
  expect(fixture.model.requests).toEqual([]);
  await fixture.run("choosy", [{ calls: [call("tools_extra300")] }, { text: "Done." }]);
  expect(toolResults(fixture.model)).toEqual([{ content: "extra 300" }]);
});

test.for([
  ["missing", /needs the variable NOT_SET/],
  ["absent", /The MCP server gone of the agent absent cannot be used/],
  ["unreachable", /The MCP server gone of the agent unreachable cannot be used/],
] as const)("an unusable server fails the run: %s", async ([name, message]) => {
  const run = await fixture.run(name, [{ text: "never" }]);
  expect(run).toMatchObject({ status: "failed", error: { code: "TOOLS_FAILED", message } });
  expect(fixture.model.requests).toEqual([]);
});

test("long results are shortened, and marked as such", async () => {
  await fixture.run("local", [{ calls: [call("tools_long")] }, { text: "" }]);
  const [{ content }] = toolResults(fixture.model) as [{ content: string }];
  expect(content.length).toBeLessThan(110_000);
  expect(content).toContain("characters left out");
});

test("a server that dies is an error that the model can act on", async () => {
  const run = await fixture.run("local", [
    { calls: [call("tools_die")] },
    { calls: [call("tools_add", { a: 1, b: 1 })] },
    { text: "It is gone." },
  ]);
  expect(run.status).toBe("succeeded");
  expect(toolResults(fixture.model)).toMatchObject([
    { error: { code: "MCP_FAILED" } },
    { error: { code: "MCP_FAILED" } },
  ]);
});

test("programs end with the run, even if it is cancelled during a call", async () => {
  fixture.model.play([{ calls: [call("tools_wait")] }]);
  const id = await fixture.client.execute("local", { task: "x" });
  await fixture.until(id, "tool_call");
  await fixture.client.cancel(id);
  await fixture.eventsOf(id);
  const { stdout } = await promisify(execFile)("ps", ["-eo", "ppid,args"]);
  const left = stdout
    .split("\n")
    .filter((line) => line.includes(SERVER) && line.trim().startsWith(`${process.pid} `));
  expect(left).toEqual([]);
});
