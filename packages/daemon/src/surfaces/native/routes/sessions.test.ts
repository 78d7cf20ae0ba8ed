import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";

let http: HttpFixture;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

describe("POST /v1/sessions", () => {
  it("returns 201 and the session", async () => {
    const answer = await http.call("/v1/sessions", {
      body: {
        image: "python:3",
        ttl_seconds: 30,
        workspace_id: "notes-1",
        env: { A: "b" },
        limits: { memory_mb: 512 },
        network: false,
        metadata: { purpose: "test" },
      },
    });
    expect(answer.status).toBe(201);
    const { id } = answer.json;
    expect(answer.json).toMatchObject({
      id: expect.stringMatching(/^[A-Za-z0-9_-]+$/) as string,
      session_id: id,
      sandbox_id: id,
      image: "python:3",
      status: "running",
      cwd: "/workspace",
      acquire_source: "cold",
      workspace_id: "notes-1",
      limits: { memory_mb: 512, disk_mb: 64 },
      metadata: { purpose: "test" },
      ttl_seconds: 30,
      created_at: "2026-01-01T00:00:00.000Z",
      expires_at: "2026-01-01T00:00:30.000Z",
    });
    expect((await http.call(`/v1/sessions/${id}`)).json).toEqual(answer.json);
    const run = await http.call(`/v1/sessions/${id}/exec`, { body: { cmd: "printenv A" } });
    expect(run.json.output).toBe("b\n");
  });

  it("returns 200 and the active session for a key", async () => {
    const body = { key: "agent:run_1" };
    const first = await http.call("/v1/sessions", { body });
    const second = await http.call("/v1/sessions", { body });
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.json.id).toBe(first.json.id);
    expect(first.json).toMatchObject({
      key: "agent:run_1:default",
      session_alias: "agent_run_1_sandbox",
    });
  });

  it("creates one session for a repeated request", async () => {
    const call = { body: { metadata: { n: "1" } }, headers: { "idempotency-key": "once" } };
    const first = await http.call("/v1/sessions", call);
    const second = await http.call("/v1/sessions", call);
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.json.id).toBe(first.json.id);
    const other = await http.call("/v1/sessions", { ...call, body: { metadata: { n: "2" } } });
    expect(other).toMatchObject({ status: 409, json: { error_code: "CONFLICT" } });
  });

  it.each([
    [{ image: "nothing" }, 400, "INVALID_IMAGE"],
    [{ ttl_seconds: 86_401 }, 400, "INVALID_REQUEST"],
    [{ workspace_id: "-x" }, 400, "INVALID_REQUEST"],
    [{ key: "other:x" }, 400, "INVALID_REQUEST"],
    [{ limits: { memory_mb: 999_999 } }, 400, "INVALID_REQUEST"],
    [{ network: "full" }, 403, "PERMISSION_DENIED"],
    [{ network: true }, 403, "PERMISSION_DENIED"],
  ])("refuses %j", async (body, status, code) => {
    const answer = await http.call("/v1/sessions", { body });
    expect(answer).toMatchObject({ status, json: { error_code: code } });
  });
});

describe("GET /v1/sessions", () => {
  it("returns an array, newest first, and the next cursor in a header", async () => {
    await using own = await HttpFixture.start();
    const ids: string[] = [];
    for (const n of ["1", "2", "3"]) {
      own.core.clock.pass(1000);
      ids.unshift(await own.createSession({ metadata: { n, all: "yes" } }));
    }
    const first = await own.call("/v1/sessions?limit=2");
    expect(first.json.map((one: { id: string }) => one.id)).toEqual(ids.slice(0, 2));
    const cursor = first.headers.get("x-next-cursor") ?? "";
    const second = await own.call(`/v1/sessions?limit=2&cursor=${encodeURIComponent(cursor)}`);
    expect(second.json.map((one: { id: string }) => one.id)).toEqual(ids.slice(2));
    expect(second.headers.has("x-next-cursor")).toBe(false);
    const filtered = await own.call("/v1/sessions?metadata=n=2&metadata=all=yes&status=running");
    expect(filtered.json.map((one: { id: string }) => one.id)).toEqual([ids[1]]);
    expect((await own.call("/v1/sessions?metadata=n")).status).toBe(400);
    expect((await own.call("/v1/sessions", { key: BOBS_KEY })).json).toEqual([]);
  });
});

describe("a list of sessions", () => {
  it("has every active session on its first page, however many have ended since", async () => {
    await using own = await HttpFixture.start();
    const living: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      own.core.clock.pass(1000);
      living.unshift(await own.createSession());
    }
    for (let n = 0; n < 101; n += 1) {
      own.core.clock.pass(10);
      const id = await own.createSession();
      await own.call(`/v1/sessions/${id}`, { method: "DELETE" });
    }
    const idsOf = async (query: string): Promise<string[]> =>
      ((await own.call(`/v1/sessions${query}`)).json as { id: string }[]).map(({ id }) => id);
    expect((await idsOf("")).slice(0, 3)).toEqual(living);
    expect(await idsOf("?limit=2")).toEqual(living.slice(0, 2));
  });

  it("does not list a session as running if its lease has ended", async () => {
    await using own = await HttpFixture.start();
    const id = await own.createSession({ ttl_seconds: 5 });
    own.core.clock.pass(5_001);
    expect((await own.call(`/v1/sessions/${id}`)).json.status).toBe("expired");
    expect((await own.call("/v1/sessions")).json).toMatchObject([{ id, status: "expired" }]);
    expect((await own.call("/v1/sessions?status=running")).json).toEqual([]);
  });
});

describe("a session", () => {
  it("can be destroyed repeatedly, and never if it does not exist", async () => {
    const id = await http.createSession();
    const removal = { method: "DELETE" };
    expect(await http.call(`/v1/sessions/${id}`, removal)).toMatchObject({
      status: 200,
      json: { ok: true },
    });
    expect(await http.call(`/v1/sessions/${id}`, removal)).toMatchObject({
      status: 200,
      json: { ok: true },
    });
    expect(await http.call("/v1/sessions/ses_none", removal)).toMatchObject({
      status: 404,
      json: { error_code: "SESSION_NOT_FOUND" },
    });
    expect((await http.call(`/v1/sessions/${id}`)).json).toMatchObject({ status: "destroyed" });
    const run = await http.call(`/v1/sessions/${id}/exec`, { body: { cmd: "true" } });
    expect(run).toMatchObject({ status: 404, json: { error_code: "SESSION_NOT_FOUND" } });
  });

  it("returns 410 after it has expired", async () => {
    await using own = await HttpFixture.start();
    const id = await own.createSession({ ttl_seconds: 1 });
    own.core.clock.pass(2000);
    const run = await own.call(`/v1/sessions/${id}/exec`, { body: { cmd: "true" } });
    expect(run).toMatchObject({ status: 410, json: { error_code: "SESSION_EXPIRED" } });
  });

  it("can be paused, resumed, renewed and measured", async () => {
    const id = await http.createSession();
    const act = async (name: string, body?: object) =>
      await http.call(`/v1/sessions/${id}/${name}`, { method: "POST", ...(body && { body }) });
    expect((await act("pause")).json).toMatchObject({ status: "paused" });
    expect(await http.call(`/v1/sessions/${id}/exec`, { body: { cmd: "true" } })).toMatchObject({
      status: 409,
      json: { error_code: "CONFLICT" },
    });
    expect((await act("resume")).json).toMatchObject({ status: "running" });
    expect((await act("renew", { ttl_seconds: 90 })).json).toMatchObject({ ttl_seconds: 90 });
    expect((await act("renew")).json).toMatchObject({ ttl_seconds: 90 });
    expect((await http.call(`/v1/sessions/${id}/stats`)).json).toMatchObject({
      memory_limit: 268_435_456,
      oom_kills: 0,
    });
    expect((await http.call(`/v1/sessions/${id}/isolation`)).json).toMatchObject({ tier: "weak" });
  });
});
