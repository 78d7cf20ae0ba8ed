import { once } from "node:events";
import { keySchema } from "@sandkasten/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";
import { readEvents } from "../../testing/read-events.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function createKey(body: object) {
  const { status, json } = await http.call("/v1/keys", { body });
  expect(status).toBe(201);
  return json as { id: string; key: string; owner: string; expires_at?: string };
}

async function revoke(id: string, key = ALICES_KEY) {
  return await http.call(`/v1/keys/${id}`, { method: "DELETE", key });
}

/** Resolves when a stream has ended, by being closed or otherwise. */
async function endOf(stream: AsyncIterable<unknown>): Promise<void> {
  try {
    for await (const _ of stream);
  } catch {
    // It was closed.
  }
}

describe("keys", () => {
  it("are created by an administrator, work at once, and are shown once", async () => {
    const made = await createKey({ name: "ci", owner: "team" });
    expect(made.key).toMatch(/^sk-sandbox-key_[0-9a-f]{16}-[A-Za-z0-9_-]{43}$/);
    const { status, json } = await http.call("/v1/sessions", { key: made.key, body: {} });
    expect(status).toBe(201);
    // Another key of the same owner has the same sessions; only the owner counts.
    const second = await createKey({ name: "laptop", owner: "team" });
    expect((await http.call(`/v1/sessions/${json.id}`, { key: second.key })).status).toBe(200);
    expect((await http.call(`/v1/sessions/${json.id}`, { key: BOBS_KEY })).status).toBe(404);
    const list = await http.call("/v1/keys");
    expect(list.text).not.toContain(made.key);
    expect(list.text).not.toContain(made.key.slice(-43));
    for (const key of list.json.keys) expect(keySchema.parse(key)).toEqual(key);
    const found = list.json.keys.find(({ id }: { id: string }) => id === made.id);
    expect(found).toMatchObject({ name: "ci", owner: "team", scope: "use", source: "stored" });
    expect(found.last_used_at).toBeDefined();
    expect(http.logLines.join("")).not.toContain(made.key);
  });

  it("are stored only as digests", async () => {
    const made = await createKey({ name: "hidden" });
    const { readFile, readdir } = await import("node:fs/promises");
    for (const name of await readdir(http.directory))
      if (name.startsWith("keys.db"))
        expect(
          `${name} ${(await readFile(`${http.directory}/${name}`)).includes(made.key.slice(-43))}`,
        ).toBe(`${name} false`);
  });

  it("have their own limits", async () => {
    const { key } = await createKey({ name: "small", max_sessions: 1 });
    expect((await http.call("/v1/sessions", { key, body: {} })).status).toBe(201);
    const second = await http.call("/v1/sessions", { key, body: {} });
    expect([second.status, second.json.error_code]).toEqual([429, "QUOTA_EXCEEDED"]);
  });

  it("can be managed by an administrator only", async () => {
    const { id } = await createKey({ name: "target" });
    const { key: read } = await createKey({ name: "reader", scope: "read" });
    for (const key of [BOBS_KEY, read])
      for (const answer of [
        await http.call("/v1/keys", { key, body: { name: "mine", scope: "admin" } }),
        await http.call("/v1/keys", { key }),
        await revoke(id, key),
      ])
        expect([answer.status, answer.json.error_code]).toEqual([403, "FORBIDDEN"]);
    const { key: admin } = await createKey({ name: "second-admin", scope: "admin" });
    expect((await http.call("/v1/keys", { key: admin })).status).toBe(200);
  });

  it("do not give access to sessions of others; with the scope admin, they list them", async () => {
    const { json: session } = await http.call("/v1/sessions", { key: BOBS_KEY, body: {} });
    const { key: user } = await createKey({ name: "user" });
    expect((await http.call("/v1/sessions", { key: user })).json).toEqual([]);
    const { key } = await createKey({ name: "curious", scope: "admin" });
    expect((await http.call("/v1/sessions", { key })).text).toContain(session.id);
    const exec = { key, body: { cmd: "true" } };
    for (const answer of [
      await http.call(`/v1/sessions/${session.id}`, { key: user }),
      await http.call(`/v1/sessions/${session.id}`, { key: user, method: "DELETE" }),
      await http.call(`/v1/sessions/${session.id}/exec`, exec),
    ])
      expect([answer.status, answer.json.error_code]).toEqual([404, "SESSION_NOT_FOUND"]);
    const events = await http.call("/v1/events?follow=false&owner=bob", { key });
    expect(events.text).toContain(session.id);
  });

  it("from the configuration are listed, and cannot be revoked here", async () => {
    const { json } = await http.call("/v1/keys");
    expect(json.keys[0]).toEqual({
      id: "config-alice",
      name: "alice",
      owner: "alice",
      scope: "admin",
      source: "config",
    });
    const answer = await revoke("config-bob");
    expect([answer.status, answer.json.error_code]).toEqual([409, "CONFLICT"]);
    expect(answer.json.message).toContain("configuration");
    expect((await http.call("/v1/sessions", { key: BOBS_KEY })).status).toBe(200);
    const unknown = await revoke("key_0000000000000000");
    expect([unknown.status, unknown.json.error_code]).toEqual([404, "KEY_NOT_FOUND"]);
  });

  it("reject invalid names, scopes and limits", async () => {
    for (const body of [
      {},
      { name: "" },
      { name: "a b" },
      { name: "a".repeat(65) },
      { name: "a", owner: "jwt:somebody" },
      { name: "a", scope: "root" },
      { name: "a", expires_in_seconds: 0 },
      { name: "a", max_sessions: -1 },
    ])
      expect([body, (await http.call("/v1/keys", { body })).status]).toEqual([body, 400]);
  });

  it("with small differences are refused", async () => {
    const { key, id } = await createKey({ name: "near" });
    const other = await createKey({ name: "other" });
    for (const wrong of [
      key.slice(0, -1),
      `${key}A`,
      key.toUpperCase(),
      key.replace(id, other.id),
      key.replace(id, "key_0000000000000000"),
      `sk-sandbox-${id}-${"A".repeat(43)}`,
      id,
    ])
      expect([wrong, (await http.call("/v1/sessions", { key: wrong })).status]).toEqual([
        wrong,
        401,
      ]);
  });
});

describe("a revoked key", () => {
  it("is refused at once, and can be revoked again", async () => {
    const { key, id } = await createKey({ name: "gone" });
    expect((await http.call("/v1/sessions", { key })).status).toBe(200);
    expect((await revoke(id)).status).toBe(200);
    expect((await revoke(id)).status).toBe(200);
    expect((await http.call("/v1/sessions", { key })).status).toBe(401);
    const { json } = await http.call("/v1/keys");
    const found = json.keys.find((one: { id: string }) => one.id === id);
    expect(found.revoked_at).toBeDefined();
    const events = await http.call("/v1/events?follow=false&types=key");
    expect(events.text).toContain(`"key_id":"${id}"`);
    expect(events.text).toContain("key.revoked");
    expect(events.text).not.toContain(key);
  });

  it("loses its streams and terminals at once, and no other key does", async () => {
    const { key, id } = await createKey({ name: "cut" });
    const { key: kept } = await createKey({ name: "kept", owner: "cut" });
    const { json: session } = await http.call("/v1/sessions", { key, body: {} });
    const stream = readEvents(await http.fetch("/v1/events", { key }));
    const others = readEvents(await http.fetch("/v1/events", { key: kept }));
    await stream.next();
    await others.next();
    const socket = new WebSocket(`ws://127.0.0.1:${http.port}/v1/sessions/${session.id}/pty`, {
      headers: { authorization: `Bearer ${key}` },
    });
    await once(socket, "open");
    const closed = once(socket, "close");
    const ended = endOf(stream);
    await revoke(id);
    await ended;
    await closed;
    await http.call(`/v1/sessions/${session.id}/exec`, { key: kept, body: { cmd: "true" } });
    expect((await others.next()).value?.event).toBe("event");
    await others.return(undefined);
  });
});

describe("a key that expires", () => {
  it("shows when, works until then, and never after", async () => {
    const { key, expires_at: expiresAt } = await createKey({
      name: "brief",
      expires_in_seconds: 1,
    });
    expect(Date.parse(expiresAt ?? "")).toBeGreaterThan(Date.now());
    const stream = readEvents(await http.fetch("/v1/events", { key }));
    await stream.next();
    // The stream is closed, too.
    await endOf(stream);
    await expect
      .poll(async () => (await http.call("/v1/sessions", { key })).status, { timeout: 5000 })
      .toBe(401);
  });
});
