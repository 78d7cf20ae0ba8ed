import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ALICES_KEY,
  BOBS_KEY,
  HttpFixture,
} from "../../daemon/src/surfaces/testing/http-fixture.ts";
import { SandboxClient } from "./client.ts";
import { cut, ScriptedServer } from "./testing/scripted-server.ts";
import { clientOf } from "./testing/wire-samples.ts";

let daemon: HttpFixture;
let admin: SandboxClient;
beforeAll(async () => {
  daemon = await HttpFixture.start();
  admin = clientWith(ALICES_KEY);
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

function clientWith(apiKey: string): SandboxClient {
  return new SandboxClient({ baseUrl: daemon.url, apiKey, retryDelayMs: 1 });
}

test("a key is created, listed without itself, used and revoked", async () => {
  const limits = { maxSessions: 1, maxRunningExecs: 2, maxImageBytes: 3 };
  const made = await admin.keys.create("ci", { owner: "team", expiresInSeconds: 60, ...limits });
  expect(made).toMatchObject({
    name: "ci",
    owner: "team",
    scope: "use",
    source: "stored",
    ...limits,
    max_sessions: 1,
  });
  expect(Date.parse(made.expiresAt ?? "") - Date.parse(made.createdAt ?? "")).toBe(60_000);
  const team = clientWith(made.key);
  const session = await team.createSession();
  expect(session.lastInfo.status).toBe("running");

  const listed = await admin.keys.list();
  expect(JSON.stringify(listed)).not.toContain(made.key);
  expect(listed.map(({ name, source }) => [name, source])).toEqual([
    ["alice", "config"],
    ["bob", "config"],
    ["ci", "stored"],
  ]);

  const stream = session.events({ from: "start" });
  await stream.next();
  await admin.keys.revoke(made.id);
  await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  await expect(team.listSessions()).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  const after = (await admin.keys.list()).find(({ id }) => id === made.id);
  expect(after?.revokedAt).toBeDefined();
});

test("options can have the names of the HTTP API", async () => {
  const made = await admin.keys.create("snake", { expires_in_seconds: 60, max_sessions: 4 });
  expect([made.expires_at, made.maxSessions]).toEqual([made.expiresAt, 4]);
});

test("a key with the scope read changes nothing, and manages no keys", async () => {
  const { key } = await admin.keys.create("reader", { owner: "alice", scope: "read" });
  const reader = clientWith(key);
  const { id } = await admin.createSession();
  expect((await reader.getSession(id)).id).toBe(id);
  await expect(reader.createSession()).rejects.toMatchObject({ code: "FORBIDDEN" });
  for (const { keys } of [reader, clientWith(BOBS_KEY)]) {
    await expect(keys.create("mine", { scope: "admin" })).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
    await expect(keys.list()).rejects.toMatchObject({ code: "FORBIDDEN" });
  }
});

test("creating a key is not retried: a second response would be a second key", async () => {
  await using server = await ScriptedServer.start(cut);
  const { keys } = clientOf(server);
  await expect(keys.create("ci")).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
  expect(server.lines).toEqual(["POST /v1/keys"]);
});
