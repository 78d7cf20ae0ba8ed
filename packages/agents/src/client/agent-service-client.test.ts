/** The client over broken connections, and against servers that are not the agent service. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";
import { AgentServiceClient } from "./index.ts";

let fixture: AgentFixture;
beforeAll(async () => (fixture = await AgentFixture.start({ agents: { helper: agent("") } })));
afterAll(async () => await fixture[Symbol.asyncDispose]());

const open: { close(): unknown }[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

/** Forwards bytes, and breaks each connection after a number of bytes. */
async function cuttingProxy(afterBytes: number): Promise<{ url: string; cuts: () => number }> {
  let cuts = 0;
  const { port: target } = new URL(fixture.service.url);
  const server = createTcpServer((client: Socket) => {
    const upstream = connect(Number(target), "127.0.0.1");
    let passed = 0;
    client.pipe(upstream).on("error", () => undefined);
    client.on("error", () => undefined);
    upstream.on("data", (bytes: Buffer) => {
      const rest = afterBytes - passed;
      passed += bytes.length;
      if (bytes.length < rest) {
        client.write(bytes);
        return;
      }
      cuts += 1;
      client.end(bytes.subarray(0, rest));
      upstream.destroy();
    });
    upstream.on("end", () => client.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(server);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cuts: () => cuts };
}

async function answering(respond: RequestListener): Promise<string> {
  const server = createServer(respond);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push({ close: () => (server.closeAllConnections(), server.close()) });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("events over a connection that breaks repeatedly arrive each once, in order", async () => {
  const words = (index: number) => `turn ${index}: ${"word ".repeat(100)}`;
  const { run_id: id } = await fixture.run("helper", (_, index) => ({
    text: words(index),
    ...(index < 30 && { calls: [{ name: "nothing", arguments: {} }] }),
  }));
  const { url, cuts } = await cuttingProxy(5_000);
  const events = await Array.fromAsync(new AgentServiceClient({ baseUrl: url }).events(id));
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  const said = events.filter(({ type }) => type === "text").map((event) => event["text"]);
  expect(said.join("")).toBe(Array.from({ length: 31 }, (_, index) => words(index)).join(""));
  expect(cuts()).toBeGreaterThan(2);
});

test("following a run that has ended before the cursor ends at once", async () => {
  const { run_id: id } = await fixture.run("helper", [{ text: "Hi" }]);
  expect(await Array.fromAsync(fixture.client.events(id, { cursor: 4 }))).toEqual([]);
});

test("following can be aborted", async () => {
  fixture.model.play([{ text: "Hm", hang: true }]);
  const id = await fixture.client.execute("helper", { task: "x" });
  const stop = new AbortController();
  const following = Array.fromAsync(fixture.client.events(id, { signal: stop.signal }));
  setTimeout(() => stop.abort(new Error("enough")), 30);
  await expect(following).rejects.toThrow("enough");
  await fixture.client.cancel(id);
});

test("an unreachable address is named, with what to do", async () => {
  const client = new AgentServiceClient({ baseUrl: "http://127.0.0.1:1" });
  await expect(client.agents()).rejects.toMatchObject({
    code: "CONNECTION_FAILED",
    message: expect.stringMatching(
      /agent service at http:\/\/127\.0\.0\.1:1 does not answer .*sandkasten agents serve/,
    ) as string,
  });
});

test("a response of another kind of server is rejected", async () => {
  const url = await answering((_, response) => response.writeHead(500).end("<html>oops</html>"));
  await expect(new AgentServiceClient({ baseUrl: url }).agents()).rejects.toMatchObject({
    code: "UNEXPECTED_ANSWER",
    status: 500,
  });
});

test("a redirect is refused, so tasks and keys are not sent elsewhere", async () => {
  const seen: unknown[] = [];
  const elsewhere = await answering((request, response) => {
    seen.push(request.headers.authorization);
    response.end("{}");
  });
  const url = await answering((_, response) =>
    response.writeHead(307, { location: `${elsewhere}/execute` }).end(),
  );
  const client = new AgentServiceClient({ baseUrl: url, apiKey: "secret-key" });
  await expect(client.execute("helper")).rejects.toMatchObject({ status: 307 });
  expect(seen).toEqual([]);
});

test("the key is sent, and a wrong one is refused", async () => {
  await using locked = await AgentFixture.start({ apiKey: "a-long-secret" });
  expect(await locked.client.agents()).toEqual([]);
  const other = new AgentServiceClient({ baseUrl: locked.service.url, apiKey: "another-secret" });
  await expect(other.agents()).rejects.toMatchObject({ code: "UNAUTHORIZED", status: 401 });
  await expect(other.health()).resolves.toBeUndefined();
});
