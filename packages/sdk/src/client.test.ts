import { afterEach, describe, expect, test, vi } from "vitest";
import { SandboxClient } from "./client.ts";
import { cut, failure, json, ScriptedServer } from "./testing/scripted-server.ts";
import { clientOf, sessionBody } from "./testing/wire-samples.ts";

describe("new SandboxClient()", () => {
  test.each(["not a url", "ftp://host", "http://me:secret@host", "http://host/?a=1"])(
    "refuses the base URL %s",
    (baseUrl) => {
      expect(() => new SandboxClient({ baseUrl })).toThrow(/baseUrl must/);
    },
  );

  describe("in an environment with SANDKASTEN_URL and SANDKASTEN_API_KEY", () => {
    afterEach(() => {
      vi.unstubAllEnvs();
      vi.unstubAllGlobals();
    });

    test("uses both if options are absent, and neither if they are given", async () => {
      await using server = await ScriptedServer.start(
        ...Array(4).fill(json(200, { status: "ok" })),
      );
      vi.stubEnv("SANDKASTEN_URL", server.url);
      vi.stubEnv("SANDKASTEN_API_KEY", "from-the-environment");
      await new SandboxClient().health();
      await new SandboxClient({ baseUrl: server.url, apiKey: "given" }).health();
      await new SandboxClient({ apiKey: null }).health();
      vi.stubEnv("SANDKASTEN_API_KEY", "");
      await new SandboxClient().health();
      expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
        "Bearer from-the-environment",
        "Bearer given",
        undefined,
        undefined,
      ]);
    });

    test("needs no process, which browsers do not have", () => {
      vi.stubGlobal("process", undefined);
      expect(() => new SandboxClient()).not.toThrow();
    });
  });

  test.each(["", "with space", "naïve", "line\nbreak"])("refuses the key %j", (apiKey) => {
    expect(() => new SandboxClient({ apiKey })).toThrow(/apiKey must/);
  });
});

describe("createSession()", () => {
  test("sends options with their names in the API", async () => {
    await using server = await ScriptedServer.start(json(201, sessionBody));
    const session = await clientOf(server).createSession({
      image: "python",
      ttlSeconds: 60,
      workspaceId: "notes",
      workspaces: [
        { id: "data", path: "/mnt/data", readOnly: true },
        { id: "more", path: "/srv" },
      ],
      key: "agent:a_1",
      env: { MY_VAR: "1" },
      limits: { memoryMb: 64, diskInodes: 1000 },
      network: "none",
      profile: "root",
      metadata: { my_tag: "x" },
    });
    expect(server.lines).toEqual(["POST /v1/sessions"]);
    expect(server.json(0)).toEqual({
      image: "python",
      ttl_seconds: 60,
      workspace_id: "notes",
      workspaces: [
        { id: "data", path: "/mnt/data", read_only: true },
        { id: "more", path: "/srv" },
      ],
      key: "agent:a_1",
      env: { MY_VAR: "1" },
      limits: { memory_mb: 64, disk_inodes: 1000 },
      network: "none",
      profile: "root",
      metadata: { my_tag: "x" },
    });
    expect(session.id).toBe("ses_1");
  });

  test("says whether the session is new or the active one of a key", async () => {
    await using server = await ScriptedServer.start(
      json(201, sessionBody),
      json(200, sessionBody),
      json(200, sessionBody),
    );
    const client = clientOf(server);
    expect((await client.createSession({ key: "agent:a_1" })).created).toBe(true);
    expect((await client.createSession({ key: "agent:a_1" })).created).toBe(false);
    expect((await client.getSession("ses_1")).created).toBe(false);
  });

  test("returns the session in camelCase, and does not change the caller's own names", async () => {
    await using server = await ScriptedServer.start(json(201, sessionBody));
    const { lastInfo: info } = await clientOf(server).createSession();
    expect(info).toEqual({
      id: "ses_1",
      image: "host",
      status: "running",
      backend: "oci",
      cwd: "/workspace",
      acquireSource: "cold",
      workspaceId: "notes",
      workspaces: [{ id: "data", path: "/mnt/data", readOnly: true }],
      profile: "restricted",
      network: "none",
      isolationLevel: "standard",
      limits: { memoryMb: 512, cpuMillicores: 1000, pids: 256, diskMb: 512, diskInodes: 65_536 },
      metadata: { my_tag: "a_b" },
      ttlSeconds: 1800,
      createdAt: "2026-01-31T12:00:00.000Z",
      expiresAt: "2026-01-31T12:30:00.000Z",
      maxExpiresAt: "2026-01-31T16:00:00.000Z",
      lastActivityAt: "2026-01-31T12:00:00.000Z",
    });
  });

  test("creates one session if the response is lost, and another for each call", async () => {
    const made = json(201, sessionBody);
    await using server = await ScriptedServer.start(cut, made, made, made);
    const client = clientOf(server);
    await client.createSession();
    await client.createSession();
    await client.createSession({ idempotencyKey: "mine" });
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).toMatch(/^[\da-f-]{36}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys[3]).toBe("mine");
  });
});

describe("sessions", () => {
  test("getSession() finds one by its id, which can be any string", async () => {
    await using server = await ScriptedServer.start(
      json(200, sessionBody),
      failure(404, "SESSION_NOT_FOUND"),
    );
    const client = clientOf(server);
    expect((await client.getSession("ses_1")).status).toBe("running");
    await expect(client.getSession("../x?y")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    expect(server.lines).toEqual(["GET /v1/sessions/ses_1", "GET /v1/sessions/..%2Fx%3Fy"]);
  });

  test("listSessions() returns a page with its filter and the next cursor", async () => {
    await using server = await ScriptedServer.start(
      json(200, [sessionBody], { "X-Next-Cursor": "c1" }),
    );
    const page = await clientOf(server).listSessions({
      status: "running",
      metadata: { a: "1", b: "x=y" },
      limit: 1,
    });
    expect(server.lines).toEqual([
      "GET /v1/sessions?status=running&limit=1&metadata=a%3D1&metadata=b%3Dx%3Dy",
    ]);
    expect(page.map(({ id }) => id)).toEqual(["ses_1"]);
    expect(page.nextCursor).toBe("c1");
  });

  test("sessions() iterates over all pages, and requests no more than needed", async () => {
    const page = (id: string, headers = {}) => json(200, [{ ...sessionBody, id }], headers);
    await using server = await ScriptedServer.start(
      page("ses_1", { "X-Next-Cursor": "c1" }),
      page("ses_2"),
      page("ses_1", { "X-Next-Cursor": "c1" }),
    );
    const client = clientOf(server);
    const ids: string[] = [];
    for await (const { id } of client.sessions({ key: "agent:a" })) ids.push(id);
    expect(ids).toEqual(["ses_1", "ses_2"]);
    for await (const _ of client.sessions()) break;
    expect(server.lines).toEqual([
      "GET /v1/sessions?key=agent%3Aa",
      "GET /v1/sessions?key=agent%3Aa&cursor=c1",
      "GET /v1/sessions",
    ]);
  });
});

test("health() and version() ask the daemon", async () => {
  const version = { version: "0.1.0", backend: "oci", node: "v24.0.0" };
  await using server = await ScriptedServer.start(json(200, { status: "ok" }), json(200, version));
  const client = clientOf(server);
  expect(await client.health()).toEqual({ status: "ok" });
  expect(await client.version()).toEqual(version);
  expect(server.lines).toEqual(["GET /healthz", "GET /v1/version"]);
});

test("workspaces can be listed, examined, deleted, and have files", async () => {
  const notes = {
    id: "notes",
    created_at: "2026-01-31T12:00:00.000Z",
    last_used_at: "2026-01-31T12:00:00.000Z",
    sessions: ["ses_1"],
  };
  await using server = await ScriptedServer.start(
    json(200, { workspaces: [notes] }),
    json(200, { workspaces: [notes] }),
    json(200, notes),
    json(200, { ok: true }),
    json(200, { path: "/workspace", entries: [] }),
  );
  const client = clientOf(server);
  const { workspaces } = client;
  expect(await client.listWorkspaces()).toMatchObject([{ id: "notes" }]);
  expect(await workspaces.list()).toMatchObject([{ id: "notes", sessions: ["ses_1"] }]);
  expect(await workspaces.get("notes")).toMatchObject({ lastUsedAt: "2026-01-31T12:00:00.000Z" });
  await client.deleteWorkspace("notes");
  expect(await Array.fromAsync(workspaces.files("notes").list())).toEqual([]);
  expect(server.lines).toEqual([
    "GET /v1/workspaces",
    "GET /v1/workspaces",
    "GET /v1/workspaces/notes",
    "DELETE /v1/workspaces/notes",
    "GET /v1/workspaces/notes/fs",
  ]);
});
