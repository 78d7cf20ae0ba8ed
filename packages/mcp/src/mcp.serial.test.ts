/** The MCP server with the official client: over stdio, as a desktop client starts it, and over HTTP. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { SandboxClient } from "@sandkasten/sdk";
import { OtlpReceiver } from "@sandkasten/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../../../tests/support/test-daemon.ts";

const PROGRAM = join(import.meta.dirname, "../../cli/src/main.ts");
const MODERN = "2026-07-28";

let daemon: TestDaemon;
let sandboxes: SandboxClient;
let receiver: OtlpReceiver;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  sandboxes = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  receiver = await OtlpReceiver.start();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const variables = (): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  SANDKASTEN_URL: daemon.url,
  SANDKASTEN_API_KEY: daemon.apiKey,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
  OTEL_BSP_SCHEDULE_DELAY: "50",
});

const living = async (): Promise<readonly string[]> =>
  (await sandboxes.listSessions({ status: "running" })).map(({ id }) => id);

interface Connected extends AsyncDisposable {
  readonly client: Client;
  readonly transport: StdioClientTransport;
}

async function connectStdio(
  options: { readonly args?: readonly string[]; readonly version?: string } = {},
): Promise<Connected> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [PROGRAM, "mcp", ...(options.args ?? [])],
    env: variables(),
    stderr: "inherit",
  });
  const client = new Client(
    { name: "test", version: "1.0.0" },
    options.version === undefined ? {} : { versionNegotiation: { mode: { pin: options.version } } },
  );
  await client.connect(transport);
  return { client, transport, [Symbol.asyncDispose]: () => client.close() };
}

interface CodeResult {
  readonly exit_code: number;
  readonly stdout: string;
  readonly sandbox_id: string;
}

async function exec(client: Client, input: object): Promise<CodeResult> {
  const { structuredContent } = await client.callTool({
    name: "sandbox_exec",
    arguments: input as Record<string, unknown>,
  });
  return structuredContent as CodeResult;
}

describe.each([undefined, MODERN])("over stdio, with the protocol %s", (version) => {
  const TRACE = version === undefined ? "1".repeat(32) : "2".repeat(32);
  let connected: Connected;
  let client: Client;
  beforeAll(async () => {
    connected = await connectStdio(version === undefined ? {} : { version });
    ({ client } = connected);
  });
  afterAll(async () => {
    await connected[Symbol.asyncDispose]();
  });

  it("has the tools of code mode, with schemas for input and output", async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "sandbox_open",
      "sandbox_exec",
      "sandbox_exec_read",
      "sandbox_exec_wait",
      "sandbox_fs_write",
      "sandbox_fs_read",
      "sandbox_fs_list",
      "sandbox_fs_delete",
      "sandbox_close",
    ]);
    for (const { inputSchema, outputSchema } of tools) {
      expect(inputSchema.type).toBe("object");
      expect(outputSchema?.type).toBe("object");
    }
    const reading = tools.filter(({ annotations }) => annotations?.readOnlyHint === true);
    expect(reading.map(({ name }) => name)).toEqual([
      "sandbox_exec_read",
      "sandbox_exec_wait",
      "sandbox_fs_read",
      "sandbox_fs_list",
    ]);
  });

  it("runs commands in one sandbox, and returns structured content and text", async () => {
    await exec(client, { cmd: "cd /tmp && NAME=kept" });
    const result = await client.callTool({
      name: "sandbox_exec",
      arguments: { cmd: "echo $NAME $PWD; exit 3" },
      _meta: { traceparent: `00-${TRACE}-b7ad6b7169203331-01` },
    });
    expect(result.isError ?? false).toBe(false);
    expect(result.structuredContent).toMatchObject({ exit_code: 3, stdout: "kept /tmp\n" });
    const [text] = result.content;
    expect(text?.type === "text" && JSON.parse(text.text)).toMatchObject({ exit_code: 3 });
    const span = await receiver.span(
      ({ name, service, traceId }) =>
        name === "sandbox_exec" && service === "sandkasten-mcp" && traceId === TRACE,
    );
    expect(span).toMatchObject({
      parentSpanId: "b7ad6b7169203331",
      attributes: { "sandbox.exit_code": 3 },
    });
  });

  it("returns an error for invalid input that a model can act on", async () => {
    const call = async (name: string, input: Record<string, unknown>) => {
      const { isError, content } = await client.callTool({ name, arguments: input });
      return { isError, text: content[0]?.type === "text" ? content[0].text : "" };
    };
    const wrong = await call("sandbox_exec", { cmd: 7, timeout: "soon" });
    expect(wrong.isError).toBe(true);
    expect(wrong.text).toContain("INVALID_INPUT");
    expect(wrong.text).toContain("cmd");
    expect(await call("sandbox_fs_read", { path: "no-such-file" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("FILE_NOT_FOUND") as string,
    });
    const unknown = await call("sandbox_exce", {});
    expect(unknown.text).toContain("Did you mean sandbox_exec?");
  });

  it("reports progress while a command runs", async () => {
    const told: { readonly progress: number; readonly message?: string | undefined }[] = [];
    await client.callTool(
      { name: "sandbox_exec", arguments: { cmd: "for i in 1 2 3; do echo $i; sleep 0.2; done" } },
      { onprogress: ({ progress, message }) => told.push({ progress, message }) },
    );
    expect(told.length).toBeGreaterThan(1);
    expect(told[0]).toEqual({ progress: 2, message: "1" });
    expect(told.map(({ progress }) => progress)).toEqual(
      told.map(({ progress }) => progress).toSorted((one, other) => one - other),
    );
  });

  it("a cancelled request cancels its command", async () => {
    const { sandbox_id: id } = await exec(client, { cmd: "rm -f /workspace/still-there" });
    const cancel = new AbortController();
    const call = client.callTool(
      {
        name: "sandbox_exec",
        arguments: { cmd: "echo begun > begun; sleep 5; echo > still-there", cwd: "/workspace" },
      },
      { signal: cancel.signal },
    );
    const session = await sandboxes.getSession(id);
    const names = async (): Promise<readonly string[]> =>
      (await Array.fromAsync(session.files.list("/workspace"))).map(({ name }) => name);
    await expect.poll(names).toContain("begun");
    cancel.abort();
    await expect(call).rejects.toThrow();
    const newest = async (): Promise<unknown> => {
      const { body } = await daemon.call<{ readonly execs: readonly { end_reason: unknown }[] }>(
        "GET",
        `/v1/sessions/${id}/execs?limit=1`,
      );
      return body.execs[0]?.end_reason;
    };
    await expect.poll(newest).toBe("cancelled");
    expect(await names()).not.toContain("still-there");
  });

  it("has files as resources: templates, a list, contents, and change notifications", async () => {
    const { sandbox_id: id } = await exec(client, {
      cmd: "cd /workspace && rm -rf -- * && printf text > 'a b.txt' && printf '\\377' > bytes && mkdir dir && touch $'not\\xffutf8'",
    });
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates[0]?.uriTemplate).toBe("sandbox://{sandbox_id}/{+path}");
    const { resources } = await client.listResources();
    const uri = `sandbox://${id}/workspace/a%20b.txt`;
    expect(resources.map((resource) => resource.uri).toSorted()).toEqual([
      uri,
      `sandbox://${id}/workspace/bytes`,
    ]);
    expect((await client.readResource({ uri })).contents).toMatchObject([{ uri, text: "text" }]);
    const bytes = await client.readResource({ uri: `sandbox://${id}/workspace/bytes` });
    expect(bytes.contents).toMatchObject([{ blob: "/w==" }]);

    const changed = Promise.withResolvers<string>();
    client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
      changed.resolve(params.uri),
    );
    if (version === undefined) await client.subscribeResource({ uri });
    else await client.listen({ resourceSubscriptions: [uri] });
    await exec(client, { cmd: "printf other > other; printf more >> 'a b.txt'" });
    expect(await changed.promise).toBe(uri);
  });
});

describe("when the client disconnects", () => {
  it("its sandbox is destroyed", async () => {
    const connected = await connectStdio();
    const { sandbox_id: id } = await exec(connected.client, { cmd: "true" });
    expect(await living()).toContain(id);
    await connected[Symbol.asyncDispose]();
    await expect.poll(living).not.toContain(id);
  });

  it("its sandbox expires, even if the server is killed", async () => {
    const connected = await connectStdio({ args: ["--lease-seconds", "4"] });
    const { sandbox_id: id } = await exec(connected.client, { cmd: "true" });
    process.kill(connected.transport.pid ?? 0, "SIGKILL");
    await expect.poll(living).not.toContain(id);
    await connected[Symbol.asyncDispose]();
  });
});

it("compute mode has one tool, and no resources", async () => {
  await using connected = await connectStdio({ args: ["--mode", "compute", "--image", "python"] });
  const { client } = connected;
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["sandbox_run"]);
  const { structuredContent } = await client.callTool({
    name: "sandbox_run",
    arguments: { code: "print(6 * 7)" },
  });
  expect(structuredContent).toMatchObject({ ok: true, stdout: "42\n" });
  expect(client.getServerCapabilities()?.resources).toBeUndefined();
});

describe("over HTTP", () => {
  it("serves both protocols with the key, each client with its own sandboxes", async () => {
    const server = spawn(
      process.execPath,
      [PROGRAM, "mcp", "--http", "--listen", "127.0.0.1:0", "--json"],
      {
        env: variables(),
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    try {
      const [line] = (await once(createInterface(server.stdout), "line")) as [string];
      const { url } = JSON.parse(line) as { readonly url: string };
      const connect = async (version?: string, path = ""): Promise<Client> => {
        const client = new Client(
          { name: "test", version: "1.0.0" },
          version === undefined ? {} : { versionNegotiation: { mode: { pin: version } } },
        );
        await client.connect(
          new StreamableHTTPClientTransport(new URL(`${url}${path}`), {
            requestInit: { headers: { authorization: `Bearer ${daemon.apiKey}` } },
          }),
        );
        return client;
      };
      const clients = [
        await connect(),
        await connect(),
        await connect(MODERN, "/one"),
        await connect(MODERN, "/two"),
      ];
      const ids: string[] = [];
      for (const [index, client] of clients.entries()) {
        const { sandbox_id: id } = await exec(client, { cmd: `NAME=client-${index}` });
        ids.push(id);
      }
      expect(new Set(ids).size).toBe(4);
      for (const [index, client] of clients.entries())
        expect(await exec(client, { cmd: "echo $NAME" })).toMatchObject({
          stdout: `client-${index}\n`,
          sandbox_id: ids[index],
        });
      // Another client's sandbox looks like one that does not exist.
      for (const client of clients.slice(1)) {
        const other = await client.callTool({
          name: "sandbox_exec",
          arguments: { cmd: "echo $NAME", sandbox_id: ids[0] },
        });
        expect(other.isError).toBe(true);
        await expect(
          client.readResource({ uri: `sandbox://${ids[0] ?? ""}/etc/passwd` }),
        ).rejects.toThrow();
      }
      for (const client of clients) await client.close();
    } finally {
      const exited = once(server, "exit");
      server.kill("SIGTERM");
      await exited;
    }
    await expect.poll(living).toEqual([]);
  });
});
