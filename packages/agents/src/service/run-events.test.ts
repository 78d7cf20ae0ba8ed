/** Runs over HTTP: pages, live events, replay, and readers that do not read. */
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentFixture, agent } from "../testing/agent-fixture.ts";

let fixture: AgentFixture;
beforeAll(async () => {
  fixture = await AgentFixture.start({ agents: { helper: agent(""), bad: "broken" } });
});
afterAll(async () => await fixture[Symbol.asyncDispose]());

async function get(path: string, headers: Record<string, string> = {}): Promise<Response> {
  return await fetch(`${fixture.service.url}${path}`, { headers });
}

/** Types and numbers of the events of a stream, as sent. */
async function streamed(path: string, headers: Record<string, string> = {}): Promise<string[]> {
  const text = await (await get(path, { accept: "text/event-stream", ...headers })).text();
  return [...text.matchAll(/^id: (\d+)\nevent: (\w+)\ndata: (.*)$/gm)].map(
    ([, id, type, data]) => `${id} ${type} ${(JSON.parse(data ?? "") as { seq: number }).seq}`,
  );
}

test("events are replayed from the beginning, from a cursor and after Last-Event-ID", async () => {
  const { run_id: id } = await fixture.run("helper", [{ text: "Hi" }]);
  const all = ["1 run_started 1", "2 text 2", "3 turn 3", "4 run_ended 4"];
  expect(await streamed(`/v1/runs/${id}/events`)).toEqual(all);
  expect(await streamed(`/v1/runs/${id}/events?cursor=2`)).toEqual(all.slice(2));
  expect(await streamed(`/v1/runs/${id}/events`, { "last-event-id": "3" })).toEqual(all.slice(3));
  expect(await streamed(`/v1/runs/${id}/events?cursor=4`)).toEqual([]);
  expect(await streamed(`/v1/runs/${id}/events?cursor=99`)).toEqual([]);
});

test("one page can be read as JSON", async () => {
  const { run_id: id } = await fixture.run("helper", [{ text: "Hi" }]);
  const headers = { accept: "application/json" };
  const first = await (await get(`/v1/runs/${id}/events?limit=3`, headers)).json();
  expect(first).toMatchObject({ next_cursor: 3, done: false, events: [{}, { text: "Hi" }, {}] });
  const rest = await (await get(`/v1/runs/${id}/events?cursor=3`, headers)).json();
  expect(rest).toMatchObject({ next_cursor: 4, done: true, events: [{ type: "run_ended" }] });
});

test("a bad cursor and an unknown run are refused", async () => {
  const { run_id: id } = await fixture.run("helper", [{ text: "Hi" }]);
  for (const cursor of ["x", "-1", "1.5", ""]) {
    const answer = await get(`/v1/runs/${id}/events?cursor=${cursor}`);
    expect([400, cursor === "" ? 200 : 400]).toContain(answer.status);
    await answer.body?.cancel();
  }
  expect((await get("/v1/runs/run_none/events")).status).toBe(404);
  expect((await get("/v1/runs/run_none")).status).toBe(404);
});

test("events arrive while the run continues", async () => {
  fixture.model.play([{ text: "One. ", hang: true }]);
  const id = await fixture.client.execute("helper", { task: "x" });
  expect(await fixture.until(id, "text")).toMatchObject({ text: "One. " });
  await fixture.client.cancel(id);
});

test("runs are listed newest first, by agent and status, page by page", async () => {
  await using other = await AgentFixture.start({ agents: { a: agent(""), b: agent("") } });
  const ids: string[] = [];
  for (const name of ["a", "b", "a", "a"])
    ids.unshift((await other.run(name, [{ text: "ok" }])).run_id);
  const first = await other.client.runs({ limit: 3 });
  expect(first.runs.map(({ run_id: id }) => id)).toEqual(ids.slice(0, 3));
  const second = await other.client.runs({ limit: 3, cursor: first.next_cursor });
  expect(second).toMatchObject({ runs: [{ run_id: ids[3] }] });
  expect(second.next_cursor).toBeUndefined();
  expect((await other.client.runs({ agent: "b" })).runs).toHaveLength(1);
  expect((await other.client.runs({ status: "failed" })).runs).toEqual([]);
});

test("large values are omitted from lists, which say so, and included in the run itself", async () => {
  const large = "x".repeat(20_000);
  await using other = await AgentFixture.start({
    agents: { a: agent("input: { schema: { text?: string } }\noutput: { format: json }") },
  });
  const { run_id: id } = await other.run("a", [{ text: JSON.stringify(large) }], {
    task: large,
    input: { text: large },
  });
  const [listed] = (await other.client.runs()).runs;
  expect(listed).toMatchObject({
    run_id: id,
    status: "succeeded",
    task_omitted: true,
    task_bytes: 20_000,
    input_omitted: true,
    input_bytes: 20_011,
    output_omitted: true,
    output_bytes: 20_002,
    text_omitted: true,
    text_bytes: 20_002,
  });
  for (const name of ["task", "input", "output", "text"]) expect(listed).not.toHaveProperty(name);
  expect(await other.client.run(id)).toMatchObject({
    task: large,
    input: { text: large },
    output: large,
  });
});

test("agents are listed and shown, including invalid ones", async () => {
  expect(await fixture.client.agents()).toMatchObject([
    { name: "bad", error: expect.stringMatching(/^agents\/bad\.prompt:1:1: /) as string },
    { name: "helper", model: "openai/tiny", mode: "none" },
  ]);
  expect(await fixture.client.agent("helper")).toMatchObject({
    max_steps: 40,
    timeout_seconds: 300,
    prompt: expect.stringContaining("{{userInput}}") as string,
  });
  expect(await fixture.client.agent("bad")).toMatchObject({
    error: expect.stringMatching(/frontmatter/) as string,
  });
  await expect(fixture.client.execute("bad")).rejects.toMatchObject({ status: 400 });
  await expect(fixture.client.agent("none")).rejects.toMatchObject({ code: "AGENT_NOT_FOUND" });
});

test("bodies of /execute are validated", async () => {
  const post = async (body: string, type = "application/json") =>
    await fetch(`${fixture.service.url}/execute`, {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
  for (const body of ["{}", '{"agent_name":7}', '{"agent_name":"helper","tsak":"x"}', "[]", "null"])
    expect([body, (await post(body)).status]).toEqual([body, 400]);
  expect((await post('{"agent_name":"helper"}', "text/plain")).status).toBe(415);
});

/** Requests events and never reads the response. */
async function stuckReader(path: string): Promise<Socket> {
  const { hostname, port } = new URL(fixture.service.url);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`);
  return socket;
}

test("readers that do not read use hardly any memory", async () => {
  const { run_id: id } = await fixture.run("helper", [{ text: "Hi" }]);
  using database = new DatabaseSync(join(fixture.dir, ".sandkasten", "agents.db"));
  const insert = database.prepare("INSERT INTO run_events VALUES (?, ?, '', 'text', ?)");
  const data = JSON.stringify({ text: "x".repeat(50_000) });
  // In one transaction: each one separately would wait for the disk.
  database.exec("BEGIN");
  for (let seq = 5; seq < 2005; seq++) insert.run(id, seq, data);
  database.exec("COMMIT");
  const before = process.memoryUsage().rss;
  const readers = await Promise.all(
    Array.from({ length: 5 }, () => stuckReader(`/v1/runs/${id}/events`)),
  );
  let most = 0;
  for (let look = 0; look < 30; look++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    most = Math.max(most, process.memoryUsage().rss - before);
  }
  for (const reader of readers) reader.destroy();
  // All events for all readers would be 500 MB.
  expect(most).toBeLessThan(120_000_000);
  expect(await streamed(`/v1/runs/${id}/events`)).toHaveLength(2004);
});
