import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BOB } from "../../../sessions/testing/core-fixture.ts";
import type { OpenApiDocument } from "../../native/openapi/openapi.ts";
import { ALICES_KEY, BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";

const READ_KEY = "bobs-read-key-0123456789";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start({
    callers: [
      { key: ALICES_KEY, caller: { ...BOB, owner: "alice", isAdmin: true } },
      { key: BOBS_KEY, caller: BOB },
      { key: READ_KEY, caller: { ...BOB, isReadOnly: true } },
    ],
  });
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function documentedRoutes(): Promise<{ path: string; method: string }[]> {
  const { paths } = (await http.call("/openapi.json")).json as OpenApiDocument;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
  );
}

/** Requests that only an administrator can send; with a valid body if one is needed. */
const OF_ADMINISTRATORS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["GET /metrics", undefined],
  ["GET /v1/metrics", undefined],
  ["POST /v1/images/gc", undefined],
  ["GET /v1/keys", undefined],
  ["POST /v1/keys", { name: "another", owner: "bob" }],
  ["DELETE /v1/keys/{id}", undefined],
]);

describe("a key with the scope use", () => {
  it("is refused on all administrator routes of the document", async () => {
    const refused: string[] = [];
    for (const { path, method } of await documentedRoutes()) {
      const route = `${method} ${path}`;
      const body = OF_ADMINISTRATORS.get(route);
      const filled = path.replace(/\{\w+\}/gu, "1");
      const status = async (key: string): Promise<number> => {
        // Only the head: a feed of events has no end.
        const gone = new AbortController();
        const call = { method, key, signal: gone.signal, ...(body !== undefined && { body }) };
        const answer = await http.fetch(filled, call);
        gone.abort();
        return answer.status;
      };
      if ((await status(BOBS_KEY)) !== 403) continue;
      refused.push(route);
      expect([route, await status(ALICES_KEY)]).not.toEqual([route, 403]);
    }
    expect(refused.toSorted()).toEqual([...OF_ADMINISTRATORS.keys()].toSorted());
  });
});

describe("a key with the scope read", () => {
  it("is refused on every route of the document that can change something, before the body is read", async () => {
    const { json: session } = await http.call("/v1/sessions", { key: BOBS_KEY, body: {} });
    const changing = (await documentedRoutes()).filter(
      ({ method, path }) =>
        (method !== "GET" && method !== "HEAD") || /\/(pty|connect)$|\/proxy\//.test(path),
    );
    expect(changing.length).toBeGreaterThan(40);
    for (const { path, method } of changing) {
      const filled = path.replace("{id}", session.id).replace(/\{\w+\}/g, "1");
      const answer = await http.call(filled, { method, key: READ_KEY });
      const code = method === "HEAD" ? "FORBIDDEN" : answer.json.error_code;
      expect([method, path, answer.status, code]).toEqual([method, path, 403, "FORBIDDEN"]);
      if (method !== "HEAD") expect(answer.json.message).toContain("use scope");
    }
    expect((await http.call(`/v1/sessions/${session.id}`, { key: BOBS_KEY })).json.status).toBe(
      "running",
    );
  });

  it("is refused for methods that no route has, and gets 404 for unknown paths", async () => {
    expect((await http.call("/v1/nothing", { method: "POST", key: READ_KEY })).status).toBe(404);
    expect((await http.call("/v1/sessions", { method: "PATCH", key: READ_KEY })).status).toBe(404);
  });

  it("can read sessions, files, commands and events", async () => {
    const { json: session } = await http.call("/v1/sessions", { key: BOBS_KEY, body: {} });
    const base = `/v1/sessions/${session.id}`;
    await http.call(`${base}/fs/write`, { key: BOBS_KEY, body: { path: "a", text: "content" } });
    const { json: exec } = await http.call(`${base}/exec`, {
      key: BOBS_KEY,
      body: { cmd: "echo hello" },
    });
    for (const path of [
      "/v1/sessions",
      base,
      `${base}/stats`,
      `${base}/fs`,
      `${base}/fs/file?path=a`,
      `${base}/execs`,
      `${base}/execs/${exec.exec_id}`,
      `${base}/execs/${exec.exec_id}/output`,
      `${base}/execs/${exec.exec_id}/stream`,
      `${base}/events?follow=false`,
      "/v1/events?follow=false",
      "/v1/workspaces",
      "/v1/images",
      "/v1/version",
    ])
      expect([path, (await http.call(path, { key: READ_KEY })).status]).toEqual([path, 200]);
  });

  it("does not renew a session by reading it", async () => {
    const { json: session } = await http.call("/v1/sessions", {
      key: BOBS_KEY,
      body: { ttl_seconds: 60 },
    });
    const base = `/v1/sessions/${session.id}`;
    const { json: exec } = await http.call(`${base}/exec`, {
      key: BOBS_KEY,
      body: { cmd: "echo hello" },
    });
    const endOf = async () => (await http.call(base, { key: BOBS_KEY })).json.expires_at as string;
    const before = await endOf();
    http.core.clock.pass(30_000);
    for (const path of [
      `${base}/fs`,
      `${base}/ports`,
      `${base}/shells`,
      `${base}/stats`,
      `${base}/isolation`,
      `${base}/execs/${exec.exec_id}/output`,
      `${base}/execs/${exec.exec_id}/stream`,
    ]) {
      await http.call(path, { key: READ_KEY });
      expect([path, await endOf()]).toEqual([path, before]);
    }
    await http.call(`${base}/fs`, { key: BOBS_KEY });
    expect(await endOf()).not.toBe(before);
    http.core.clock.pass(61_000);
    const late = await http.call(`${base}/fs`, { key: READ_KEY });
    expect([late.status, late.json.error_code]).toEqual([410, "SESSION_EXPIRED"]);
  });

  it("does not hold a session open while it watches", async () => {
    const { json: session } = await http.call("/v1/sessions", {
      key: BOBS_KEY,
      body: { ttl_seconds: 60 },
    });
    const gone = new AbortController();
    const watch = await http.fetch(`/v1/sessions/${session.id}/fs/watch`, {
      key: READ_KEY,
      signal: gone.signal,
    });
    expect(watch.status).toBe(200);
    http.core.clock.pass(61_000);
    await http.core.core.reaper.endOver();
    const { json } = await http.call(`/v1/sessions/${session.id}`, { key: BOBS_KEY });
    expect(json.status).toBe("expired");
    gone.abort();
  });
});
